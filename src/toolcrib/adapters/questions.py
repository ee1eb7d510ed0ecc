"""Passes an answer that a person gave in a framework's own pause on to the stored request of the call.

A call without a person to ask returns as pending, and its request is stored. The framework pauses, perhaps until
another process goes on. The answer then goes to that request, and the call is made again: so the toolbox decides.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..core.call import Call
from ..core.errors import ToolcribError
from ..core.text import lazy_regex
from ..core.threads import shared_threads
from ..policy.callers import serves
from ..policy.requests import Decision, answer

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..core.output import ToolOutput
    from ..record.rows import ApprovalRow
    from ..toolbox import Toolbox

_REQUEST = lazy_regex(r"\bap_\w+")
Question = dict[str, Any]
"""What a person reads before they answer, as JSON data: `approval_id`, `tool`, `preview`, `reason` and `created`."""


async def question_of(box: Toolbox, output: ToolOutput) -> Question | None:
    """Return the question of a call that waits for a person; None if the call waits for nobody."""
    if output.error_kind != "pending":
        return None
    row = await shared_threads.run(box.approvals.get, output.meta["approval_id"])
    return None if row is None else shown(row)


async def question(box: Toolbox, call_id: str, session_id: str | None = None) -> Question | None:
    """Return the question that the call with this id has stored, for frameworks that show only the call. Some models
    use an id again in another session: without `session_id` there is no answer then."""
    found = await shared_threads.run(box.approvals.open_of, call_id, box.approval_service.workspace)
    rows = [row for row in found if session_id in (None, row["session_id"])]
    return shown(rows[0]) if len({row["session_id"] for row in rows}) == 1 else None


def shown(row: ApprovalRow) -> Question:
    """Return what a person reads of a request."""
    return {"approval_id": row["id"], **{key: row[key] for key in ("tool", "preview", "reason", "created")}}


async def open_request(
    box: Toolbox, call_id: str, ctx: ToolContext, call: tuple[str, Any] | None = None
) -> ApprovalRow | None:
    """Return the request that the call with this id has stored: it waits, or its yes was not used yet. `call` is its
    tool and its arguments: some models use an id again, and a yes is for exactly one call."""
    rows = await shared_threads.run(box.approvals.open_of, call_id, box.approval_service.workspace)
    if call is not None and rows:
        digest = _digest(box, *call, ctx)
        rows = [row for row in rows if row["digest"] == digest]
    return next((row for row in rows if serves(row, ctx)), None)


def _digest(box: Toolbox, name: str, arguments: Any, ctx: ToolContext) -> str | None:
    """Return the digest of a call; None if it cannot be made."""
    try:
        tool, _, given = box.registry.resolve_forward(name, arguments)
        return None if tool is None else Call("", tool, tool.bind(given)[1], ctx).digest
    except ToolcribError:
        return None


async def answer_request(box: Toolbox, row: ApprovalRow, decision: Decision) -> None:
    """Answer a request. After a no the framework gives the model the refusal, so the next call asks again."""
    answered = await shared_threads.run(answer, box.approvals, row["id"], decision)
    if answered.kept and not decision.approve:
        await shared_threads.run(box.approvals.refusal, row["id"])


async def call_approved(
    box: Toolbox, name: str, arguments: Any, ctx: ToolContext, call_id: str, decision: Decision
) -> ToolOutput:
    """Pass a yes on to the request of a call, and make the call again. It asks again if the request has ended."""
    row, since = await open_request(box, call_id, ctx, (name, arguments)), time.time()
    if row is None:  # the same call may have asked before, with another id; or the request has ended
        asked = await shared_threads.run(box.audit.call, call_id)
        answers = [each["error"] or "" for each in asked if each["outcome"] == "pending"]
        output = await box.call(name, arguments, ctx, call_id=call_id)
        if output.error_kind != "pending" or not answers:
            return output
        row = await shared_threads.run(box.approvals.get, output.meta["approval_id"])
        named = _REQUEST.findall(answers[-1])
        if row is None or row["created"] >= since or named[:1] != [row["id"]]:  # nobody was shown this request
            return output
    await answer_request(box, row, decision)
    return await box.call(name, arguments, ctx, call_id=call_id)
