"""The rows of the record's tables, as they are read: the keys are the columns."""

from __future__ import annotations

from typing import Literal, TypedDict

Scope = Literal["once", "session", "rule"]
"""How far a person's yes reaches: this call, calls like it in this session, or a rule in their settings."""
SCOPES: tuple[Scope, ...] = ("once", "session", "rule")
FileKind = Literal["absent", "file", "dir", "link"]
ChangeStatus = Literal["pending", "done", "undone"]
ApprovalState = Literal["pending", "approved", "denied", "expired", "used"]


class NewApproval(TypedDict):
    """What is stored when a call has to be asked about. Times are Unix seconds; arguments and caller are JSON."""

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
    """SHA-256 of the tool's name and the canonical arguments: what a yes is bound to."""
    session_id: str | None
    created: float
    expires: float
    asked_by: str | None
    """What asks regardless of rules; None where `rule` would allow the call."""
    scopes: str
    """How far a yes may reach, separated by spaces."""
    workspace: str | None
    caller: str | None
    process: str | None
    """The process that asked; None once its session has ended."""


class ApprovalRow(NewApproval):
    """A stored request and its answer. `edited` holds other arguments, as JSON; `run` is the call that used the yes."""

    state: ApprovalState
    approver: str | None
    answer: str | None
    edited: str | None
    scope: Scope
    run: str | None
    run_time: float | None


class CallRow(TypedDict):
    """One row of the audit log: an intent, an outcome, or a note. `chain.COLUMNS` are the same names."""

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


class NewChange(TypedDict):
    """One change of one path, before it is made; `before_…` and `after_…` describe the path then and afterwards."""

    call_id: str
    session_id: str | None
    tool: str
    at: float
    """Unix seconds."""
    reason: str | None
    root: str
    path: str
    before_kind: FileKind
    before_mode: int | None
    before_identity: str | None
    before_sha: str | None
    kept: str | None
    """Where the earlier content is, below the state folder."""
    kept_size: int
    after_kind: FileKind
    after_mode: int | None
    after_identity: str | None
    after_sha: str | None
    status: ChangeStatus
    undoes: int | None
    """The change that this one takes back."""


class ChangeRow(NewChange):
    """A change as it is stored."""

    id: int
