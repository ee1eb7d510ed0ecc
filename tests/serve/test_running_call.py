from __future__ import annotations

import asyncio

import anyio
import pytest

from toolcrib.core.output import ToolOutput
from toolcrib.serve.running_call import CallEnded, RunningCall


async def test_ending_twice_cancels_once() -> None:
    steps: list[str] = []

    async def work() -> ToolOutput:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            steps.append("cleaned up")
        return ToolOutput("")

    call = RunningCall(work())
    await asyncio.sleep(0)
    first = asyncio.create_task(call.end())
    await asyncio.sleep(0.02)  # it is cleaning up by now
    await call.end()
    await first
    assert steps == ["cleaned up"]
    with pytest.raises(CallEnded):
        await call.turn()


async def test_a_scope_that_cancels_for_ever_cancels_the_call_once() -> None:
    steps: list[int] = []

    async def work() -> ToolOutput:
        try:
            await asyncio.sleep(60)
        finally:
            for step in range(3):
                await asyncio.sleep(0.02)
                steps.append(step)
        return ToolOutput("")

    call = RunningCall(work())
    with anyio.move_on_after(0.01):
        await call.turn()
    assert steps == [0, 1, 2]
    assert call.task.done()


async def test_an_exception_in_the_call_reaches_the_one_who_waits() -> None:
    async def work() -> ToolOutput:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await RunningCall(work()).turn()


async def test_questions_asked_at_once_come_one_after_the_other() -> None:
    async def work() -> ToolOutput:
        answers = await asyncio.gather(call.ask({"a": 1}), call.ask({"b": 2}))
        return ToolOutput(str(answers))

    call = RunningCall(work())
    assert await call.turn() == {"a": 1}
    assert await call.turn() == {"a": 1}  # still the same
    call.answer({"a": "x"})
    assert await call.turn() == {"b": 2}
    call.answer({"b": "y"})
    assert await call.turn() == ToolOutput("[{'a': 'x'}, {'b': 'y'}]")
