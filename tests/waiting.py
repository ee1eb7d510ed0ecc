"""Waits for an event instead of sleeping for as long as it usually takes."""

import asyncio
import time
from collections.abc import Callable

from toolcrib.boundary.process import Process, ProcessResult


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return as soon as `condition()` is true. Raises TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """The same without an event loop."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.005)


def pass_time(seconds: float) -> None:
    """Let the running loop's clock show that much later at once, so that its timers of that time ring now.

    So a test need not be quicker than a short limit of time: the limit is long, and the test says when it is over.
    """
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


async def printed_in_time(process: Process) -> ProcessResult:
    """Return the result of a command whose time is over as soon as it has printed, however slowly it began."""
    await until(lambda: process.done or not process.idle_output)
    process.extend(0)
    return await process.finished()
