"""Share one answer between callers that ask at the same time. No answer is older than its question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Does work once for several callers.

    A caller that asks during a run gets the answer of the next run, because the current run may have looked before
    the question came. Used on one event loop.
    """

    def __init__(self) -> None:
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer. A caller that stops waiting does not end the work for the others."""
        loop = asyncio.get_running_loop()
        if self._next is None and (self._running is None or self._running.done()):
            self._running = loop.create_task(work())
            return await asyncio.shield(self._running)
        if self._next is None:
            self._next = loop.create_task(self._then(work))
        return await asyncio.shield(self._next)

    async def _then(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._running is not None:
            await asyncio.wait({self._running})
        self._running, self._next = self._next, None
        return await work()
