"""Define the question to a person (`ApprovalRequest`), the answer (`Decision`), and the function that asks
(`Approver`)."""

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
    """A question to a person: the call, why it asks, and the rule that would allow it. Times are Unix seconds.

    `preview`, `reason` and `rule` are safe to print: invisible characters are escaped. `arguments` are not. `rule`
    would allow this call; "" if no readable rule would. `scopes` are the possible scopes of an approval: "rule" is
    included only if `rule` is exactly the line that would be written. `asked_by` names the source that asks even if
    rules allow the call: a setting, an ask rule, a label. None if a rule would help.
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
        """Return the lines of a question about rules."""
        return about_rule(self.tool, self.category, self.rule, self.asked_by, self.scopes)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer. `arguments` replace the call's own: they are validated and judged again.

    `scope` is "once", "session" (the same command, or every call of this tool, may run again in this session without a
    question) or "rule" (`ApprovalRequest.rule` is written into the person's own settings). A scope that the request
    does not offer counts as once, and so does "rule" with other arguments: the person did not see the rule for those.
    """

    approve: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    scope: Scope = "once"
    approver: str | None = None


Approver = Callable[[ApprovalRequest], Awaitable["bool | Decision | None"]]
"""Asks a person. None means that it cannot ask here. If it has a method `tell(text)`, that shows where a rule was
stored."""

_approver: ContextVar[Approver | None] = ContextVar("toolcrib_approver", default=None)


@contextmanager
def use_approver(approver: Approver | None) -> Generator[None]:
    """Use `approver` for approvals within this block, and in tasks started in it."""
    token = _approver.set(approver)
    try:
        yield
    finally:
        _approver.reset(token)


def current_approver() -> Approver | None:
    """Return the approver that was set for this task; None if no approver was set."""
    return _approver.get()


def scopes_of(row: ApprovalRow) -> tuple[Scope, ...]:
    """Return the possible scopes of an approval for a stored request."""
    offered = row["scopes"].split()
    return tuple(scope for scope in SCOPES if scope in offered)


def covers(tool: str, category: str, rule: str) -> str:
    """Return what a session approval covers: the same command, or every call of the tool. "" if it covers nothing."""
    return rule if category == ToolCategory.SHELL else tool


def about_rule(
    tool: str, category: str, rule: str | None, asked_by: str | None, scopes: Sequence[str]
) -> tuple[str, ...]:
    """Return the lines of a question about the rule that would allow a call, and about the reach of a session
    approval."""
    lines: list[str] = []
    if rule and asked_by is None:
        lines.append(f"a rule that would allow it: {rule}")
    reach = covers(tool, category, rule or "")
    if "session" in scopes and reach and not (lines and reach == rule):
        lines.append(
            f"a yes for this session covers: {reach if category == ToolCategory.SHELL else f'every {reach} call'}"
        )
    return tuple(lines)
