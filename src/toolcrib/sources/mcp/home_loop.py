"""Run work on another event loop: send it there, wait for it here, and cancel it there if the wait is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from ...core.context import ToolContext

T = TypeVar("T")


class HomeLoop:
    """The event loop that an object belongs to: the one where it was first needed.

    When that loop has ended, `moved` is called and the next loop replaces it.
    """

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> asyncio.AbstractEventLoop | None:
        """The loop, if there is one and it is running."""
        return self._loop if self._loop is not None and self._loop.is_running() else None

    def settle(self) -> asyncio.AbstractEventLoop:
        """Return the loop. It becomes the current one if there was none before or it has ended."""
        with self._lock:
            here = asyncio.get_running_loop()
            if self._loop is None or (self._loop is not here and not self._loop.is_running()):
                if self._loop is not None:
                    self._moved()
                self._loop = here
            return self._loop

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on this loop."""
        return await on_loop(self.settle(), work)


async def on_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on that loop."""
    if loop is asyncio.get_running_loop():
        return await work()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def abroad(ctx: ToolContext) -> ToolContext:
    """Return the context for work on another loop: its questions and reports come back to the current loop."""
    home = asyncio.get_running_loop()

    def here(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def elsewhere(*given: Any) -> Any:
            return await on_loop(home, lambda: _run(work(*given)))

        return elsewhere

    return replace(ctx, ask=ctx.ask and here(ctx.ask), on_progress=ctx.on_progress and here(ctx.on_progress))


async def _run(work: Awaitable[T]) -> T:
    return await work
