"""Several calls of one model turn: in order where they have effects, together where they only read."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from .context import ToolContext
from .output import ToolOutput
from .pipeline import HINT, ToolCall, log

if TYPE_CHECKING:
    from .registry import ToolRegistry


def to_call(value: Any, number: int = 0) -> ToolCall:
    """A `ToolCall` from one, a dict, or an OpenAI or Anthropic call object. Raises ValueError for anything else."""
    if isinstance(value, ToolCall):
        return value
    get = _getter(value)
    function = get("function")
    if function is not None:  # OpenAI chat completions: {id, type, function: {name, arguments}}
        inner = _getter(function)
        name, arguments = inner("name"), inner("arguments")
    else:
        name = get("name")
        arguments = next((a for a in (get("arguments"), get("input"), get("args")) if a is not None), None)
    call_id = (
        get("call_id") or get("id") or f"call_{number}"
    )  # the responses API has both; call_id is the one to answer
    if not isinstance(name, str) or not name:
        raise ValueError(f"not a tool call: {value!r}")
    return ToolCall(str(call_id), name, {} if arguments is None else arguments)


def _getter(value: Any) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get
    return functools.partial(_attribute, value)


def _attribute(value: Any, key: str) -> Any:
    return getattr(value, key, None)


async def run_batch(
    registry: ToolRegistry, calls: Iterable[Any], ctx: ToolContext | None, limit: int
) -> list[ToolOutput]:
    """Outputs in call order, one for each call. See `ToolRegistry.execute_parallel`."""
    batch: list[ToolCall | ValueError] = []
    for number, value in enumerate(calls):
        try:
            batch.append(to_call(value, number))
        except ValueError as error:
            batch.append(error)
    good = [call for call in batch if isinstance(call, ToolCall)]
    for hook in registry.pipeline.hooks:
        try:
            await hook.before_execute_tools(good)
        except Exception as error:
            log.debug("a batch was denied", exc_info=True)
            text = f"{error or type(error).__name__}{HINT}"
            return [ToolOutput.error(text, "denied") for _ in batch]
    outputs: list[ToolOutput | None] = [None] * len(batch)
    slots = asyncio.Semaphore(max(1, limit))

    async def one(index: int, waiting: Any = None) -> None:
        call = batch[index]
        if isinstance(call, ValueError):
            outputs[index] = ToolOutput.error(f"{call}{HINT}", "invalid")
            return
        outputs[index] = await registry.pipeline.run(registry, call.name, call.arguments, ctx, call.id, waiting)

    async def read(index: int) -> None:
        async with slots:
            await one(index)

    readers = {i for i, call in enumerate(batch) if _reads(registry, call)}
    started: set[int] = set()
    async with asyncio.TaskGroup() as group:
        index = 0
        while index < len(batch):
            if index in readers:
                end = index
                while end < len(batch) and end in readers:
                    end += 1
                fresh = [i for i in range(index, end) if i not in started]
                started.update(fresh)
                if len(fresh) == 1:
                    await one(fresh[0])
                elif fresh:
                    await asyncio.gather(*(read(i) for i in fresh))
                index = end
                continue
            asked = asyncio.Event()
            task = group.create_task(one(index, asked.set))
            wait = group.create_task(asked.wait())
            await asyncio.wait({task, wait}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():  # it waits for a person: what only reads need not
                later = [i for i in range(index + 1, len(batch)) if i in readers and i not in started]
                started.update(later)
                for i in later:
                    group.create_task(read(i))
            wait.cancel()
            await task
            index += 1
    return [
        output if output is not None else ToolOutput.error("the call was not run", "cancelled") for output in outputs
    ]


def _reads(registry: ToolRegistry, call: ToolCall | ValueError) -> bool:
    if isinstance(call, ValueError):
        return True
    tool = registry.find(call.name)
    return tool is None or (tool.is_read_only and not tool.sequential and not tool.exclusive)
