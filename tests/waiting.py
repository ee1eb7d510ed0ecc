"""Waits for an event instead of sleeping for as long as it usually takes."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import cast

from toolcrib.boundary.process import Process, ProcessResult
from toolcrib.boundary.spawner import spawner

BUSY = re.compile(r"the event loop has been blocked for [^\n]*\n(?:  [^\n]*\n|\n)*")
"""What a command may say with a stack, in a test that a busy machine does not fail."""


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
    passed = loop.time() + seconds - time.monotonic()
    loop.time = lambda: time.monotonic() + passed  # type: ignore[method-assign]


class Searched:
    """Redacts nothing, and knows of each long text whether the event loop waited for it."""

    def __init__(self) -> None:
        self.loop, self.on_loop = threading.get_ident(), set[bool]()

    def __call__(self, text: str) -> str:
        if len(text) > 100_000:
            self.on_loop.add(threading.get_ident() == self.loop)
        return text


async def end_time_of_commands(condition: Callable[[Process], object]) -> None:
    """Let the time of the commands that run be over as soon as this is true of one, however slowly it began."""
    running = cast("set[Process]", spawner().running)
    await until(lambda: any(condition(process) for process in list(running)))
    for process in list(running):
        process.extend(0)


async def printed_in_time(process: Process) -> ProcessResult:
    """Return the result of a command whose time is over as soon as it has printed, however slowly it began."""
    await until(lambda: process.done or not process.idle_output)
    process.extend(0)
    return await process.finished()
