"""Each call's time is its own, though calls of one length share a timer."""

import asyncio
import time

import pytest

from toolcrib.core import drive
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool


def waits(timeout: float):
    @tool(category="memory", timeout=timeout)
    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "done"

    return ToolRegistry([wait])


async def test_only_the_call_whose_time_is_over_ends() -> None:
    registry = waits(0.3)
    slow = asyncio.create_task(registry.execute("wait", {"seconds": 30}))
    await asyncio.sleep(0.15)
    begun = time.monotonic()
    later = asyncio.create_task(registry.execute("wait", {"seconds": 30}))
    good = await registry.execute("wait", {"seconds": 0.01})
    assert good.for_llm == "done" and not slow.done()
    assert (await slow).error_kind == "timeout" and not later.done()
    assert (await later).error_kind == "timeout" and time.monotonic() - begun >= 0.3


async def test_many_at_once_end_together() -> None:
    registry = waits(0.05)
    outputs = await asyncio.gather(*(registry.execute("wait", {"seconds": 30 * (n % 2)}) for n in range(200)))
    assert [output.error_kind for output in outputs] == [None, "timeout"] * 100


async def test_a_line_is_used_again_after_it_was_empty() -> None:
    registry = waits(0.05)
    for _ in range(3):
        assert (await registry.execute("wait", {"seconds": 0.001})).for_llm == "done"
        assert (await registry.execute("wait", {"seconds": 30})).error_kind == "timeout"
        await asyncio.sleep(0.06)  # the timer rings for nobody


async def test_lengths_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MAX_LENGTHS", 4)
    for n in range(20):
        assert (await waits(5 + n).execute("wait", {"seconds": 0.001})).for_llm == "done"
    assert len(drive._lines[asyncio.get_running_loop()]) <= 4


def test_loops_that_were_closed_are_forgotten() -> None:
    for _ in range(5):
        assert asyncio.run(waits(5).execute("wait", {"seconds": 0.001})).for_llm == "done"
    assert sum(loop.is_closed() for loop in drive._lines) <= 1
