"""Apply a person's answer to a stored request: the same way from every interface, and only once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .requests import Decision, Scope, scopes_of

if TYPE_CHECKING:
    from ..record.approvals import Approvals
    from ..record.rows import ApprovalRow

log = logging.getLogger("toolcrib.policy")

Remember = Callable[[str], object]
"""`remember(rule)` writes an allow rule into the person's own settings and returns the place, to show to the person."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of an answer. `kept`: it was accepted. `text` says so, or why not, in a sentence for the person."""

    kept: bool
    text: str
    row: ApprovalRow | None = None
    note: str = ""
    """Where a rule was written, or why it was not written."""


def answer(store: Approvals, request_id: str, decision: Decision, remember: Remember | None = None) -> Answered:
    """Answer a pending request, and write its rule if the answer is "always". Blocks: it writes to disk.

    An answer that asks for more than the request offers changes nothing: the result says why, and the person may answer
    again. An approval that was not used yet can be taken back by a denial.
    """
    row = store.get(request_id)
    if row is None:
        return Answered(False, f"there is no approval request {request_id}")
    taken_back = row["state"] == "approved" and not decision.approve
    if row["state"] != "pending" and not taken_back:
        return Answered(False, f"{request_id} is {row['state']}{_by(row)}; nothing was changed", row)
    wrong = _overreaches(decision, row, remember)
    if wrong:
        return Answered(False, f"{request_id}: {wrong}; nothing was changed", row)
    kept = store.resolve(
        request_id, decision.approve, approver=decision.approver, reason=decision.reason,
        arguments=decision.arguments if decision.approve else None,
        scope=decision.scope if decision.approve else "once",
    )  # fmt: skip
    if not kept:  # another process answered first
        row = store.get(request_id) or row
        return Answered(False, f"{request_id} is {row['state']}{_by(row)}; nothing was changed", row)
    if not decision.approve:
        return Answered(True, f"Denied {row['tool']} ({request_id}).", row)
    note = _written(remember, row["rule"] or "") if decision.scope == "rule" and remember is not None else ""
    text = f"Approved {row['tool']} ({request_id}): it runs once, when exactly this call is repeated."
    return Answered(True, f"{text} {note}".rstrip(), row, note)


def within(decision: Decision, scopes: tuple[Scope, ...]) -> Decision:
    """Return the decision, limited to the scopes that were offered: see `Decision.scope`."""
    reaches = decision.scope == "once" or (
        decision.scope in scopes and not (decision.scope == "rule" and decision.arguments is not None)
    )
    return decision if reaches else replace(decision, scope="once")


def _overreaches(decision: Decision, row: ApprovalRow, remember: Remember | None) -> str:
    if not decision.approve or decision.scope == "once":
        return ""
    if decision.scope not in scopes_of(row):
        if row["asked_by"] is not None:
            return f"{row['asked_by']} asks whatever rules allow, so a yes holds once"
        return f"this request takes no answer for {'always' if decision.scope == 'rule' else 'the session'}"
    if decision.scope == "rule" and decision.arguments is not None:
        return "the rule was shown for the call as it was asked; approve other arguments once"
    if decision.scope == "rule" and remember is None:
        return "rules cannot be written from here"
    return ""


def _written(remember: Remember, rule: str) -> str:
    try:
        where = remember(rule)
    except Exception as error:
        log.exception("the rule %s could not be written", rule)
        return f"The rule was not written ({error}); it was approved this once."
    return f"Wrote the rule `{rule}` to {where}." if where is not None else f"Stored the rule `{rule}`."


def _by(row: ApprovalRow) -> str:
    return f" by {row['approver']}" if row["approver"] else ""
