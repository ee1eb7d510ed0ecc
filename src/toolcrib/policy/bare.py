"""Judge the arguments of a call alone, without configuration, mode, rules, approval or sandbox (spec 11.3).

Without a person to ask and without a sandbox, some judgements of paths differ from those in a call: reading outside the
workspace asks, because nothing is granted and nothing is forbidden; reading a file of secrets is denied.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..boundary.path_judgement import RULE_OUTSIDE, RULE_SECRET
from ..boundary.sensitive_names import SensitiveName, sensitive_by
from ..core.context import EMPTY_CONTEXT, ToolContext
from ..core.tool import Tool, ToolCategory
from ..core.verdict import Judgement
from .addresses import WEB_TOOLS, judge_url
from .policy import Check

_PATHS = ("path", "pattern")  # arguments of reading tools that may contain a path outside the workspace


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
    return Check(judgement.verdict, category, judgement.rule, judgement.reason)


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
    real = os.path.realpath(whole)
    if os.path.commonpath([real, root]) == root:
        return None
    return Judgement("deny", f"{path} is a link to {real}, outside the workspace", RULE_OUTSIDE)


def _whole(path: str, ctx: ToolContext) -> str:
    return os.path.normpath(os.path.join(ctx.workspace or "", os.path.expanduser(path)))


def _secret(path: str, ctx: ToolContext) -> SensitiveName | None:
    """Return the list entry by which a path, or the target of its links, is a file of secrets; None if there is no such
    entry."""
    whole = _whole(path, ctx)
    return sensitive_by(whole) or sensitive_by(os.path.realpath(whole))


def unbuilt_check(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Check:
    """Return the check of a web tool that is not built, by its address alone. Names must be resolved before."""
    found = judge_url(arguments, ctx) or Judgement("allow", "its address is public")
    reason = f"{found.reason} ({name} is not here; its address alone was judged)"
    return Check(found.verdict, WEB_TOOLS[name], found.rule, reason)
