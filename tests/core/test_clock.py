"""Each call's time is its own, though calls of one length share a timer."""

import asyncio

import pytest

from toolcrib.core import drive
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool

from ..waiting import pass_time, until

begun: list[float] = []


@pytest.fixture(autouse=True)
def none_has_begun() -> None:
    begun.clear()


def waits(timeout: float):
    @tool(category="memory", timeout=timeout)
    async def wait(seconds: float) -> str:
        """Wait."""
        begun.append(seconds)
        await asyncio.sleep(seconds)
        return "done"

    return ToolRegistry([wait])


async def test_only_the_call_whose_time_is_over_ends() -> None:
    registry = waits(100)
    slow = asyncio.create_task(registry.execute("wait", {"seconds": 3000}))
    await until(lambda: len(begun) == 1)
    pass_time(50)
    later = asyncio.create_task(registry.execute("wait", {"seconds": 3000}))
    good = await registry.execute("wait", {"seconds": 0.01})
    assert good.for_llm == "done" and not slow.done() and len(begun) == 3
    pass_time(60)
    assert (await slow).error_kind == "timeout" and not later.done()
    pass_time(20)
    await asyncio.sleep(0.01)
    assert not later.done()
    pass_time(30)
    assert (await later).error_kind == "timeout"


async def test_many_at_once_end_together() -> None:
    registry = waits(100)
    calls = [asyncio.create_task(registry.execute("wait", {"seconds": 3000 * (n % 2)})) for n in range(200)]
    await asyncio.gather(*calls[::2])
    pass_time(101)
    outputs = await asyncio.gather(*calls)
    assert [output.error_kind for output in outputs] == [None, "timeout"] * 100


async def test_a_line_is_used_again_after_it_was_empty() -> None:
    registry = waits(100)
    for _ in range(3):
        begun.clear()
        assert (await registry.execute("wait", {"seconds": 0.001})).for_llm == "done"
        slow = asyncio.create_task(registry.execute("wait", {"seconds": 3000}))
        await until(lambda: len(begun) == 2)
        pass_time(101)
        assert (await slow).error_kind == "timeout"
        pass_time(101)
        await asyncio.sleep(0.001)  # the timer rings for nobody


async def test_lengths_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MAX_LENGTHS", 4)
    for n in range(20):
        assert (await waits(5 + n).execute("wait", {"seconds": 0.001})).for_llm == "done"
    assert len(drive._lines[asyncio.get_running_loop()]) <= 4


def test_loops_that_were_closed_are_forgotten() -> None:
    for _ in range(5):
        assert asyncio.run(waits(5).execute("wait", {"seconds": 0.001})).for_llm == "done"
    assert sum(loop.is_closed() for loop in drive._lines) <= 1
