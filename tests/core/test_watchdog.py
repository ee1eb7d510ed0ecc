"""A coroutine that blocks the loop is named, with its stack."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import SimpleNamespace

import pytest

from toolcrib.core import watchdog
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.core.watchdog import Watchdog

from ..waiting import until


@tool(category="memory")
async def waits(seconds: float) -> str:
    """Give the loop back."""
    await asyncio.sleep(seconds)
    return "done"


async def test_a_blocked_loop_is_reported_once_with_tool_and_stack(caplog: pytest.LogCaptureFixture) -> None:
    @tool(category="memory")
    async def hogs(seconds: float) -> str:
        """Block the loop."""
        while not caplog.records:
            time.sleep(seconds)
        time.sleep(0.3)  # another report would come now
        return "done"

    registry = ToolRegistry([hogs, waits])
    dog = Watchdog(registry.stages, asyncio.get_running_loop(), blocked_after=0.1)
    dog.start()
    with caplog.at_level(logging.WARNING, "toolcrib.watchdog"):
        call = asyncio.create_task(registry.execute("waits", {"seconds": 0.05}))
        await asyncio.sleep(0)
        caplog.clear()
        await registry.execute("hogs", {"seconds": 0.01})
        (text,) = [text for text in caplog.messages if "by the tool hogs" in text]  # a busy machine is no tool
        await call
    dog.stop()
    assert "time.sleep(seconds)" in text and "waits" in text


async def test_a_program_that_starts_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    dog = Watchdog(ToolRegistry([waits]).stages, asyncio.get_running_loop(), blocked_after=0.05)
    with caplog.at_level(logging.DEBUG, "toolcrib.watchdog"):
        dog.start()
        while not caplog.records:
            time.sleep(0.01)
    dog.stop()
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


async def test_a_waiting_tool_is_not_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bool] = []

    class Patient(threading.Event):  # a busy machine may take longer to answer
        def wait(self, timeout: float | None = None) -> bool:
            if timeout == 0.1:
                answers.append(super().wait(60))
                return answers[-1]
            return super().wait(timeout)

    monkeypatch.setattr(watchdog, "threading", SimpleNamespace(**{**vars(threading), "Event": Patient}))
    registry = ToolRegistry([waits])
    dog = Watchdog(registry.stages, asyncio.get_running_loop(), blocked_after=0.1)
    dog.start()
    with caplog.at_level(logging.WARNING, "toolcrib.watchdog"):
        await registry.execute("waits", {"seconds": 0.4})
        await until(lambda: len(answers) > 2)
    dog.stop()
    assert not caplog.records and all(answers)


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
    await until(lambda: not [t for t in threading.enumerate() if t.name == "toolcrib-watchdog"])


def test_a_closed_loop_ends_the_watchdog() -> None:
    loop = asyncio.new_event_loop()
    dog = Watchdog(ToolRegistry().stages, loop, blocked_after=0.05)
    dog.start()
    thread = next(t for t in threading.enumerate() if t.name == "toolcrib-watchdog")
    loop.close()
    thread.join(60)
    assert not thread.is_alive()
    dog.stop()
