"""The loop: ask the model, run its calls through the pipeline, and again, until it answers.

What happens next follows from the stored history alone. So a run that ended at any point, in any process, goes on in
the same way: a last message or result wants a reply, a reply with calls wants their results.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from ..core.dataclass import dataclass
from ..core.text import lazy_regex
from . import compaction
from .events import Compacted, MessageTaken, Outcome, ReplyDone, ReplyDropped, RequestStarted, TurnPaused
from .history import NOTHING, CallResult, ModelCall, ModelTurn, Text, TokenUsage, Turn, for_model, run_id_of, user
from .limits import Spent
from .model import AGAIN, Model, ModelError, ModelRequest, ReplyEnd, TextDelta, TryFailed, UsageSeen
from .reply_calls import run_calls
from .session_labels import note_turn
from .stopping import pause
from .structured import NOTE
from .wires.shared import make_id

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from .events import Emit
    from .loop_parts import LoopParts
    from .session import AgentSession

log = logging.getLogger("toolcrib.agent")

MAX_PIECE = 4_000
"""Characters of an answer that are shown in one go: after each piece Ctrl-C and messages of the person are heard."""
DROPPED_REPLIES = 2
"""How often a reply that failed in the middle is asked for again, with each model."""
_CALL_ID = lazy_regex("[!-~]{1,128}")
MAX_COMPACTIONS = 2
"""How often one request is made shorter because the model said that it does not fit."""
LENGTH_NOTE = "Your reply was cut by the limit on its length. Go on where it ended."
NO_ROOM = "the model's reasoning filled the whole reply: raise agent.max_output_tokens, or lower agent.effort"
INTERRUPTED_NOTE = "Your reply was interrupted. Go on where it ended."


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
            waiting = await run_calls(parts, session, last, ctx, emit, resumed=resumed)
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
        turn = _stored(turn, session, parts.prefix(session.row.system))
        cost = spent.add(turn.usage, model)
        await session.do(session.append, turn, cost)
        emit(ReplyDone(turn, cost))
        full = turn.stop == "context"
        if turn.stop in ("length", "context") and not turn.calls:
            if turn.stop == "length" and not turn.text.strip():
                return ended(session, spent, "error", reason=NO_ROOM)
            await session.do(session.append, user(LENGTH_NOTE, source="system"))


def ended(
    session: AgentSession, spent: Spent, state: Any, *, reason: str = "", waiting: tuple[dict[str, Any], ...] = ()
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
                if _may_be_an_image(error) and await _leave_images_out(parts, session):
                    emit(TryFailed(str(error), 0.0))
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
                    for at in range(0, len(event.text), MAX_PIECE):
                        piece = event.text[at : at + MAX_PIECE]
                        seen.shown.append(piece)
                        emit(TextDelta(piece))
                        await asyncio.sleep(0)
                    continue
                if not seen.shown and not isinstance(event, TryFailed):
                    seen.shown.append("")
                emit(event)
    finally:
        if seen.usage != NOTHING:
            await session.do(session.count, seen.usage, spent.add(seen.usage, model.name))
    raise ModelError(f"{model.name} ended without a reply", "protocol")


def _may_be_an_image(error: ModelError) -> bool:
    """Return whether a server may have failed at an image: a damaged one, an unknown kind, too many, or any at all."""
    return error.kind in ("refused", "server") and (error.status == 413 or "image" in str(error).lower())


async def _leave_images_out(parts: LoopParts, session: AgentSession) -> bool:
    """Leave the images of results out of the history. Returns whether there were any."""
    mark = compaction.without_images(session.entries, compaction.fixed_tokens(session.row.system, parts.tools))
    if mark is not None:
        await session.do(session.append, mark)
    return mark is not None


def _request(parts: LoopParts, session: AgentSession) -> ModelRequest:
    history = for_model(session.entries)
    prefix = parts.prefix(session.row.system)
    return ModelRequest(session.row.system, history, parts.offered, parts.max_tokens, parts.effort, prefix)


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
    prefix = parts.prefix(session.row.system)
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
