"""The loop: ask the model, run its calls through the pipeline, and again, until it answers.

What happens next follows from the stored history alone. So a run that ended at any point, in any process, goes on in
the same way: a last message or result wants a reply, a reply with calls wants their results.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..builtin.ask_user import CAN_PAUSE
from ..core.call import ToolCall
from ..core.context import READ_ELSEWHERE, REFUSES
from ..core.dataclass import dataclass
from ..core.events import CallFinished, CallStarted
from ..core.finish import BEHIND
from ..core.output import ImageBlock, ToolOutput
from ..core.text import lazy_regex
from . import compaction
from .events import (
    AgentEvent,
    CallDone,
    CallRun,
    Compacted,
    MessageTaken,
    Outcome,
    PlanChanged,
    ReplyDone,
    ReplyDropped,
    RequestStarted,
    TurnPaused,
)
from .history import (
    NOTHING,
    CallResult,
    Entry,
    Image,
    ModelCall,
    ModelTurn,
    ResultTurn,
    Text,
    TokenUsage,
    Turn,
    for_model,
    run_id_of,
    user,
)
from .limits import Spent
from .model import (
    AGAIN,
    Effort,
    Model,
    ModelError,
    ModelRequest,
    ReplyEnd,
    TextDelta,
    ToolDefinition,
    TryFailed,
    UsageSeen,
)
from .session_labels import note_entries, note_others, note_result, note_turn
from .stopping import pause
from .structured import NAME as FINAL
from .structured import NOTE, AnswerForm
from .subagents import SPAWNS
from .wires.shared import make_id

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..toolbox import Toolbox
    from .session import AgentSession

log = logging.getLogger("toolcrib.agent")

Emit = Callable[[AgentEvent], None]

DROPPED_REPLIES = 2
"""How often a reply that failed in the middle is asked for again, with each model."""
_CALL_ID = lazy_regex("[!-~]{1,128}")
MAX_COMPACTIONS = 2
"""How often one request is made shorter because the model said that it does not fit."""
LENGTH_NOTE = "Your reply was cut by the limit on its length. Go on where it ended."
NO_ROOM = "the model's reasoning filled the whole reply: raise agent.max_output_tokens, or lower agent.effort"
INTERRUPTED_NOTE = "Your reply was interrupted. Go on where it ended."
CUT_CALL = (
    "This call was not run: your reply was cut by the limit on its length before the call was complete. "
    "Repeat it, in smaller parts if it is long."
)


@dataclass(frozen=True)
class LoopParts:
    """What the loop needs: the toolbox, the models (the first, then those to fall back to), and the limits."""

    box: Toolbox
    models: Sequence[Model]
    tools: Sequence[ToolDefinition]
    window: int
    max_tokens: int | None = None
    effort: Effort | None = None
    allowed: Callable[[str, Any], bool] | None = None
    """Which calls (name, arguments) may run; None for all."""
    refusal: Callable[[Sequence[Entry], ModelCall, ToolContext], str] = lambda entries, call, ctx: ""
    """Why a call may not run after this history; empty if it may."""
    form: AnswerForm | None = None
    """The form of the answer; None for text."""

    @functools.cached_property
    def offered(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model sees."""
        return tuple(self.tools) if self.form is None else (*self.tools, self.form.definition)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of those tools."""
        return _digest(json.dumps([[t.name, t.description, t.parameters] for t in self.offered], sort_keys=True))


async def run_session(parts: LoopParts, session: AgentSession, ctx: ToolContext, spent: Spent, emit: Emit) -> Outcome:
    """Run a session until its model has answered everything, something waits for a person, or a limit is reached.

    The caller holds the session (`AgentSession.running` and `working`). Cancel it at any point: the history stays
    valid, and the next run goes on from there.
    """
    resumed = True
    full = False  # whether the model said that its window is full

    def paused(person: str) -> None:
        emit(TurnPaused(session.id, person))

    while True:
        last = session.last
        if isinstance(last, ModelTurn) and last.calls:
            await pause(session, spent, paused)
            waiting = await _run_calls(parts, session, last, ctx, emit, resumed=resumed)
            if waiting:
                await session.do(session.wait_for, waiting)
                return ended(session, spent, "waiting", waiting=tuple(waiting))
            continue
        given = parts.form.data(session.entries) if parts.form is not None else None
        if given is not None:
            return replace(ended(session, spent, "done"), data=given[0])
        answered = isinstance(last, ModelTurn) and last.stop not in ("pause", "interrupted")
        taken = await session.do(session.take_message, queued=answered)
        if taken is not None:
            await note_turn(parts.box, session, taken)
            emit(MessageTaken(taken.words, taken.source))
            continue
        if answered or last is None:
            if isinstance(last, ModelTurn) and last.stop == "refusal":
                return ended(session, spent, "refused")
            if parts.form is None:
                return ended(session, spent, "done")
            if not parts.form.may_remind(session.entries):
                return ended(session, spent, "error", reason="the model gave no answer of the form asked for")
            await session.do(session.append, user(NOTE, source="system"))
        reached = spent.exceeded()
        if reached:
            return ended(session, spent, "limit", reason=f"stopped at {reached}")
        if await pause(session, spent, paused):
            continue  # a message may have come
        if isinstance(last, ModelTurn) and last.stop == "interrupted":
            await session.do(session.append, user(INTERRUPTED_NOTE, source="system"))
        try:
            async with asyncio.timeout(spent.seconds_left):
                if full and not await compact(parts, session, spent, emit, force=True):
                    return ended(session, spent, "error", reason="the history does not fit the model's window")
                await _compact_if_full(parts, session, spent, emit)
                turn, model = await _ask(parts, session, spent, emit)
        except TimeoutError:
            continue  # the limit of seconds, which ends the loop above
        except ModelError as error:
            return ended(session, spent, "error", reason=str(error))
        resumed = False
        turn = _stored(turn, session, _prefix(parts, session))
        cost = spent.add(turn.usage, model)
        await session.do(session.append, turn, cost)
        emit(ReplyDone(turn, cost))
        full = turn.stop == "context"
        if turn.stop in ("length", "context") and not turn.calls:
            if turn.stop == "length" and not turn.text.strip():
                return ended(session, spent, "error", reason=NO_ROOM)
            await session.do(session.append, user(LENGTH_NOTE, source="system"))


def ended(
    session: AgentSession,
    spent: Spent,
    state: Any,
    *,
    reason: str = "",
    waiting: tuple[dict[str, Any], ...] = (),
) -> Outcome:
    """Return how a run of a session ended, with what it used."""
    return Outcome(state, session.answer, reason, spent.usage, spent.cost, spent.requests, waiting)


# --- the model


async def _ask(parts: LoopParts, session: AgentSession, spent: Spent, emit: Emit) -> tuple[ModelTurn, str]:
    """Return a reply and the name of the model that gave it. Raises ModelError if no model answered."""
    compactions = 0
    for index, model in list(enumerate(parts.models))[spent.model :]:
        tries = 0
        while True:
            request = _request(parts, session)
            spent.requests += 1
            emit(RequestStarted(model.name, spent.requests))
            seen = _Seen()
            try:
                turn = await _reply(model, request, seen, session, spent, emit)
                spent.model = index
                return turn, model.name
            except asyncio.CancelledError:
                if text := "".join(seen.shown):  # the person has seen it
                    await session.do(session.append, ModelTurn((Text(text),), "interrupted", model=model.name))
                raise
            except ModelError as error:
                log.info("%s: %s", model.name, error)
                shown = bool(seen.shown)
                if shown:
                    emit(ReplyDropped(str(error)))
                tries += 1
                if error.kind == "context" and compactions < MAX_COMPACTIONS:
                    compactions += 1
                    if await compact(parts, session, spent, emit, force=True):
                        continue
                if shown and error.kind in AGAIN and tries <= DROPPED_REPLIES:
                    continue
                if index + 1 == len(parts.models) or error.kind == "context":
                    raise
                if not shown:
                    emit(TryFailed(str(error), 0.0))
                break
    raise AssertionError("there is a model")


@dataclass(slots=True)
class _Seen:
    """What came of a reply so far: its text in pieces, and what the provider reported for it."""

    shown: list[str] = field(default_factory=list[str])
    usage: TokenUsage = NOTHING


async def _reply(
    model: Model, request: ModelRequest, seen: _Seen, session: AgentSession, spent: Spent, emit: Emit
) -> ModelTurn:
    """Return one reply. What a reply used that failed or was cancelled is counted."""
    try:
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                if isinstance(event, ReplyEnd):
                    seen.usage = event.lost
                    turn = event.turn
                    return turn if turn.usage != NOTHING else replace(turn, usage=compaction.estimated(request, turn))
                if isinstance(event, UsageSeen):
                    seen.usage = event.usage
                    continue
                if isinstance(event, TextDelta):
                    seen.shown.append(event.text)
                elif not seen.shown and not isinstance(event, TryFailed):
                    seen.shown.append("")
                emit(event)
    finally:
        if seen.usage != NOTHING:
            await session.do(session.count, seen.usage, spent.add(seen.usage, model.name))
    raise ModelError(f"{model.name} ended without a reply", "protocol")


def _request(parts: LoopParts, session: AgentSession) -> ModelRequest:
    history = for_model(session.entries)
    prefix = _prefix(parts, session)
    return ModelRequest(session.row.system, history, parts.offered, parts.max_tokens, parts.effort, prefix)


def _prefix(parts: LoopParts, session: AgentSession) -> str:
    return _digest(session.row.system + parts.digest)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _stored(turn: ModelTurn, session: AgentSession, prefix: str) -> ModelTurn:
    """Return the reply as it is stored: each call with an id that no other call of the session has."""
    taken = {call.id for entry in session.entries if isinstance(entry, ModelTurn) for call in entry.calls}
    parts: list[Any] = []
    for part in turn.parts:
        if isinstance(part, ModelCall):
            known = part.id in taken or not _CALL_ID.fullmatch(part.id)
            part = replace(part, id=make_id()) if known else part
            taken.add(part.id)
        parts.append(part)
    return replace(turn, parts=tuple(parts), prefix=prefix)


# --- the calls


async def _run_calls(
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
    last = rows[-1]
    begun = last["kind"] == "intent" or last["intent"] is not None
    if not begun and last["outcome"] != "ok":
        return None  # refused, asked about or cancelled, before it had an effect
    if last["kind"] == "intent" or last["outcome"] == "cancelled":
        said = "This call began to run, and was interrupted. It may have had all, some or none of its effects."
    else:
        said = f"This call ran (outcome: {last['outcome']}), but its output was lost when the process ended."
    return CallResult(call.id, call.name, f"{said} Look at what is there before you call it again.", is_error=True)


def _waits(run_id: str, call: ModelCall, output: ToolOutput) -> list[dict[str, Any]]:
    """Return what a call waits for, as JSON data: of a script, each of its calls that ask."""
    if BEHIND in output.meta:  # for the answer to an earlier call
        return []
    if output.error_kind == "pending":
        approvals = output.meta.get("approvals") or [output.meta.get("approval_id")]
        waits = {"kind": "approval", "run_id": run_id, "tool": call.name, "text": output.for_llm}
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


# --- compaction


async def _compact_if_full(parts: LoopParts, session: AgentSession, spent: Spent, emit: Emit) -> None:
    fixed = compaction.fixed_tokens(session.row.system, parts.tools)
    size = compaction.request_tokens(session.entries, fixed)
    if size > parts.window * compaction.CLEAR_AT and size > session.compacted_at + parts.window // 20:
        try:
            await compact(parts, session, spent, emit)
        except ModelError as error:  # the request may fit without a summary
            log.warning("no summary was made: %s", error)
            session.compacted_at = size


async def compact(parts: LoopParts, session: AgentSession, spent: Spent, emit: Emit, *, force: bool = False) -> bool:
    """Make the history shorter: old outputs become references; if that is not enough, a summary replaces old turns.

    With `force` at least half of it becomes shorter, whatever its size, by references if there are any to make.
    Returns whether it is shorter. Raises ModelError if the summary fails.
    """
    fixed = compaction.fixed_tokens(session.row.system, parts.tools)
    keep = int(parts.window * compaction.KEEP)
    if force:
        keep = min(keep, compaction.tokens_of(for_model(session.entries)) // 2)

    turns = ((index, turn) for index, turn in enumerate(session.entries) if isinstance(turn, ModelTurn))
    run_ids = {call.id: run_id_of(session.id, index, call.id) for index, turn in turns for call in turn.calls}

    def spill(result: CallResult) -> str:  # a file of its call: who reads it gets the labels that the record has
        return str(parts.box.spill.store(run_ids[result.call_id], "output.txt", result.text))

    shorter = False
    mark = compaction.clear_outputs(session.entries, keep, fixed, spill)
    if mark is not None:
        await session.do(session.append, mark)
        shorter = True
        emit(Compacted("outputs", *mark.tokens))
    size = compaction.request_tokens(session.entries, fixed)
    if (force and not shorter) or size > parts.window * compaction.SUMMARIZE_AT:
        useful = compaction.summarized(session.entries, keep, fixed, "", session.plan) is not None
        text = await _summary(parts, session, spent) if useful else ""
        mark = compaction.summarized(session.entries, keep, fixed, text, session.plan) if text else None
        if mark is not None:
            await session.do(session.append, mark)
            shorter = True
            emit(Compacted("summary", *mark.tokens))
    session.compacted_at = compaction.request_tokens(session.entries, fixed)
    return shorter


async def _summary(parts: LoopParts, session: AgentSession, spent: Spent) -> str:
    """Return a summary of the history, by the first model that gives one. What it costs is counted. Where the history
    does not fit the model's window, the oldest half of it is left out, again and again."""
    history: Sequence[Turn] = for_model(compaction.summary_request(session.entries))
    prefix = _prefix(parts, session)
    number = spent.model
    while True:
        model = parts.models[number]
        request = ModelRequest(session.row.system, history, parts.offered, parts.max_tokens, parts.effort, prefix)
        try:
            turn = await _reply(model, request, _Seen(), session, spent, lambda event: None)
        except ModelError as error:
            shorter = compaction.newer_half(history) if error.kind == "context" else None
            if shorter is None and (number := number + 1) == len(parts.models):
                raise
            history = shorter or history
            continue
        await session.do(session.count, turn.usage, spent.add(turn.usage, model.name))
        return turn.text
