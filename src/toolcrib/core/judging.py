"""Whether a call may run, and what is committed before it does: authorize, dry run, the gate, the intent."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from .authorize import Grant
from .errors import InvalidArguments, ToolExecutionDenied
from .finishing import bound_again
from .output import ToolOutput
from .refusals import denied, invalid, with_hint
from .running import perform

if TYPE_CHECKING:
    from .call import Call
    from .pipeline import Pipeline
    from .tool import Tool

log = logging.getLogger("toolcrib.pipeline")

LEAVE = Grant()
"""For a tool that is cleared: nothing of its calls is judged."""

MAX_EDITS = 10
"""How often an authorizer may change the arguments of one call."""


def is_cleared(pipe: Pipeline, tool: Tool) -> bool:
    """Whether its calls may run, and beside any others, whatever they are."""
    return (pipe.authorizer is None or tool in pipe.cleared) and not pipe.dry_run and not pipe.gate.needed


def is_free(pipe: Pipeline, tool: Tool) -> bool:
    """Whether its calls run at once: there is nothing to judge, and nothing to commit before."""
    if pipe.authorizer is not None and tool not in pipe.cleared:
        return False
    return (pipe.intent is None and not pipe.dry_run) or tool.is_read_only


async def judged(pipe: Pipeline, call: Call) -> ToolOutput:
    """Run a call whose arguments are bound if it may; else why not. Nothing but the tool runs after the last yes."""
    if pipe.authorizer is None or call.tool in pipe.cleared:
        call.grant = LEAVE
    else:
        answer = await _authorized(pipe, call)
        if isinstance(answer, ToolOutput):
            return answer
        call = answer
    if pipe.dry_run and not call.tool.is_read_only:
        return await _described(pipe, call)
    if not pipe.gate.needed:
        return await committed(pipe, call)
    async with pipe.gate.hold(call.tool.exclusive):
        return await committed(pipe, call)


async def _authorized(pipe: Pipeline, call: Call) -> Call | ToolOutput:
    """The call with the authorizer's leave, and the arguments it has leave for; or the output that refuses it."""
    tool, authorizer = call.tool, pipe.authorizer
    assert authorizer is not None
    try:
        if authorizer.clears(tool):
            pipe.cleared.add(tool)
            call.grant = LEAVE
            return call
        answer = await authorizer.authorize(call)
        for _ in range(MAX_EDITS):
            if not isinstance(answer, Grant) or answer.edited is None:
                break
            call = call.again(tool.bind(answer.edited), call.ctx)
            answer = await authorizer.authorize(call, replace(answer, edited=None))
        if isinstance(answer, ToolOutput):
            return with_hint(bound_again(pipe, tool, call.call_id, answer))
        if not isinstance(cast("object", answer), Grant) or answer.edited is not None:
            raise ToolExecutionDenied(f"the authorizer gave no answer: {answer!r}"[:200])
    except InvalidArguments as error:
        return invalid(tool, error)
    except Exception as error:
        log.exception("authorization of %s failed", tool.name)
        return with_hint(denied(tool, error, "the check of this call failed, so it was refused"))
    call.grant = answer
    return call


async def committed(pipe: Pipeline, call: Call) -> ToolOutput:
    """Commit the intention to run a call with effects, or on a stored approval, then run it."""
    tool, grant = call.tool, call.grant
    assert grant is not None
    if pipe.intent is not None and (grant.approval_id is not None or not tool.is_read_only):
        try:
            waiting = pipe.intent(call, grant)
            if waiting is not None:
                await waiting
        except ToolExecutionDenied as error:  # the approval it rests on is used up
            return with_hint(denied(tool, error))
        except Exception as error:
            log.exception("the intent of %s could not be recorded", tool.name)
            return with_hint(denied(tool, error, "the call could not be recorded, so it was not run"))
    return await perform(pipe, tool, call.kwargs, call.ctx, call.call_id)


async def _described(pipe: Pipeline, call: Call) -> ToolOutput:
    """What the call would do: it is not run."""
    tool, grant, preview = call.tool, call.grant, call.tool.preview
    shown = call.canonical
    if preview is not None:
        try:
            shown = await pipe.threads.run(preview, call.arguments, call.ctx)
        except Exception as error:
            shown = f"{shown}\n(no preview: {error})"
    asks = f"\n({grant.reason})" if grant is not None and grant.rule == "dry_run" else ""
    text = f"Dry run: {tool.name} was not run. It would have done:\n{shown}{asks}"
    return bound_again(pipe, tool, call.call_id, ToolOutput(text, meta={"dry_run": True}))
