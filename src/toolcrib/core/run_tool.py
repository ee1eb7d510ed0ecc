"""Runs a tool under its time limit, with a separate context. Its errors become outputs."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Awaitable
from dataclasses import replace
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from .bound import LONG, is_long, safe
from .context import Progress, ToolContext, _current  # pyright: ignore[reportPrivateUsage]
from .drive import NOT_STARTED, Asking, TimedOut, drive
from .errors import ConfigError, SandboxUnavailable, ToolError, ToolExecutionDenied
from .events import CallProgress
from .finish import describe_error, finish, finish_long, timed_out, without_secrets
from .output import ERROR_TEXT, ToolOutput, plain_output
from .text import matches
from .threads import ThreadsExhausted
from .wrap import wrap

if TYPE_CHECKING:
    from .stages import Stages
    from .tool import Tool

log = logging.getLogger("toolcrib.pipeline")

MAX_TRACEBACK = 8_000
"""Characters of a traceback."""
_OURS = os.path.dirname(__file__) + os.sep
_COROUTINE: Any = CoroutineType
_new, _set = object.__new__, object.__setattr__


async def run_tool(stages: Stages, tool: Tool, kwargs: dict[str, Any], ctx: ToolContext, call_id: str) -> ToolOutput:
    """Run the tool under its timeout, with its own context; wrap, redact and bound what it returns."""
    own = _new(ToolContext)  # past the frozen dataclass's `replace`, which costs ten times as much
    fields = ctx.__dict__.copy()
    fields["call_id"] = call_id
    _set(own, "__dict__", fields)
    timeout = tool.timeout
    if stages.events.eager or (stages.redact is not None and own.on_progress is not None):
        fields["on_progress"] = _reporter(stages, tool, call_id, own.on_progress)
    if stages.secrets is not None or own.secret_of is not None:
        fields["secret_of"] = None if stages.secrets is None else functools.partial(stages.secrets, tool)
    asking = made = None
    if own.ask is not None:  # while a person is asked, the tool's time does not run
        clean = None if stages.redact is None else functools.partial(without_secrets, stages)
        asking = fields["ask"] = Asking(own.ask, clean)
    token = _current.set(own)
    watched = stages.watchers
    if watched:
        stages.running[id(own)] = tool
    try:
        if tool.timeout_for is not None:
            timeout = tool.timeout_for(kwargs)
        work: Any = tool.invoke(kwargs, own) if tool.is_async else _in_thread(stages, tool, kwargs, own)
        if type(work) is _COROUTINE:
            try:
                pending = work.send(None)  # a tool that does not wait needs no timer
            except StopIteration as stop:
                result: Any = stop.value
            except GeneratorExit as error:
                raise RuntimeError("the tool raised GeneratorExit") from error
            else:
                result = await drive(work, pending, timeout, asking)
        else:
            result = await drive(_await(work), NOT_STARTED, timeout, asking) if _awaitable(work) else work
        if type(result) is str:
            if tool.output_schema is None:
                if (
                    stages.redact is None
                    and stages.labeller is None
                    and len(result) <= tool.max_output
                    and not result.startswith(ERROR_TEXT)
                ):
                    return plain_output(result if result.isprintable() else safe(result), call_id, tool.name)
                output = made = plain_output(result, call_id, tool.name)
            else:
                output = tool.check_output(plain_output(result))
        else:
            output = result if type(result) is ToolOutput else wrap(result)
            if tool.output_schema is not None and not output.is_error:
                output = tool.check_output(output)
        if not output.is_error and _says_errors(stages, tool) and str(output).startswith(ERROR_TEXT):
            output, made = replace(output, is_error=True, error_kind="tool"), None
    except BaseException as error:
        found = _failed(stages, tool, error, timeout)
        if found is None:
            raise
        output = found
    finally:
        try:
            _current.reset(token)
        except ValueError:  # closed from another context, as at the end of a loop
            pass
        if watched:
            stages.running.pop(id(own), None)
    if len(output.for_llm) > LONG if output is made else is_long(output):
        return await finish_long(stages, tool, kwargs, own, output)
    return finish(stages, tool, kwargs, own, output, output is made)


def _says_errors(stages: Stages, tool: Tool) -> bool:
    named = stages.errors_as_text
    return tool.errors_as_text or (bool(named) and matches(tool.every_name, named))


def _failed(stages: Stages, tool: Tool, error: BaseException, timeout: float | None) -> ToolOutput | None:
    """Return the output for an exception of a tool, or None if it is not the tool's own and has to be raised."""
    if isinstance(error, TimedOut):
        return timed_out(tool, timeout)
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            return None
        return ToolOutput.error(f"{tool.name} failed: something it waited for was cancelled", "exception")
    if isinstance(error, ToolError):
        return ToolOutput.error(str(error) or type(error).__name__, "tool")
    if isinstance(error, ToolExecutionDenied):
        return ToolOutput.error(str(error) or "denied", "denied")
    if isinstance(error, SandboxUnavailable | ConfigError):
        return ToolOutput.error(str(error), "unavailable")
    if isinstance(error, ThreadsExhausted):
        return ToolOutput.error(f"{tool.name} was not run: {error}. Restart the host to free them.", "unavailable")
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return None
    # SystemExit too: a tool must not end its host
    log.debug("tool %s raised", tool.name, exc_info=True)
    text = f"Error executing {tool.name}: {describe_error(error)}"
    shown = without_secrets(stages, _traceback(error))[-MAX_TRACEBACK:]  # cut again: it may begin within a secret
    return ToolOutput.error(text, "exception", traceback=shown)


def _traceback(error: BaseException) -> str:
    """Return where a tool raised, without our own frames above it; its end if it is too long."""
    import traceback

    try:
        while error.__traceback__ is not None and error.__traceback__.tb_frame.f_code.co_filename.startswith(_OURS):
            error = error.with_traceback(error.__traceback__.tb_next)
        return "".join(traceback.format_exception(error))[-2 * MAX_TRACEBACK :]
    except Exception:  # a broken __str__
        return describe_error(error)


async def _in_thread(stages: Stages, tool: Tool, kwargs: dict[str, Any], own: ToolContext) -> Any:
    ended = False
    outer = own.is_cancelled
    own.__dict__["is_cancelled"] = lambda: ended or (outer is not None and outer())
    try:
        result = await stages.threads.run(tool.invoke, kwargs, own)
    finally:
        ended = True
    return await result if _awaitable(result) else result


def _awaitable(value: Any) -> bool:
    return hasattr(value, "__await__")


async def _await(value: Awaitable[Any]) -> Any:
    return await value


def _reporter(stages: Stages, tool: Tool, call_id: str, door: Progress | None) -> Any:
    """Reports progress as an event and to the caller, without secrets."""
    events = stages.events

    async def report(done: float, total: float | None, message: str | None) -> None:
        message = None if message is None else without_secrets(stages, message)
        events.emit(CallProgress(call_id, tool.name, done, total, message))
        if door is not None:
            await door(done, total, message)

    return report
