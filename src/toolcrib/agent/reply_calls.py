"""Run the calls of a reply through the pipeline, store their results, and say what waits for a person."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..builtin.ask_user import CAN_PAUSE
from ..core.call import ToolCall, inner_id
from ..core.context import BEHIND, MAY_ACT, READ_ELSEWHERE, REFUSES
from ..core.events import CallFinished, CallStarted
from ..core.output import ImageBlock, ToolOutput
from .events import CallDone, CallRun, PlanChanged
from .history import CallResult, Image, ModelCall, ModelTurn, ResultTurn
from .session_labels import note_entries, note_others, note_result
from .structured import NAME as FINAL
from .subagents import SPAWNS

if TYPE_CHECKING:
    import asyncio

    from ..core.context import ToolContext
    from ..toolbox import Toolbox
    from .events import Emit
    from .loop_parts import LoopParts
    from .session import AgentSession

CUT_CALL = (
    "This call was not run: your reply was cut by the limit on its length before the call was complete. "
    "Repeat it, in smaller parts if it is long."
)


async def run_calls(
    parts: LoopParts, session: AgentSession, turn: ModelTurn, ctx: ToolContext, emit: Emit, *, resumed: bool
) -> list[dict[str, Any]]:
    """Run the calls of a reply that have no result yet, and store their results. Returns what waits for a person."""
    calls = {session.run_id(call): call for call in turn.calls}
    fresh: list[ToolCall] = []
    for run_id, call in calls.items():
        refused = _not_run(parts, session, call, ctx)
        known = refused or (await session.do(known_result, parts.box, session, run_id, call) if resumed else None)
        if known is not None:
            shown = await session.do(session.result, run_id) is not None  # by an earlier run
            await session.do(session.store_result, run_id, known)
            if known.is_error and not shown:
                emit(CallDone(call, run_id, ToolOutput.error(known.text, "denied" if refused else "tool"), 0.0))
            if not refused:
                await session.do(
                    note_result, parts.box, call, known, replace(ctx, session_id=session.id, call_id=run_id)
                )
        else:
            fresh.append(ToolCall(run_id, call.name, call.arguments or "{}"))
    waiting: list[dict[str, Any]] = []
    begun: dict[str, float] = {}
    writing: list[asyncio.Task[None] | None] = []

    def listen(event: Any) -> None:  # a result is stored as soon as its call has ended, whatever the others do
        call = calls.get(getattr(event, "call_id", ""))
        if call is not None and isinstance(event, CallStarted):
            begun[event.call_id] = time.monotonic()
            emit(CallRun(call, event.call_id))
        elif call is not None and isinstance(event, CallFinished):
            done(event.call_id, call, event.output)

    def done(run_id: str, call: ModelCall, output: ToolOutput) -> None:
        if not output.pause_for_input and output.error_kind not in ("pending", "cancelled"):
            writing.append(session.begin_store_result(run_id, _result(call, output)))
        now = time.monotonic()
        emit(CallDone(call, run_id, output, now - begun.pop(run_id, now)))
        if call.name == "todo" and not output.is_error:
            emit(PlanChanged(tuple(call.object.get("items") or ())))

    def refuses(name: str, arguments: Mapping[str, Any]) -> str:
        return parts.refusal(session.entries, ModelCall("", name, json.dumps(arguments)), ctx)

    session.has_subagents = session.has_subagents or any(call.name in SPAWNS for call in turn.calls)
    read_elsewhere = functools.partial(note_others, parts.box, session)
    await read_elsewhere()
    stop = parts.box.events.subscribe(listen)
    try:
        metadata = {**ctx.metadata, CAN_PAUSE: True, REFUSES: refuses, READ_ELSEWHERE: read_elsewhere}
        if (check := session.lease_check()) is not None:
            metadata[MAY_ACT] = check
        outputs = await parts.box.call_many(fresh, replace(ctx, session_id=session.id, metadata=metadata))
    finally:
        stop()
        for write in filter(None, writing):
            await write
    for call, output in zip(fresh, outputs, strict=True):
        waiting += _waits(call.id, calls[call.id], output)
        ended = not output.pause_for_input
        if ended and await session.do(session.result, call.id) is None:  # refused before it was a call: no event
            await session.do(session.store_result, call.id, _result(calls[call.id], output))
    if not waiting:
        results = [await session.do(session.stored_result, run_id) for run_id in calls]
        stored = ResultTurn(tuple(results))
        await session.do(session.append, stored)
        if session.row.parent is not None:  # which may read the files that its subagent writes from now on
            note_entries(parts.box, (turn, stored), session.row.parent)
    return waiting


def _not_run(parts: LoopParts, session: AgentSession, call: ModelCall, ctx: ToolContext) -> CallResult | None:
    """Return the result of a call that must not run at all."""
    if call.cut:
        return CallResult(call.id, call.name, CUT_CALL, is_error=True)
    if parts.allowed is not None and not parts.allowed(call.name, call.arguments):
        return CallResult(call.id, call.name, f"{call.name} is not one of your tools.", is_error=True)
    refused = parts.refusal(session.entries, call, ctx)
    if refused:
        return CallResult(call.id, call.name, refused, is_error=True)
    return parts.form.result(call) if parts.form is not None and call.name == FINAL else None


def known_result(box: Toolbox, session: AgentSession, run_id: str, call: ModelCall) -> CallResult | None:
    """Return the result of a call that an earlier run began; None if it may run (again).

    The record says how far it came: an intent is committed before an effect, an outcome after it.
    """
    stored = session.result(run_id)
    if stored is not None:
        return stored
    tool = box.registry.find(call.name)
    rows = box.audit.query(call_id=run_id, kind=None, after=0, limit=1000)
    if not rows or (tool is not None and tool.is_read_only):
        return None
    # The rows of two workers may be in any order: one that was cut off stores late that the call had asked.
    ran = [r["outcome"] for r in rows if r["kind"] != "intent" and (r["intent"] is not None or r["outcome"] == "ok")]
    begun = sum(row["kind"] == "intent" for row in rows)
    if not ran and not begun:
        return None  # refused, asked about or cancelled, before it had an effect
    if ran[-1:] == ["pending"] and len(ran) == begun:
        return None  # what it would change waits for an answer, and the same call applies it
    if not ran or ran[-1] in ("cancelled", "pending"):
        said = "This call began to run, and was interrupted. It may have had all, some or none of its effects."
    else:
        said = f"This call ran (outcome: {ran[-1]}), but its output was lost when the process ended."
    return CallResult(call.id, call.name, f"{said} Look at what is there before you call it again.", is_error=True)


def left_result(box: Toolbox, session: AgentSession, run_id: str, call: ModelCall) -> CallResult | None:
    """Return the result of a call that does not run any more, if it, or a call of a script, has had effects."""
    known = known_result(box, session, run_id, call)
    if known is None and box.audit.query(call_id=inner_id(run_id, "*"), kind="intent", after=0, limit=1):
        said = "This script does not go on. Its calls until then had their effects, and called again it begins anew."
        return CallResult(call.id, call.name, f"{said} Look at what is there before you call it again.", is_error=True)
    return known


def _waits(run_id: str, call: ModelCall, output: ToolOutput) -> list[dict[str, Any]]:
    """Return what a call waits for, as JSON data: of a script, each of its calls that ask."""
    if BEHIND in output.meta:  # for the answer to an earlier call
        return []
    if output.error_kind == "pending":
        approvals = output.meta.get("approvals") or [output.meta.get("approval_id")]
        waits = {"kind": "approval", "run_id": run_id, "tool": call.name, "text": output.for_llm}
        if reason := output.meta.get("reason"):
            waits["reason"] = reason
        return [{**waits, "approval": approval} for approval in approvals]
    if output.pause_for_input:
        asked = output.meta.get("question") or output.for_llm
        options = list(output.meta.get("options") or ())
        return [{"kind": "question", "run_id": run_id, "tool": call.name, "question": asked, "options": options}]
    return []


def _result(call: ModelCall, output: ToolOutput) -> CallResult:
    images = tuple(Image(b.data, b.mime_type) for b in output.content if isinstance(b, ImageBlock))
    labels = None if output.labels is None else output.labels.pair
    return CallResult(call.id, call.name, output.for_llm, images, output.is_error, labels)
