"""Runs the parts that hosts put around a call: the loop guard, middleware, and hooks before and after it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .call import ToolCall
from .context import _current  # pyright: ignore[reportPrivateUsage]
from .errors import InvalidArguments, ToolExecutionDenied
from .finish import bound_again, denied, invalid, with_hint, withheld
from .output import ToolOutput
from .tool import encode
from .wrap import wrap

if TYPE_CHECKING:
    from .call import Call
    from .context import ToolContext
    from .interfaces import CallGuard, Hook, Middleware, Next
    from .stages import Stages

log = logging.getLogger("toolcrib.pipeline")


def refuse_repetition(guard: CallGuard, call: Call) -> ToolOutput | None:
    """Return the loop guard's refusal of a call that goes round in circles, or None."""
    try:
        reason = guard.before(call.tool, call.text, call.ctx)
    except Exception as error:
        log.exception("the loop guard failed")
        return with_hint(denied(call.tool, error))
    return None if reason is None else with_hint(ToolOutput.error(reason, "loop"))


def with_warning(guard: CallGuard, call: Call, output: ToolOutput) -> ToolOutput:
    """Return the output, with the loop guard's warning if it has one."""
    try:
        warning = guard.after(call.tool, call.text, output, call.ctx)
    except Exception:
        log.exception("the loop guard failed")
        return output
    return output if warning is None else replace(output, for_llm=f"{output.for_llm}\n\n[{warning}]")


async def announce(hooks: Iterable[Hook], calls: Sequence[ToolCall], ctx: ToolContext) -> ToolOutput | None:
    """Run `before_execute_tools` of all hooks, with the calls' context as the current one. Returns the refusal of all
    calls, or None."""
    token = _current.set(ctx)
    try:
        for hook in hooks:
            await hook.before_execute_tools(calls)
    except Exception as error:
        log.debug("calls were denied", exc_info=True)
        return ToolOutput.error(str(error) or type(error).__name__, "denied")
    finally:
        _current.reset(token)
    return None


async def intercept(stages: Stages, call: Call, attempt: Callable[[Call], Awaitable[ToolOutput]]) -> ToolOutput:
    """Middleware around before-hooks around `attempt`, which authorizes and runs. Changed arguments are bound again."""
    from pydantic_core import from_json

    tool, ctx = call.tool, call.ctx
    first = ToolCall(call.call_id, tool.name, from_json(call.text))
    if not call.announced and (refusal := await announce(stages.hooks, [first], ctx)):
        return with_hint(bound_again(stages, tool, call.call_id, refusal))
    as_read = _encoded(first.arguments)  # a middleware may have changed the dict in place
    attempts = 0

    async def core(asked: ToolCall | None = None, inner_ctx: ToolContext | None = None) -> ToolOutput:
        nonlocal attempts
        asked, inner_ctx = asked or first, inner_ctx or ctx
        answer = await _before(stages, call, asked, inner_ctx)
        if isinstance(answer, ToolOutput):
            return answer
        try:
            if answer is not first or _encoded(answer.arguments) != as_read:
                bound = tool.bind(answer.arguments)
            elif attempts:  # a retry runs the tool again: it needs new keyword arguments
                bound = tool.bind(call.text)
            else:
                bound = call.kwargs, call.text
        except InvalidArguments as error:
            return invalid(tool, error)
        again = call.with_arguments(bound, inner_ctx)
        attempts += 1
        return await _after(stages, call, answer, inner_ctx, await attempt(again))

    chain: Next = core
    for middleware in reversed(stages.middleware):
        chain = _link(middleware, chain, first, ctx)
    try:
        output = await chain(first, ctx)
    except ToolExecutionDenied as error:
        return with_hint(denied(tool, error))
    except Exception as error:
        log.exception("a middleware failed")
        return with_hint(denied(tool, error))
    try:
        return with_hint(bound_again(stages, tool, call.call_id, wrap(output)))
    except Exception as error:
        log.exception("a middleware returned something that is not an output")
        return with_hint(withheld(tool, error))


async def _before(stages: Stages, call: Call, asked: ToolCall, ctx: ToolContext) -> ToolCall | ToolOutput:
    """Run all before-hooks. Returns the call, or the output with which a hook answers or refuses it."""
    for hook in stages.hooks:
        try:
            answer = await hook.before(asked, ctx)
        except Exception as error:
            return with_hint(denied(call.tool, error))
        if isinstance(answer, ToolOutput):
            return with_hint(bound_again(stages, call.tool, call.call_id, answer))
        if answer is not None:
            asked = answer
    name = call.tool.name
    if asked.name != name:
        text = f"a hook renamed the call from {name} to {asked.name}; that is not allowed"
        return with_hint(ToolOutput.error(text, "denied"))
    return asked


async def _after(stages: Stages, call: Call, asked: ToolCall, ctx: ToolContext, output: ToolOutput) -> ToolOutput:
    """Run all after-hooks. Returns the output, or an error without the output if a hook fails."""
    for hook in stages.hooks:
        try:
            if output.is_error:
                await hook.error(asked, output, ctx)
            changed = await hook.after(asked, output, ctx)
        except Exception as error:
            log.exception("an after-hook failed")
            return with_hint(ToolOutput.error(f"the output was withheld: a hook failed ({error})", "exception"))
        if changed is not None:
            output = bound_again(stages, call.tool, call.call_id, changed)
    return output


def _link(middleware: Middleware, inner: Next, first: ToolCall, ctx: ToolContext) -> Next:
    async def linked(call: ToolCall | None = None, inner_ctx: ToolContext | None = None) -> ToolOutput:
        return await middleware(call or first, inner_ctx or ctx, inner)

    return linked


def _encoded(arguments: Mapping[str, Any] | str) -> str:
    """Return the arguments as the JSON text that would be bound."""
    return arguments if isinstance(arguments, str) else encode(arguments)
