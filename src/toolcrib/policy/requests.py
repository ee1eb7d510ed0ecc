"""The question to a person (`ApprovalRequest`), the answer (`Decision`), and who asks (`Approver`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.tool import ToolCategory
from ..record.rows import SCOPES, Scope

if TYPE_CHECKING:
    from ..record.rows import ApprovalRow

__all__ = [
    "SCOPES", "ApprovalRequest", "Approver", "Decision", "Scope", "about_rule", "covers", "current_approver",
    "scopes_of", "use_approver",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked: the call, why it asks, and the rule that would allow it. Times are Unix seconds.

    `preview`, `reason` and `rule` are safe to print: what would not show in them is written out. `arguments` are not.
    `rule` would allow this call; "" where no line that could be read would. `scopes` says how far a yes may reach:
    "rule" is there only where `rule` is exactly the line that it would write.
    `asked_by` names what asks whatever rules allow: a setting, an ask rule, a label. None where a rule would help.
    """

    id: str
    call_id: str
    tool: str
    category: str
    arguments: Mapping[str, Any] = field(repr=False)
    preview: str = field(repr=False)
    reason: str
    rule: str
    digest: str
    session_id: str | None
    created: float
    expires: float
    asked_by: str | None = None
    scopes: tuple[Scope, ...] = ("once", "session")

    @property
    def about_rule(self) -> tuple[str, ...]:
        """What a question says of rules, a line each."""
        return about_rule(self.tool, self.category, self.rule, self.asked_by, self.scopes)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer. `arguments` replace the call's own: they are validated and judged again.

    `scope` once; session: the same command, or every call of this tool, may run again in this session without asking;
    or rule: `ApprovalRequest.rule` is written into the person's own settings. A scope that the request does not offer
    counts as once, and so does `rule` with other arguments: nobody saw the rule for those.
    """

    approve: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    scope: Scope = "once"
    approver: str | None = None


Approver = Callable[[ApprovalRequest], Awaitable["bool | Decision | None"]]
"""Asks a person. None means that it cannot ask here. One that also has `tell(text)` is told where a rule was kept."""

_approver: ContextVar[Approver | None] = ContextVar("toolcrib_approver", default=None)


@contextmanager
def use_approver(approver: Approver | None) -> Generator[None]:
    """Within this block, and in tasks started in it, `approver` is asked for approvals."""
    token = _approver.set(approver)
    try:
        yield
    finally:
        _approver.reset(token)


def current_approver() -> Approver | None:
    """The approver that was set for this task; None if there is none."""
    return _approver.get()


def scopes_of(row: ApprovalRow) -> tuple[Scope, ...]:
    """How far a yes to a stored request may reach."""
    offered = row["scopes"].split()
    return tuple(scope for scope in SCOPES if scope in offered)


def covers(tool: str, category: str, rule: str) -> str:
    """What a yes for the session covers: the same command, or every call of the tool. "" where that is nothing."""
    return rule if category == ToolCategory.SHELL else tool


def about_rule(
    tool: str, category: str, rule: str | None, asked_by: str | None, scopes: Sequence[str]
) -> tuple[str, ...]:
    """What a question says of the rule that would allow a call, and of how far a yes for the session reaches."""
    lines: list[str] = []
    if rule and asked_by is None:
        lines.append(f"a rule that would allow it: {rule}")
    reach = covers(tool, category, rule or "")
    if "session" in scopes and reach and not (lines and reach == rule):
        lines.append(
            f"a yes for this session covers: {reach if category == ToolCategory.SHELL else f'every {reach} call'}"
        )
    return tuple(lines)
