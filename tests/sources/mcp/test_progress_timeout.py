"""How long is a call waited for: without news, in all, and while a person is asked?"""

from __future__ import annotations

import asyncio

import pytest

from toolcrib.sources.mcp.inflight import Expired, ProgressTimeout

from ...waiting import pass_time


async def test_it_ends_without_progress() -> None:
    with pytest.raises(Expired) as caught:
        async with ProgressTimeout(0.05, 10):
            await asyncio.sleep(10)
    assert caught.value.seconds == 0.05 and not caught.value.progressed
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    await asyncio.sleep(0)


async def test_progress_extends_it_up_to_the_most() -> None:
    with pytest.raises(Expired) as caught:
        async with ProgressTimeout(20, 60) as timeout:
            while True:
                pass_time(10)
                await asyncio.sleep(0.001)
                timeout.progress()
    assert caught.value.seconds == 60 and caught.value.progressed


async def test_the_time_of_a_person_does_not_count() -> None:
    async with ProgressTimeout(0.05, 0.1) as timeout:
        timeout.ask()
        timeout.ask()
        await asyncio.sleep(0.1)
        timeout.answered()
        timeout.progress()
        await asyncio.sleep(0.1)
        timeout.answered()
    with pytest.raises(Expired):
        async with ProgressTimeout(0.05, 0.1) as timeout:
            timeout.ask()
            timeout.answered()
            await asyncio.sleep(10)


async def test_whoever_cancels_the_call_is_not_taken_for_it() -> None:
    async def work() -> None:
        async with ProgressTimeout(10, 10):
            await asyncio.sleep(10)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_late_progress_starts_nothing() -> None:
    async with ProgressTimeout(0.05, 0.05) as timeout:
        timeout.ask()
    timeout.answered()
    timeout.progress()
    await asyncio.sleep(0.1)  # would be cancelled
