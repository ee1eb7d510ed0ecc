"""A coroutine that blocks the loop is named, with its stack."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.core.watchdog import Watchdog


@tool(category="memory")
async def hogs(seconds: float) -> str:
    """Block the loop."""
    time.sleep(seconds)
    return "done"


@tool(category="memory")
async def waits(seconds: float) -> str:
    """Give the loop back."""
    await asyncio.sleep(seconds)
    return "done"


async def test_a_blocked_loop_is_reported_once_with_tool_and_stack(caplog: pytest.LogCaptureFixture) -> None:
    registry = ToolRegistry([hogs, waits])
    dog = Watchdog(registry.stages, asyncio.get_running_loop(), blocked_after=0.1)
    dog.start()
    with caplog.at_level(logging.WARNING, "toolcrib.watchdog"):
        await asyncio.gather(registry.execute("waits", {"seconds": 0.05}), registry.execute("hogs", {"seconds": 0.6}))
    dog.stop()
    assert len(caplog.records) == 1
    text = caplog.records[0].getMessage()
    assert "by the tool hogs" in text and "time.sleep(seconds)" in text and "waits" in text


async def test_a_waiting_tool_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    registry = ToolRegistry([waits])
    dog = Watchdog(registry.stages, asyncio.get_running_loop(), blocked_after=0.1)
    dog.start()
    with caplog.at_level(logging.WARNING, "toolcrib.watchdog"):
        await registry.execute("waits", {"seconds": 0.4})
    dog.stop()
    assert not caplog.records


async def test_start_and_stop_twice_leave_no_thread_and_no_bookkeeping() -> None:
    registry = ToolRegistry([waits])
    dog = Watchdog(registry.stages, asyncio.get_running_loop(), blocked_after=0.05)
    for _ in range(2):
        dog.start()
        dog.start()
        await registry.execute("waits", {"seconds": 0.01})
        assert registry.stages.watchers == 1
        dog.stop()
        dog.stop()
    assert registry.stages.watchers == 0 and not registry.stages.running
    assert not [t for t in threading.enumerate() if t.name == "toolcrib-watchdog"]


def test_a_closed_loop_ends_the_watchdog() -> None:
    loop = asyncio.new_event_loop()
    dog = Watchdog(ToolRegistry().stages, loop, blocked_after=0.05)
    dog.start()
    thread = next(t for t in threading.enumerate() if t.name == "toolcrib-watchdog")
    loop.close()
    thread.join(2)
    assert not thread.is_alive()
    dog.stop()
