"""Remember what a person has approved for the rest of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..core.call import Call
from ..core.context import ToolContext
from ..core.tool import Tool, ToolCategory
from .callers import caller_of
from .requests import Question, Scope, covers
from .shell.kinds import RULE_FETCH

_WRITTEN = ""  # instead of the reason for a command that a person wrote


class SessionApprovals:
    """What was approved for each session: for which question, and what it reaches.

    `line` is the rule that would allow a call; it says what an approval is for.
    """

    def __init__(self) -> None:
        self._granted: dict[str, set[tuple[str | None, str]]] = {}

    def cover(self, request: Call, question: Question, rule: Callable[[], str]) -> bool:
        """Return whether an approval for this session covers the call, for this question. `rule` returns its line; it
        is called only where something was approved."""
        granted = self._granted.get(_conversation(request.ctx))
        if not granted:
            return False
        line, hosts = rule(), question.hosts
        reach = _reach(request.tool, line, hosts)
        covering = {(_about(question), reach), (question.asked_by, _as_rule(line, hosts))}
        if request.tool.category == ToolCategory.SHELL:  # a person may have written this command
            covering.add((_about(replace(question, reason=_WRITTEN)), reach))
        return not granted.isdisjoint(covering)

    def add(self, request: Call, scope: Scope, line: str, question: Question) -> None:
        """Remember an approval. One that became a rule, too, but only for calls that the same line allows: this process
        has not read the new rule."""
        reach = _as_rule(line, question.hosts) if scope == "rule" else _reach(request.tool, line, question.hosts)
        about = question.asked_by if scope == "rule" else _about(question)
        if reach:
            self._granted.setdefault(_conversation(request.ctx), set()).add((about, reach))

    def forget(self, session_id: str | None) -> None:
        """Remove the approvals of a session; None removes those of all callers without a session."""
        over = [key for key in self._granted if key == session_id or (session_id is None and key.startswith("\0"))]
        for key in over:
            del self._granted[key]

    def clear(self) -> None:
        """Remove all approvals."""
        self._granted.clear()


def what_is_covered(tool: Tool, line: str) -> str:
    """Return what an approval for a session would cover; "" if nothing can be approved for a session."""
    return covers(tool.name, str(tool.category), line)


def about_edited(tool: Tool, question: Question) -> Question | None:
    """Return the question that a yes to edited arguments answers for the session: that of a setting or of the mode. A
    command is approved as the person wrote it, whatever it does. None: it answers none."""
    if tool.category == ToolCategory.SHELL:
        return replace(question, hosts=(), reason=_WRITTEN)
    of_mode = (question.rule or "mode:").startswith("mode:")
    return replace(question, hosts=()) if question.is_of_setting or of_mode else None


def _conversation(ctx: ToolContext) -> str:
    """Return the key of approvals for a session: the session id; without a session, the caller."""
    return ctx.session_id if ctx.session_id is not None else f"\0{caller_of(ctx)}"


def _about(question: Question) -> str | None:
    """Return what a question is about: the setting that asks, or why this call does, in the words that the person read
    (they name the protected file, or the secret). The same command may do something else if a link leads elsewhere.
    A yes to a fetch is about the host alone, and one to a command that the person wrote is about no reason."""
    fetches = question.rule == RULE_FETCH and bool(question.hosts)
    if question.is_of_setting or fetches or question.reason == _WRITTEN:
        return question.asked_by
    return f"{question.rule}\0{question.reason}"


def _reach(tool: Tool, line: str, hosts: tuple[str, ...]) -> str:
    """Return what an approval for the session covers: the same command is not the same with other hosts, and the same
    tool of a server is not the same with another description."""
    reach, said = what_is_covered(tool, line), () if tool.definition is None else (tool.definition.digest,)
    return "\0".join((reach, *said, *hosts)) if reach else ""


def _as_rule(line: str, hosts: tuple[str, ...]) -> str:
    """Return what an approval that became a rule covers: calls that the rule's line allows, whatever their tool."""
    return "\0".join(("rule", line, *hosts)) if line else ""
