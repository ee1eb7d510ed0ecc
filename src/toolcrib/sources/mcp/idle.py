"""A timer that ends something after it was not used for some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class IdleTimer:
    """Calls `end` on the loop of the last `touch`, after this many seconds without a touch, if `busy` returns False.

    0 seconds means never.
    """

    def __init__(self, seconds: float, busy: Callable[[], bool], end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._seconds, self._busy, self._end = seconds, busy, end
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Record that it is used now."""
        if not self._seconds:
            return
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None:  # one timer, set again when it expires: so a call costs very little
            self._timer = loop.call_later(self._seconds, self._look, loop)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        left = self._last + self._seconds - loop.time()
        if left > 0 or self._busy():
            self._timer = loop.call_later(max(left, self._seconds / 4), self._look, loop)
            return
        self._timer = None
        self._ending = loop.create_task(self._end())
