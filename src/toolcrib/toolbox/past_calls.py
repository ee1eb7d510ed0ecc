"""Which calls of the record could be judged again, by a toolbox of today?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from ..policy.rules.rule_history import PastCall, Person, past_call
from ..record.approvals import Approvals
from ..record.audit import Audit
from ..record.connection import Where
from .toolbox import Toolbox


def recorded_calls(box: Toolbox, record: Where, since: float | None, limit: int) -> tuple[list[PastCall], int]:
    """Return the calls of a record since a time, and how many are not in it in full. Blocks."""
    with closing(Audit(record)) as audit, closing(Approvals(record)) as approvals:
        found = list(past_calls(box, audit, approvals, since, limit))
    return [each for each in found if each is not None], sum(each is None for each in found)


def past_calls(
    box: Toolbox, audit: Audit, approvals: Approvals, since: float | None, limit: int
) -> Iterator[PastCall | None]:
    """Yield the calls since a time; None for one that is not in the record in full. Blocks."""

    def of(row: Any, call_id: str, person: Person, denied: bool) -> PastCall | None:
        ctx = replace(box.context, session_id=None)
        return past_call(box.registry, ctx, call_id, row["tool"], row["arguments"], person, denied)

    rows = audit.query(since=since, limit=limit)
    made = {(row["tool"], row["arguments"]) for row in rows if row["outcome"] != "pending"}
    for row in rows:
        if row["outcome"] == "pending" and (row["tool"], row["arguments"]) in made:
            continue  # it was answered, and made again
        if row["verdict"] in ("allow", "ask", "deny"):
            yes = row["verdict"] == "allow" and row["approver"] is not None
            yield of(row, row["call_id"], "yes" if yes else "", row["verdict"] == "deny")
    for asked in approvals.recent(limit):
        if asked["state"] == "denied" and asked["created"] >= (since or 0):
            yield of(asked, asked["call_id"], "no", True)
