"""Decides whether a call may run: asks the authorizer, describes dry runs, and records what is about to run."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from .errors import InvalidArguments, ToolExecutionDenied
from .finish import bound_again
from .interfaces import Grant
from .output import ToolOutput
from .refusals import denied, invalid, with_hint
from .run_tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from .call import Call
    from .interfaces import Intent
    from .stages import Stages

log = logging.getLogger("toolcrib.pipeline")

ALLOWED = Grant()
"""The grant of tools whose every call is allowed."""

MAX_EDITS = 10
"""How often an authorizer may change the arguments of one call."""


async def authorize(stages: Stages, call: Call) -> tuple[Call, Grant | ToolOutput]:
    """Ask the authorizer. Returns the call with the arguments that its approver edited, and its grant or refusal."""
    tool, authorizer = call.tool, stages.authorizer
    assert authorizer is not None
    try:
        if authorizer.clears(tool):
            stages.cleared.add(tool)
            return call, ALLOWED
        answer = await authorizer.authorize(call)
        for _ in range(MAX_EDITS):
            if not isinstance(answer, Grant) or answer.edited is None:
                break
            call = call.with_arguments(tool.bind(answer.edited), call.ctx)
            answer = await authorizer.authorize(call, replace(answer, edited=None))
        if isinstance(answer, ToolOutput):
            return call, with_hint(bound_again(stages, tool, call.call_id, answer))
        if not isinstance(cast("object", answer), Grant) or answer.edited is not None:
            raise ToolExecutionDenied(f"the authorizer gave no answer: {answer!r}"[:200])
    except InvalidArguments as error:
        return call, invalid(tool, error)
    except Exception as error:
        log.exception("authorization of %s failed", tool.name)
        return call, with_hint(denied(tool, error, "the check of this call failed, so it was refused"))
    return call, answer


def commit_and_run(stages: Stages, call: Call, grant: Grant) -> Coroutine[Any, Any, ToolOutput]:
    """Run the tool. If it has effects or uses a stored approval, first commit to the record that it will run."""
    if stages.intent is not None and (grant.approval_id is not None or not call.tool.is_read_only):
        return _commit_and_run(stages, stages.intent, call, grant)
    return run_tool(stages, call.tool, call.kwargs, call.ctx, call.call_id)


async def _commit_and_run(stages: Stages, intent: Intent, call: Call, grant: Grant) -> ToolOutput:
    tool = call.tool
    try:
        waiting = intent(call, grant)
        if waiting is not None:
            await waiting
    except ToolExecutionDenied as error:  # the stored approval is used up
        return with_hint(denied(tool, error))
    except Exception as error:
        log.exception("the intent of %s could not be recorded", tool.name)
        return with_hint(denied(tool, error, "the call could not be recorded, so it was not run"))
    return await run_tool(stages, tool, call.kwargs, call.ctx, call.call_id)


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
