"""Runs several calls of one model turn: one after another if they have effects, together if they only read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .answering import ToolOutputs, calls_in, to_call
from .call import ToolCall
from .context import EMPTY_CONTEXT, ToolContext
from .intercept import announce
from .output import ToolOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .pipeline import Pipeline
    from .tool import Tool


class Registry(Protocol):
    """The part of a `ToolRegistry` that a batch needs."""

    pipeline: Pipeline

    def find(self, name: str, /) -> Tool | None: ...
    def resolve_forward(self, name: str, arguments: Any, /) -> tuple[Tool | None, str, Any]: ...
    def execute(
        self, name: str, arguments: Any, ctx: ToolContext | None, /, *, call_id: str | None,
        waiting: Callable[[], None], announced: bool, behind: str,
    ) -> Coroutine[Any, Any, ToolOutput]: ...  # fmt: skip


async def run_batch(registry: Registry, calls: Any, ctx: ToolContext | None, limit: int) -> ToolOutputs:
    """Run a batch. Returns outputs in call order, one for each call. See `ToolRegistry.execute_parallel`."""
    asked = [_read_call(value) for value in calls_in(calls)]
    outputs = await _run(registry, [_inner_call(registry, call) for call in asked], ctx, limit)
    for call, output in zip(asked, outputs, strict=True):
        if isinstance(call, ToolCall):
            output.__dict__["tool_name"] = call.name  # what the model called: perhaps an alias, or `call_tool`
    return ToolOutputs(outputs)


async def _run(
    registry: Registry, batch: list[ToolCall | ValueError], ctx: ToolContext | None, limit: int
) -> list[ToolOutput]:
    outputs: list[ToolOutput | None] = [None] * len(batch)
    good = [call for call in batch if isinstance(call, ToolCall)]
    if good and (refusal := await announce(registry.pipeline.stages.hooks, good, ctx or EMPTY_CONTEXT)):
        return [_refused(registry, call, ctx, refusal) for call in batch]
    slots = asyncio.Semaphore(max(1, limit))
    readers = {i for i, call in enumerate(batch) if _reads(registry, call)}
    begun: set[int] = set()

    async def one(index: int, asks: asyncio.Event) -> None:
        call = batch[index]
        if isinstance(call, ValueError):
            outputs[index] = _refused(registry, call, ctx, ToolOutput.error(str(call), "invalid"))
        else:
            waits = (o.tool_name or "a call" for o in outputs[:index] if o is not None and o.pause_for_input)
            outputs[index] = await registry.execute(
                call.name, call.arguments, ctx, call_id=call.id, waiting=asks.set, announced=True,
                behind=next(waits, ""),
            )  # fmt: skip

    async def read(index: int, asks: asyncio.Event) -> None:
        async with slots:
            await one(index, asks)

    async with asyncio.TaskGroup() as group:
        for first, end in _groups(readers, len(batch)):
            asks = asyncio.Event()
            run = read if first in readers else one
            fresh = [i for i in range(first, end) if i not in begun]
            begun.update(fresh)
            if len(fresh) == 1 and len(batch) == 1:  # no other call to wait for: no task
                await one(first, asks)
                continue
            tasks = [group.create_task(run(i, asks)) for i in fresh]
            if not tasks:
                continue
            asked = group.create_task(asks.wait())
            # Not a gather: a cancelled one logs that its result was never read.
            done = group.create_task(asyncio.wait(tasks))
            await asyncio.wait({done, asked}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            if not done.done():  # it waits for a person; calls that only read need not wait
                later = [i for i in range(end, len(batch)) if i in readers and i not in begun]
                begun.update(later)
                for i in later:
                    group.create_task(read(i, asyncio.Event()))
            await done
    return [output or ToolOutput.error("the call was not run", "cancelled") for output in outputs]


def _groups(readers: set[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of calls that run together: neighbours that only read. Any other call runs alone."""
    first = 0
    while first < count:
        end = first + 1
        while first in readers and end in readers:
            end += 1
        yield first, end
        first = end


def _read_call(value: Any) -> ToolCall | ValueError:
    try:
        return to_call(value)
    except Exception as error:  # its attributes may raise
        return error if isinstance(error, ValueError) else ValueError(f"not a tool call: {type(value).__name__}")


def _inner_call(registry: Registry, call: ToolCall | ValueError) -> ToolCall | ValueError:
    """Return the call; of a forwarding tool the inner call, so that the hooks of batches see it too."""
    if isinstance(call, ValueError):
        return call
    try:
        _, name, arguments = registry.resolve_forward(call.name, call.arguments)
    except Exception:  # the call is refused later, with the reason
        return call
    return call if name == call.name else ToolCall(call.id, name, arguments)


def _refused(
    registry: Registry, call: ToolCall | ValueError, ctx: ToolContext | None, output: ToolOutput
) -> ToolOutput:
    if isinstance(call, ToolCall):
        return registry.pipeline.refuse(call.name, call.arguments, ctx, call.id, output)
    return registry.pipeline.refuse("", None, ctx, None, output)


def _reads(registry: Registry, call: ToolCall | ValueError) -> bool:
    if isinstance(call, ValueError):
        return True
    tool = registry.find(call.name)
    return tool is None or (tool.is_read_only and not tool.sequential and not tool.exclusive)
