"""The row where somebody listens, intercepts or counts: when a call started, and how it ended, whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import InvalidArguments
from .events import CallStarted
from .finishing import clean, tell, without_secrets
from .intercepting import guarded
from .judging import LEAVE, committed, is_cleared, judged
from .output import ToolOutput
from .refusals import invalid, unexpected

if TYPE_CHECKING:
    from .call import Call
    from .pipeline import Pipeline


async def observed(pipe: Pipeline, call: Call, arguments: Mapping[str, Any] | str | bytes | None) -> ToolOutput:
    """Bind, run and tell of a call. Exactly one CallFinished, if anybody listens; raises only cancellation."""
    started, begun = time.time(), time.perf_counter()
    tool, events = call.tool, pipe.events
    try:
        try:
            call.hold(*tool.bind(arguments))
        except InvalidArguments as error:
            output = invalid(tool, error)
        except Exception as error:
            output = unexpected(tool, error)
        else:
            if events.listeners:
                if pipe.redact is not None:  # else the record may have a redactor of its own
                    call.told = without_secrets(pipe, call.text)
                if events.eager:
                    told, session = call.told or call.text, call.ctx.session_id
                    events.emit(CallStarted(call.call_id, tool.name, tool.category, told, session, started))
            if pipe.hooks or pipe.middleware or (pipe.guard is not None and call.ctx.session_id is not None):
                output = await guarded(pipe, call)
            elif is_cleared(pipe, tool):
                call.grant = LEAVE
                output = await committed(pipe, call)
            else:
                output = await judged(pipe, call)
    except BaseException as error:
        if events.listeners:
            cancelled = isinstance(error, asyncio.CancelledError)
            text = "the call was cancelled" if cancelled else without_secrets(pipe, repr(error))
            tell(pipe, call, arguments, started, begun, ToolOutput.error(text, "cancelled"))
        raise
    if output.is_error:
        output = clean(pipe, output)
    if events.listeners:
        tell(pipe, call, arguments, started, begun, output)
    return output
