"""Predict the result of a call without running it: find the tool, validate the arguments, judge them (spec 6.5,
11.3)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..core.call import Call
from ..core.context import ToolContext
from ..core.errors import InvalidArguments, ToolExecutionDenied
from ..core.text import clip
from ..core.threads import shared_threads
from .bare import bare_check, unbuilt_check
from .policy import Check, Policy

if TYPE_CHECKING:
    from ..core.registry import ToolRegistry
    from ..core.tool import Tool
    from ..core.verdict import Judgement

Arguments = Mapping[str, Any] | str | bytes | None
LookUp = Callable[[Mapping[str, Any], ToolContext], Coroutine[Any, Any, ToolContext]]
"""The method `look_up` of a judge that has `wants_lookup`: resolves host names that the judgement needs."""
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
        self._registry, self._policy = registry, policy
        self.ctx = self._marked(ctx)

    async def check(self, name: str, arguments: Arguments = None, ctx: ToolContext | None = None) -> Check:
        """Return the verdict for a call. Names are resolved for at most 2 s; judges run in a thread, as they may read
        files."""
        found = self._ready(name, arguments, ctx)
        if isinstance(found, Check):
            return found
        ctx = found.ctx if found.look_up is None else await found.look_up(found.arguments, found.ctx)
        return _short(await shared_threads.run(found.judge, ctx))

    def check_now(self, name: str, arguments: Arguments = None, ctx: ToolContext | None = None) -> Check | None:
        """Do the same as `check` on this thread. Returns None if a name must be resolved, which only `check` does."""
        found = self._ready(name, arguments, ctx)
        if isinstance(found, Check):
            return found
        return _short(found.judge(found.ctx)) if found.look_up is None else None

    def parts(self, name: str, arguments: Arguments) -> list[tuple[str, Judgement]]:
        """Return each command of a command line with its own judgement; empty for a single command and for other
        tools."""
        from .shell.parts import CommandPlace
        from .shell.split import judged_parts

        tool = self._registry.find(name)
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
            tool, name, arguments = self._registry.resolve_forward(name, arguments)
        except InvalidArguments as error:
            return _short(Check("deny", "", None, f"invalid arguments: {error}", 0))
        except ToolExecutionDenied as error:
            return _short(Check("deny", "", None, str(error), 1))
        if tool is None:
            return self._unknown(name, arguments, ctx)
        try:
            request = Call("check", tool, tool.bind(arguments)[1], ctx)
            judged = request.arguments
        except InvalidArguments as error:
            return _short(Check("deny", str(tool.category), None, f"invalid arguments: {error}", 0))
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
        refusal = Check("deny", "", None, self._registry.unknown(name), 0)
        if self._policy is None:
            from .addresses import WEB_TOOLS, judge_url

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
