"""An answer is never older than the question, and the work is not done for each who asks."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib.serve.gateway.server_content import SingleFlight


async def test_whoever_asks_meanwhile_gets_the_next_answer() -> None:
    fresh: SingleFlight[int] = SingleFlight()
    go, looked = asyncio.Event(), list[int]()
    state = 0

    async def look() -> int:
        looked.append(state)
        found = state
        await go.wait()
        return found

    first = asyncio.create_task(fresh.get(look))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    state = 1
    later = [asyncio.create_task(fresh.get(look)) for _ in range(5)]
    await asyncio.sleep(0)
    later[0].cancel()  # leaving changes nothing for others
    go.set()
    assert await first == 0
    assert await asyncio.gather(*later[1:]) == [1] * 4
    assert looked == [0, 1]
    assert await fresh.get(look) == 1
    assert looked == [0, 1, 1]


async def test_a_failure_is_for_those_who_asked() -> None:
    fresh: SingleFlight[int] = SingleFlight()

    async def fail() -> int:
        raise ValueError("no")

    async def work() -> int:
        return 1

    with pytest.raises(ValueError, match="no"):
        await fresh.get(fail)
    assert await fresh.get(work) == 1
