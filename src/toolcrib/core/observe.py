"""Runs one call that has listeners, hooks, an authorizer or a counter: all its stages in order, and its events."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .authorize import ALLOWED, authorize, commit_and_run, describe
from .events import CallStarted
from .finish import LastAttempt, clean, emit_finished, without_secrets
from .intercept import intercept, refuse_repetition, with_warning
from .output import ToolOutput
from .refusals import not_bound

if TYPE_CHECKING:
    from .call import Call
    from .interfaces import Grant
    from .stages import Stages


async def observe(stages: Stages, call: Call, arguments: Mapping[str, Any] | str | bytes | None) -> ToolOutput:
    """Bind a call, run it through the stages, and emit exactly one CallFinished. Raises only cancellation."""
    since = time.time(), time.perf_counter()
    tool, events, last = call.tool, stages.events, LastAttempt(call)
    try:
        try:
            call.set_arguments(*tool.bind(arguments))
        except Exception as error:
            output = not_bound(tool, error)
        else:
            if events.eager or (stages.redact is not None and events.listeners):
                _emit_started(stages, call, since[0])
            guard = stages.guard if call.ctx.session_id is not None and not tool.loop_exempt else None
            refusal = None if guard is None else refuse_repetition(guard, call)
            if refusal is not None:
                output = refusal
            elif stages.hooks or stages.middleware:
                output = await intercept(stages, call, functools.partial(_attempt, stages, last))
            else:
                output = await _attempt(stages, last, call)
            if guard is not None and refusal is None:
                output = with_warning(guard, call, output)
    except BaseException as error:
        if events.listeners:
            cancelled = isinstance(error, asyncio.CancelledError)
            text = "the call was cancelled" if cancelled else without_secrets(stages, repr(error))
            emit_finished(stages, call, last, arguments, since, ToolOutput.error(text, "cancelled"))
        raise
    if output.is_error:
        output = clean(stages, output)
    if events.listeners:
        emit_finished(stages, call, last, arguments, since, output)
    return output


async def _attempt(stages: Stages, last: LastAttempt, call: Call) -> ToolOutput:
    """Authorize a call with bound arguments, then run it, or describe it in a dry run."""
    last.call, last.grant = call, None
    answer: Grant | ToolOutput = ALLOWED
    if stages.must_authorize(call.tool):
        last.call, answer = await authorize(stages, call)
        if isinstance(answer, ToolOutput):
            return answer
    last.grant = answer
    if stages.dry_run and not call.tool.is_read_only:
        return await describe(stages, last.call, answer)
    if not stages.gate.needed:
        return await commit_and_run(stages, last.call, answer)
    async with stages.gate.hold(call.tool.exclusive):
        return await commit_and_run(stages, last.call, answer)


def _emit_started(stages: Stages, call: Call, started: float) -> None:
    """Redact the arguments once for all events, and emit CallStarted if a listener wants it."""
    if stages.redact is not None:  # otherwise the record may have another redactor
        call.redacted_arguments = without_secrets(stages, call.text)
    if stages.events.eager:
        shown, tool = call.redacted_arguments or call.text, call.tool
        stages.events.emit(CallStarted(call.call_id, tool.name, tool.category, shown, call.ctx.session_id, started))
