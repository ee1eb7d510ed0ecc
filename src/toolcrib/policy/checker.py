"""Predict the result of a call without running it: find the tool, validate the arguments, judge them.

`bare` judges the arguments alone, without configuration, mode, rules, approval or sandbox. Without a person to ask and
without a sandbox, some judgements of paths then differ from those in a call: reading outside the workspace asks,
because nothing is granted and nothing is forbidden; reading a file of secrets is denied.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from ..boundary.path_judgement import RULE_OUTSIDE, RULE_SECRET
from ..boundary.real_path import real_path
from ..boundary.sensitive_names import SensitiveName, sensitive_by
from ..core.call import Call
from ..core.context import EMPTY_CONTEXT, ToolContext
from ..core.dataclass import dataclass
from ..core.errors import InvalidArguments, ToolExecutionDenied
from ..core.registry import ToolRegistry
from ..core.text import clip
from ..core.threads import shared_threads
from ..core.tool import Tool, ToolCategory
from ..core.verdict import MISSING, Judgement
from .addresses import WEB_TOOLS, judge_url
from .policy import Check, Policy

Arguments = Mapping[str, Any] | str | bytes | None
LookUp = Callable[[Mapping[str, Any], ToolContext], Coroutine[Any, Any, ToolContext]]
"""The method `look_up` of a judge that has `wants_lookup`: resolves host names that the judgement needs."""
_ANY_NAME = "k3v9x2q7"  # of no file: what it means in a folder, each file there means
_PATHS = ("path", "pattern")  # arguments of reading tools that may contain a path outside the workspace
MAX_REASON = 2_000  # characters; a reason must be short enough to read


@dataclass(frozen=True, slots=True)
class Judged:
    """A call that is ready to be judged. `look_up` is set if host names have to be resolved before."""

    judge: Callable[[ToolContext], Check]
    ctx: ToolContext
    arguments: Mapping[str, Any]
    look_up: LookUp | None = None


class Checker:
    """Predicts the verdict for calls of a registry. Without a policy, only the arguments are judged (`--bare`)."""

    def __init__(self, registry: ToolRegistry, policy: Policy | None, ctx: ToolContext) -> None:
        self.registry, self._policy = registry, policy
        self.ctx = self._marked(ctx)

    async def check(self, name: str, arguments: Arguments = None, ctx: ToolContext | None = None) -> Check:
        """Return the verdict for a call. Names are resolved for at most 2 s; judges run in a thread, as they may read
        files."""
        found = self._ready(name, arguments, ctx)
        if isinstance(found, Check):
            return _short(found)
        ctx = found.ctx if found.look_up is None else await found.look_up(found.arguments, found.ctx)
        return _short(await shared_threads.run(found.judge, ctx))

    def check_now(self, name: str, arguments: Arguments = None, ctx: ToolContext | None = None) -> Check | None:
        """Do the same as `check` on this thread. Returns None if a name must be resolved, which only `check` does."""
        found = self._ready(name, arguments, ctx)
        if isinstance(found, Check):
            return _short(found)
        return _short(found.judge(found.ctx)) if found.look_up is None else None

    def parts(self, name: str, arguments: Arguments) -> list[tuple[str, Judgement]]:
        """Return each command of a command line with its own judgement; empty for a single command and for other
        tools."""
        from .shell.parts import CommandPlace
        from .shell.split import judged_parts

        tool = self.registry.find(name)
        key = tool.command_argument if tool is not None else None
        if tool is None or key is None:
            return []
        try:
            command = Call("check", tool, tool.bind(arguments)[1], self.ctx).arguments.get(key)
        except InvalidArguments:
            return []
        root = str(self.ctx.workspace or os.getcwd())
        place = CommandPlace(root, root, os.path.expanduser("~"))
        return judged_parts(command, place) if isinstance(command, str) else []

    def with_answers(self, resolve: Mapping[str, Any]) -> ToolContext:
        """Return the context of a call with the addresses of names pinned."""
        return replace(self.ctx, metadata={**self.ctx.metadata, "resolve": resolve}) if resolve else self.ctx

    def _ready(self, name: str, arguments: Arguments, ctx: ToolContext | None) -> Check | Judged:
        ctx = self.ctx if ctx is None else self._marked(ctx)
        try:
            tool, name, arguments = self.registry.resolve_forward(name, arguments)
        except InvalidArguments as error:
            return Check("deny", "", None, f"invalid arguments: {error}", 0)
        except ToolExecutionDenied as error:
            return Check("deny", "", None, str(error), 1)
        if tool is None:
            return self._unknown(name, arguments, ctx)
        try:
            request = Call("check", tool, tool.bind(arguments)[1], ctx)
            judged = request.arguments
        except InvalidArguments as error:
            return Check("deny", str(tool.category), None, f"invalid arguments: {error}", 0)
        look_up = _look_up(tool.judge, judged, ctx)
        return Judged(lambda ctx: self._judge(tool, judged, ctx), ctx, judged, look_up)

    def _marked(self, ctx: ToolContext) -> ToolContext:
        """Return the context; without a policy, marked so that judges know it."""
        if self._policy is not None or ctx.metadata.get("bare"):
            return ctx
        return replace(ctx, metadata={**ctx.metadata, "bare": True})

    def _judge(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Check:
        judge = bare_check if self._policy is None else self._policy.check
        return judge(tool, arguments, ctx)

    def _unknown(self, name: str, arguments: Arguments, ctx: ToolContext) -> Check | Judged:
        refusal = Check("deny", "", None, self.registry.unknown(name, ctx.caller), 0)
        if self._policy is None:
            given = _plain(arguments)
            if name in WEB_TOOLS and isinstance(given.get("url"), str):
                return Judged(lambda ctx: unbuilt_check(name, given, ctx), ctx, given, _look_up(judge_url, given, ctx))
        return refusal


def _look_up(judge: object, arguments: Mapping[str, Any], ctx: ToolContext) -> LookUp | None:
    """Return a function that resolves what a judge leaves open; None if it leaves nothing open, or cannot resolve
    it."""
    wants = getattr(judge, "wants_lookup", None)
    return getattr(judge, "look_up", None) if wants is not None and wants(arguments, ctx) else None


def _plain(arguments: Arguments) -> Mapping[str, Any]:
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
    return arguments if isinstance(arguments, Mapping) else {}


def _short(check: Check) -> Check:
    return check if len(check.reason) <= MAX_REASON else replace(check, reason=clip(check.reason, MAX_REASON))


# --- the arguments alone


def bare_check(tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext = EMPTY_CONTEXT) -> Check:
    """Judge the arguments of a call alone. Never raises. Judges see this mode in `ctx.metadata["bare"]`."""
    category = str(tool.category)
    try:
        judgement = tool.judge(arguments, ctx) if tool.judge is not None else None
        judgement = _by_path(tool, arguments, ctx, judgement)
        if judgement is None:
            return Check("allow", category, None, "nothing in its arguments speaks against it")
    except Exception as error:
        return Check("deny", category, None, f"the check of this call failed: {error}", 1)
    step = 0 if judgement.rule == MISSING else 4
    return Check(judgement.verdict, category, judgement.rule, judgement.reason, step)


def _by_path(tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext, found: Judgement | None) -> Judgement | None:
    if found is None:
        return _through_link(arguments, ctx) if tool.category == ToolCategory.FILESYSTEM_WRITE else None
    if found.rule == RULE_SECRET and found.verdict == "ask":
        return Judgement("deny", found.reason, RULE_SECRET)
    if found.rule != RULE_OUTSIDE or not tool.is_read_only:
        return found
    for name in _PATHS:
        path = arguments.get(name)
        secret = _secret(path, ctx) if isinstance(path, str) else None
        if secret is not None:
            return Judgement("deny", f"{path} may hold secrets: {secret.reason}", RULE_SECRET)
    return Judgement("ask", found.reason, RULE_OUTSIDE)


def _through_link(arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
    """Return the denial of a write through a link that leads outside. The tool would refuse it too, but only when it
    runs."""
    path = arguments.get("path")
    if not isinstance(path, str) or ctx.workspace is None:
        return None
    whole, root = _whole(path, ctx), str(ctx.workspace)
    if not os.path.islink(whole):
        return None
    real = real_path(whole)
    if os.path.commonpath([real, root]) == root:
        return None
    return Judgement("deny", f"{path} is a link to {real}, outside the workspace", RULE_OUTSIDE)


def _whole(path: str, ctx: ToolContext) -> str:
    return os.path.normpath(os.path.join(ctx.workspace or "", os.path.expanduser(path)))


def _secret(path: str, ctx: ToolContext) -> SensitiveName | None:
    """Return the list entry by which a path, or the target of its links, is a file of secrets, or a folder of them
    (`.ssh`); None if there is no such entry."""
    whole = _whole(path, ctx)
    real = real_path(whole)
    return sensitive_by(whole) or sensitive_by(real) or sensitive_by(f"{real}/{_ANY_NAME}")


def unbuilt_check(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Check:
    """Return the check of a web tool that is not built, by its address alone. Names must be resolved before."""
    found = judge_url(arguments, ctx) or Judgement("allow", "its address is public")
    reason = f"{found.reason} ({name} is not here; its address alone was judged)"
    return Check(found.verdict, WEB_TOOLS[name], found.rule, reason)
