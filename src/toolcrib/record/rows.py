"""The rows of the record's tables: the keys are the columns."""

from typing import Literal, TypedDict

Scope = Literal["once", "session", "rule"]
"""The scope of a person's approval: this call, calls like it in this session, or a rule in their settings."""
SCOPES: tuple[Scope, ...] = ("once", "session", "rule")
ApprovalState = Literal["pending", "approved", "denied", "expired", "used"]

TRACEBACK = "\n\nwhere it was raised:\n"
"""In `error`, between the text that the model got and the traceback, which is for developers."""


class NewApproval(TypedDict):
    """A new approval request to store. Times are Unix seconds; arguments and caller are JSON."""

    id: str
    call_id: str
    tool: str
    category: str
    arguments: str
    preview: str
    reason: str
    rule: str | None
    """The rule that would allow the call."""
    digest: str
    """SHA-256 of the tool's name and the canonical arguments: an approval is bound to it."""
    session_id: str | None
    created: float
    expires: float
    asked_by: str | None
    """The source that asks regardless of rules; None if `rule` would allow the call."""
    scopes: str
    """The possible scopes of an approval, separated by spaces."""
    workspace: str | None
    caller: str | None
    process: str | None
    """The process that asked; None after its session has ended."""


class ApprovalRow(NewApproval):
    """A stored request and its answer. `edited` contains other arguments, as JSON; `run` is the call that used the
    approval."""

    state: ApprovalState
    approver: str | None
    answer: str | None
    edited: str | None
    scope: Scope
    run: str | None
    run_time: float | None


class CallRow(TypedDict):
    """One row of the audit log: an intent, an outcome, or a note. `chain.COLUMNS` has the same names."""

    seq: int
    kind: str
    time: float
    call_id: str
    tool: str
    category: str
    verdict: str
    session_id: str | None
    channel: str | None
    arguments: str | None
    rule: str | None
    duration: float | None
    size: int | None
    outcome: str | None
    labels: str | None
    intent: int | None
    approver: str | None
    error: str | None
    approval: str | None
    hash: str
