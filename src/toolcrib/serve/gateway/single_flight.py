"""One answer for all who ask at the same time, and none that is older than the question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Does some work for those who ask. Whoever asks while it is done gets the answer of the next time: what is under
    way may have looked before the question came. Used on one event loop."""

    def __init__(self) -> None:
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer. Leaving ends no work that others wait for."""
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
