"""An event loop for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop on a daemon thread, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolcrib-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result; interrupting the wait cancels it.

        Raises what it raises, and RuntimeError on that loop's own thread.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("call_sync was called from the toolbox's own loop; await call() instead")
        future: Any = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there without blocking the calling loop; cancelling the wait cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """Stop the loop."""

        async def end() -> None:
            tasks: list[asyncio.Task[Any]] = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=2) if tasks else None

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
