"""One call that is listened to, intercepted, authorized or counted: all its stages in order, and its events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .authorize import ALLOWED, authorize, commit_and_run, describe
from .events import CallStarted
from .finish import clean, emit_finished, without_secrets
from .intercept import intercept, repeats, with_warning
from .output import ToolOutput
from .refusals import not_bound

if TYPE_CHECKING:
    from .call import Call
    from .interfaces import Grant
    from .stages import Stages


async def observe(stages: Stages, call: Call, arguments: Mapping[str, Any] | str | bytes | None) -> ToolOutput:
    """Bind a call, run it through the stages, and emit exactly one CallFinished. Raises only cancellation."""
    since = time.time(), time.perf_counter()
    tool, events = call.tool, stages.events
    latest, grant = call, None  # hooks, middleware and approvers change arguments: the event has those that ran

    async def attempt(attempted: Call) -> ToolOutput:
        nonlocal latest, grant
        latest, grant = attempted, None
        answer: Grant | ToolOutput = ALLOWED
        if not stages.allows_all(tool):
            latest, answer = await authorize(stages, attempted)
        if isinstance(answer, ToolOutput):
            return answer
        grant = answer
        if stages.dry_run and not tool.is_read_only:
            return await describe(stages, latest, grant)
        if not stages.gate.needed:
            return await commit_and_run(stages, latest, grant)
        async with stages.gate.hold(tool.exclusive):
            return await commit_and_run(stages, latest, grant)

    try:
        try:
            call.set_arguments(*tool.bind(arguments))
        except Exception as error:
            output = not_bound(tool, error)
        else:
            if events.listeners:
                _emit_started(stages, call, since[0])
            refusal = repeats(stages, call)
            if refusal is not None:
                output = refusal
            else:
                intercepted = stages.hooks or stages.middleware
                output = await (intercept(stages, call, attempt) if intercepted else attempt(call))
                output = with_warning(stages, call, output)
    except BaseException as error:
        if events.listeners:
            cancelled = isinstance(error, asyncio.CancelledError)
            text = "the call was cancelled" if cancelled else without_secrets(stages, repr(error))
            output = ToolOutput.error(text, "cancelled")
            emit_finished(stages, call, latest, grant, arguments, since, output)
        raise
    if output.is_error:
        output = clean(stages, output)
    if events.listeners:
        emit_finished(stages, call, latest, grant, arguments, since, output)
    return output


def _emit_started(stages: Stages, call: Call, started: float) -> None:
    """Redact the arguments once for all events, and emit CallStarted if a listener wants it."""
    if stages.redact is not None:  # otherwise the record may have a redactor of its own
        call.redacted_arguments = without_secrets(stages, call.text)
    if stages.events.eager:
        shown, tool = call.redacted_arguments or call.text, call.tool
        stages.events.emit(CallStarted(call.call_id, tool.name, tool.category, shown, call.ctx.session_id, started))
