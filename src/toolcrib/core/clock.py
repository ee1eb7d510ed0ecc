"""When a running call's time is over: what `asyncio.timeout` does, for thousands of calls at once.

Calls of the same length end in the order in which they began, so one timer of the loop serves them all: a timer for
each call costs as much again as the rest of a call that waits.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

ASK_SECONDS = 600.0
"""How long a question to a person may hold up the end of its call's time."""

GRACE = 2.0
"""Seconds a timed-out coroutine gets to clean up before it is closed."""


class Clock:
    """One call's time: cancels its task when it is over, and once more when the time to clean up is over, too."""

    __slots__ = ("_before", "_handle", "_left", "_line", "_task", "cancels", "when")

    def __init__(self, seconds: float) -> None:
        self._line = line = _line_of(seconds)
        self._task = cast("asyncio.Task[Any]", asyncio.current_task(line.loop))
        self._before = self._task.cancelling()
        self.cancels = 0
        self._handle: asyncio.TimerHandle | None = None  # a timer of its own, once it does not end with its line
        self.when = line.loop.time() + seconds
        line.join(self)

    def over(self) -> None:
        """Its time is over, or its grace."""
        self.cancels += 1
        if self.cancels == 1:
            self._set(GRACE)
        self._task.cancel()

    def pause(self) -> None:
        """A person is asked: that time does not count, but neither is it without end."""
        self._left = max(0.0, self.when - self._line.loop.time())
        if not self.cancels:
            self._set(self._left + ASK_SECONDS)

    def go_on(self) -> None:
        """They answered: what was left of the time is left again."""
        if not self.cancels:
            self._set(self._left)

    def _set(self, seconds: float) -> None:
        self.stop()
        self.when = self._line.loop.time() + seconds
        self._handle = self._line.loop.call_at(self.when, self.over)

    def stop(self) -> None:
        """It has ended by itself."""
        self._line.waiting.pop(self, None)
        if self._handle is not None:
            self._handle.cancel()

    def settle(self) -> bool:
        """Take back our own cancellations; whether somebody else cancelled the task as well."""
        for _ in range(self.cancels):
            self._task.uncancel()
        return self._task.cancelling() > self._before


class _Line:
    """The calls of one loop that have the same time, in the order of their ends, and the timer of the first."""

    __slots__ = ("_timer", "loop", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: dict[Clock, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, clock: Clock) -> None:
        self.waiting[clock] = None
        if self._timer is None:  # else it rings for somebody who is ahead, or was
            self._timer = self.loop.call_at(clock.when, self._ring)

    def close(self) -> None:
        """Nobody waits here, and nobody will."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        now = self.loop.time() if self._timer is None else max(self.loop.time(), self._timer.when())
        self._timer = None
        for clock in list(self.waiting):
            if clock.when > now:
                self._timer = self.loop.call_at(clock.when, self._ring)
                break
            del self.waiting[clock]
            clock.over()


MAX_LENGTHS = 64
"""With so many lengths those nobody waits in are forgotten: a tool may make up a new one for each call."""

_lines: dict[asyncio.AbstractEventLoop, dict[float, _Line]] = {}


def _line_of(seconds: float) -> _Line:
    loop = asyncio.get_running_loop()
    lines = _lines.get(loop)
    if lines is None:
        for known in list(_lines):
            if known.is_closed():
                _lines.pop(known, None)
        lines = _lines[loop] = {}
    line = lines.get(seconds)
    if line is None:
        if len(lines) >= MAX_LENGTHS:
            for length in [length for length, known in lines.items() if not known.waiting]:
                lines.pop(length).close()
        line = lines[seconds] = _Line(loop)
    return line
