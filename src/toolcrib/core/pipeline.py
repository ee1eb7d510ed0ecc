"""The pipeline: every call of a tool runs through the same stages, whatever way it came in.

    bind → middleware and before-hooks → authorize → commit → run → redact and bound → after-hooks → event

The registry finds the tool; `Pipeline.run` does the rest. The stages are functions. Here: `observe` (the sequence of
stages, and the events), `authorize` (may it run), `commit_and_run`. In files of their own: `intercept` (loop guard,
middleware, hooks), `run_tool`, `finish` (labels, secrets, length; refusals). `stages` holds what they are filled with,
`interfaces` the types of that, `call` what they pass on. Without anything to do but run, a call skips all but
`run_tool`.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .bound import clean_id
from .call import Call
from .caller import name_of
from .context import BEHIND, EMPTY_CONTEXT, MAY_ACT, ToolContext
from .errors import InvalidArguments, ToolcribError, ToolExecutionDenied
from .events import CallStarted
from .finish import (
    LastAttempt,
    about_edited,
    bound_again,
    clean,
    denied,
    emit_finished,
    emit_refused,
    finish,
    held_back,
    invalid,
    not_bound,
    session_of,
    with_hint,
    without_secrets,
)
from .intercept import intercept, refuse_repetition, with_warning
from .interfaces import Grant
from .output import ToolOutput, answering
from .run_tool import run_tool
from .stages import Stages
from .tool_spec import ToolCategory

if TYPE_CHECKING:
    from pathlib import Path

    from .tool import Tool


log = logging.getLogger("toolcrib.pipeline")

ALLOWED = Grant()
"""The grant of tools whose every call is allowed."""

REPLAY = "replay"
"""The rule, in the record, of a call that a tape answers: its tool does not run."""
CHANGES_FILES = (ToolCategory.FILESYSTEM_WRITE, ToolCategory.DESTRUCTIVE)
"""The categories of tools whose calls wait for each other, if they judge paths and are not async."""
MAX_EDITS = 10
"""How often an authorizer may change the arguments of one call."""


class Pipeline:
    """Runs calls through the stages."""

    def __init__(self) -> None:
        self.stages = Stages()
        self._prefix = f"call_{os.getpid():x}{time.time_ns() & 0xFFFFFFFF:08x}"
        self._count = itertools.count(1)

    def new_id(self) -> str:
        """Return a call id. Ids of different processes differ too."""
        return f"{self._prefix}{next(self._count):x}"

    async def run(
        self,
        tool: Tool,
        arguments: Mapping[str, Any] | str | bytes | None,
        ctx: ToolContext | None,
        call_id: str | None = None,
        waiting: Callable[[], None] | None = None,
        announced: bool = False,
        behind: str = "",
    ) -> ToolOutput:
        """Run one call: from a model's JSON (or a dict) to a bounded output. Raises only cancellation.

        `waiting()` is called when the call begins to wait for a person. `announced`: `before_execute_tools` has run.
        `behind`: the tool of an earlier call that waits for a person; this one may ask, and has no effect.
        """
        stages = self.stages
        if ctx is None:
            ctx = EMPTY_CONTEXT
        given, call_id = call_id, clean_id(call_id, stages.redact) if call_id else self.new_id()
        given = given or call_id  # its caller knows it as it was
        if tool.workspace is not None and (refusal := _elsewhere(tool, tool.workspace, ctx.workspace)) is not None:
            return self.refuse(tool.name, arguments, ctx, given, refusal)
        if behind or ctx.caller is not None or not stages.runs_freely(tool):
            if behind:
                ctx = replace(ctx, metadata={**ctx.metadata, BEHIND: behind})
            call = Call(call_id, tool, "", ctx, waiting)
            call.announced = announced
            output = await observe(stages, call, arguments)
            return output if given is call_id else answering(output, given, tool.name)
        try:
            kwargs = tool.bind(arguments)[0]
        except Exception as error:
            output = clean(stages, not_bound(tool, error))
        else:
            output = await run_tool(stages, tool, kwargs, ctx, call_id)
        return answering(output, given, tool.name)

    def refuse(
        self, name: str, arguments: Any, ctx: ToolContext | None, call_id: str | None, output: ToolOutput
    ) -> ToolOutput:
        """Return the outcome of a call that reached no tool. It is an event like any other."""
        call_id = call_id or self.new_id()
        output = answering(clean(self.stages, with_hint(output)), call_id, name)
        if self.stages.events.listeners:
            emit_refused(
                self.stages, clean_id(call_id, self.stages.redact), name, arguments, ctx or EMPTY_CONTEXT, output
            )
        return output


def _elsewhere(tool: Tool, own: Path, asked: Path | None) -> ToolOutput | None:
    """Return the refusal of a call whose context names another workspace than the tool's own, or None."""
    if asked is None or asked is own or os.path.realpath(asked) == os.path.realpath(own):
        return None
    return ToolOutput.error(
        f"{tool.name} works in {own}, and the context of this call names another workspace, {asked}. The host should "
        "open a toolbox for that folder and call the tool there",
        "denied",
    )


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
            cancelled, notes = isinstance(error, asyncio.CancelledError), getattr(error, "__notes__", ())
            text = without_secrets(stages, "\n".join(("the call was cancelled", *notes)) if cancelled else repr(error))
            emit_finished(stages, call, last, arguments, since, ToolOutput.error(text, "cancelled"))
        raise
    output = answering(clean(stages, output), call.call_id, tool.name)
    if events.listeners:
        emit_finished(stages, call, last, arguments, since, output)
    return output


async def _attempt(stages: Stages, last: LastAttempt, call: Call) -> ToolOutput:
    """Authorize a call with bound arguments, then run it, or describe it in a dry run."""
    for _ in range(MAX_EDITS):
        output = await _attempt_once(stages, last, call)
        if output is not None:
            return output
    text = f"{call.tool.name} was not run: other calls change files all the time. Call it again when they have ended."
    return with_hint(ToolOutput.error(text, "denied"))


async def _attempt_once(stages: Stages, last: LastAttempt, call: Call) -> ToolOutput | None:
    """Return None where another call has changed files since this one was authorized, and it would ask now."""
    last.call, last.grant = call, None
    answer: Grant | ToolOutput = ALLOWED
    seen = stages.changes
    if stages.must_authorize(call.tool, call.ctx.caller):
        last.call, answer = await authorize(stages, call)
        if isinstance(answer, ToolOutput):
            return answer
    last.grant = answer
    if stages.dry_run and not call.tool.is_read_only:
        return await describe(stages, last.call, answer)
    if BEHIND in call.ctx.metadata and (call.tool.makes_calls or not call.tool.is_read_only):
        return held_back(call)
    kept = None if stages.tape is None else stages.tape.find(last.call)
    if kept is not None:
        last.grant = answer = replace(answer, rule=REPLAY)
    if not stages.gate.needed:
        return await _run_in_turn(stages, last.call, answer, kept, seen)
    async with stages.gate.hold(call.tool.exclusive):
        return await _run_in_turn(stages, last.call, answer, kept, seen)


async def _run_in_turn(
    stages: Stages, call: Call, grant: Grant, kept: ToolOutput | None, seen: int
) -> ToolOutput | None:
    """Run a call; one that changes files alone among such calls, if it still would not ask."""
    tool = call.tool
    if tool.judge is None or not tool.paths or tool.category not in CHANGES_FILES or tool.is_async:
        return await commit_and_run(stages, call, grant, kept)
    async with stages.changing[name_of(call.ctx.caller)].hold(True):
        if stages.changes != seen and grant.approver is None:
            try:
                judged = tool.judge(call.arguments, call.ctx)
            except Exception:  # the next authorization says why
                return None
            if judged is not None and judged.verdict != "allow":
                return None
        try:
            return await commit_and_run(stages, call, grant, kept)
        finally:
            stages.changes += 1


def _emit_started(stages: Stages, call: Call, started: float) -> None:
    """Redact the arguments once for all events, and emit CallStarted if a listener wants it."""
    if stages.redact is not None:  # otherwise the record may have another redactor
        call.redacted_arguments = without_secrets(stages, call.text)
    if stages.events.eager:
        shown, tool = call.redacted_arguments or call.text, call.tool
        session = session_of(stages, call.ctx)
        stages.events.emit(CallStarted(call.call_id, tool.name, tool.category, shown, session, started))


async def authorize(stages: Stages, call: Call) -> tuple[Call, Grant | ToolOutput]:
    """Ask the authorizer. Returns the call with the arguments that its approver edited, and its grant or refusal."""
    tool, caller = call.tool, call.ctx.caller
    authorizer = stages.authorizer_of(caller)
    assert authorizer is not None
    asked = call
    try:
        cleared = stages.cleared.get(tool) if caller is None else False
        if cleared is None:
            cleared = stages.cleared[tool] = authorizer.clears(tool)
        if cleared:
            return call, ALLOWED
        answer = await authorizer.authorize(call)
        for _ in range(MAX_EDITS):
            if not isinstance(answer, Grant) or answer.edited is None:
                break
            call = call.with_arguments(tool.bind(answer.edited), call.ctx)
            answer = await authorizer.authorize(call, replace(answer, edited=None))
        if isinstance(answer, ToolOutput):
            answer = answer if call is asked else about_edited(answer)
            return call, with_hint(bound_again(stages, tool, call.call_id, answer))
        if not isinstance(cast("object", answer), Grant) or answer.edited is not None:
            raise ToolExecutionDenied(f"the authorizer gave no answer: {answer!r}"[:200])
    except InvalidArguments as error:
        return call, with_hint(about_edited(invalid(tool, error)))
    except Exception as error:
        text = "the call of %s could not be checked, so it was refused: %s"
        log.error(text, tool.name, error, exc_info=_unexpected(error))
        return call, with_hint(denied(tool, error, "the check of this call failed, so it was refused"))
    return call, answer


async def commit_and_run(stages: Stages, call: Call, grant: Grant, kept: ToolOutput | None = None) -> ToolOutput:
    """Run the tool, or answer with the output that a tape has kept. If it has effects or uses a stored approval, first
    commit that to the record."""
    tool = call.tool
    if stages.intent is not None and (grant.approval_id is not None or not tool.is_read_only):
        try:
            waiting = stages.intent(call, grant)
            if waiting is not None:
                await waiting
            if MAY_ACT in call.ctx.metadata:
                await call.ctx.metadata[MAY_ACT]()
        except ToolExecutionDenied as error:  # the stored approval is used up
            return with_hint(denied(tool, error))
        except Exception as error:
            log.error("the call of %s could not be recorded, so it was not run", tool.name, exc_info=_unexpected(error))
            return with_hint(denied(tool, error, "the call could not be recorded, so it was not run"))
    ctx = call.ctx
    if ctx.wall is not grant.wall or ctx.hosts != grant.hosts or ctx.as_shown is not grant.as_shown:
        ctx = replace(ctx, wall=grant.wall, hosts=grant.hosts, as_shown=grant.as_shown)
    if kept is not None:
        return finish(stages, tool, call.kwargs, replace(ctx, call_id=call.call_id), kept, False)
    output = await run_tool(stages, tool, call.kwargs, ctx, call.call_id)
    if stages.tape is not None:
        stages.tape.keep(call, output)
    return output


def _unexpected(error: Exception) -> bool:
    """Return whether an error needs its traceback: a full disk says itself what is wrong, and the record logs it."""
    return not isinstance(error, ToolcribError | OSError)


async def describe(stages: Stages, call: Call, grant: Grant) -> ToolOutput:
    """Describe what the call would do, for a dry run. The tool does not run."""
    tool, preview = call.tool, call.tool.preview
    shown = call.canonical
    if preview is not None:
        try:
            shown = await stages.threads.run(preview, call.arguments, call.ctx)
        except Exception as error:
            shown = f"{shown}\n(no preview: {error})"
    asks = f"\n({grant.reason})" if grant.rule == "dry_run" else ""
    text = f"Dry run: {tool.name} was not run. It would have done:\n{shown}{asks}"
    return bound_again(stages, tool, call.call_id, ToolOutput(text, meta={"dry_run": True}))
