"""What hosts put around a call: the loop guard, middleware, and hooks before and after."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .call import Call, ToolCall
from .errors import InvalidArguments, ToolExecutionDenied
from .finishing import bound_again
from .judging import judged
from .output import ToolOutput
from .refusals import denied, invalid, with_hint, withheld
from .tool import encode
from .wrap import wrap

if TYPE_CHECKING:
    from .context import ToolContext
    from .pipeline import Pipeline
    from .seams import Middleware, Next

log = logging.getLogger("toolcrib.pipeline")


async def guarded(pipe: Pipeline, call: Call) -> ToolOutput:
    """The loop guard, where there is one for this call, around all else."""
    tool, ctx, text = call.tool, call.ctx, call.text
    guard = pipe.guard if ctx.session_id is not None and not tool.poll else None
    if guard is not None:
        try:
            reason = guard.before(tool, text, ctx)
        except Exception as error:
            log.exception("the loop guard failed")
            return with_hint(denied(tool, error))
        if reason is not None:
            return with_hint(ToolOutput.error(reason, "loop"))
    output = await (_intercepted(pipe, call) if pipe.middleware or pipe.hooks else judged(pipe, call))
    if guard is not None:
        try:
            warning = guard.after(tool, text, output, ctx)
        except Exception:
            log.exception("the loop guard failed")
            warning = None
        if warning is not None:
            output = replace(output, for_llm=f"{output.for_llm}\n\n[{warning}]")
    return output


async def _intercepted(pipe: Pipeline, call: Call) -> ToolOutput:
    """Middleware around before-hooks around the rest. Rewritten arguments are bound, and so judged, anew."""
    from pydantic_core import from_json

    tool, ctx = call.tool, call.ctx
    first = ToolCall(call.call_id, tool.name, from_json(call.text))
    as_read = _encoded(first.arguments)  # a middleware may have changed the dict in place

    async def core(asked: ToolCall | None = None, inner_ctx: ToolContext | None = None) -> ToolOutput:
        asked, inner_ctx = asked or first, inner_ctx or ctx
        answer = await _before(pipe, call, asked, inner_ctx)
        if isinstance(answer, ToolOutput):
            return answer
        try:
            if answer is not first or _encoded(answer.arguments) != as_read:
                bound = tool.bind(answer.arguments)
            elif call.runs:  # a retry runs the tool again: it needs keyword arguments of its own
                bound = tool.bind(call.text)
            else:
                bound = call.kwargs, call.text
        except InvalidArguments as error:
            return invalid(tool, error)
        return await _after(pipe, call, answer, inner_ctx, await judged(pipe, call.again(bound, inner_ctx)))

    chain: Next = core
    for middleware in reversed(pipe.middleware):
        chain = _link(middleware, chain, first, ctx)
    try:
        output = await chain(first, ctx)
    except ToolExecutionDenied as error:
        return with_hint(denied(tool, error))
    except Exception as error:
        log.exception("a middleware failed")
        return with_hint(denied(tool, error))
    try:
        return with_hint(bound_again(pipe, tool, call.call_id, wrap(output)))
    except Exception as error:
        log.exception("what a middleware answered is no output")
        return with_hint(withheld(tool, error))


async def _before(pipe: Pipeline, call: Call, asked: ToolCall, ctx: ToolContext) -> ToolCall | ToolOutput:
    """The call as the before-hooks leave it, or the output that one of them answers or refuses with."""
    for hook in pipe.hooks:
        try:
            answer = await hook.before(asked, ctx)
        except Exception as error:
            return with_hint(denied(call.tool, error))
        if isinstance(answer, ToolOutput):
            return with_hint(bound_again(pipe, call.tool, call.call_id, answer))
        if answer is not None:
            asked = answer
    name = call.tool.name
    if asked.name != name:
        text = f"a hook renamed the call from {name} to {asked.name}; that is not allowed"
        return with_hint(ToolOutput.error(text, "denied"))
    return asked


async def _after(pipe: Pipeline, call: Call, asked: ToolCall, ctx: ToolContext, output: ToolOutput) -> ToolOutput:
    """The output as the hooks leave it; one that fails withholds it."""
    for hook in pipe.hooks:
        try:
            if output.is_error:
                await hook.error(asked, output, ctx)
            changed = await hook.after(asked, output, ctx)
        except Exception as error:
            log.exception("an after-hook failed")
            return with_hint(ToolOutput.error(f"the output was withheld: a hook failed ({error})", "exception"))
        if changed is not None:
            output = bound_again(pipe, call.tool, call.call_id, changed)
    return output


def _link(middleware: Middleware, inner: Next, first: ToolCall, ctx: ToolContext) -> Next:
    async def linked(call: ToolCall | None = None, inner_ctx: ToolContext | None = None) -> ToolOutput:
        return await middleware(call or first, inner_ctx or ctx, inner)

    return linked


def _encoded(arguments: Mapping[str, Any] | str) -> str:
    """Arguments as the JSON text that would be bound."""
    return arguments if isinstance(arguments, str) else encode(arguments)
