"""The time limits of one call to a server: without progress, and in total. Time that a person takes is not counted."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Expired(Exception):
    """The time limit has passed. `progressed` says whether progress was reported before."""

    def __init__(self, seconds: float, progressed: bool) -> None:
        super().__init__(seconds)
        self.seconds, self.progressed = seconds, progressed


class ProgressTimeout:
    """`async with ProgressTimeout(idle, most) as timeout`, in seconds. Progress extends the time, up to `most`."""

    def __init__(self, idle: float, most: float) -> None:
        self._idle, self._most = idle, max(idle, most)
        self._timeout = asyncio.timeout(None)
        self._progressed = False
        self._asking = 0
        self._asked_at = 0.0

    async def __aenter__(self) -> ProgressTimeout:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + self._most
        await self._timeout.__aenter__()
        self._extend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Expired(self._most if self._loop.time() >= self._end else self._idle, self._progressed) from None
        if self._timeout.expired():
            raise Expired(self._idle, self._progressed)

    def progress(self) -> None:
        """Record that progress was reported."""
        self._progressed = True
        self._extend()

    def ask(self) -> None:
        """Stop the clock while a person is asked. Calls of this may be nested."""
        self._asking += 1
        if self._asking == 1:
            self._asked_at = self._loop.time()
            self._reschedule(None)

    def answered(self) -> None:
        """Start the clock again after an answer."""
        self._asking -= 1
        if self._asking == 0:
            self._end += self._loop.time() - self._asked_at
            self._extend()

    def _extend(self) -> None:
        if not self._asking:
            self._reschedule(min(self._loop.time() + self._idle, self._end))

    def _reschedule(self, when: float | None) -> None:
        if not self._timeout.expired():
            try:
                self._timeout.reschedule(when)
            except RuntimeError:  # already over
                pass
