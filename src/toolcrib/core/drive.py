"""Runs a tool's coroutine in the caller's task, and ends it at its timeout.

`Clock` is like `asyncio.timeout`, but cheap for thousands of calls at once: calls with the same timeout end in the
order of their starts, so one timer of the loop serves them all. A timer for each call would double the cost of a call
that waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .context import Ask

ASK_SECONDS = 600.0
"""How long a question to a person may delay the timeout of its call."""

GRACE = 2.0
"""Seconds a timed-out coroutine gets to clean up before it is closed."""


class Clock:
    """The time of one call. Cancels its task at the timeout, and again when the time to clean up is over."""

    __slots__ = ("_before", "_handle", "_left", "_line", "_task", "cancels", "when")

    def __init__(self, seconds: float) -> None:
        self._line = line = _line_of(seconds)
        self._task = cast("asyncio.Task[Any]", asyncio.current_task(line.loop))
        self._before = self._task.cancelling()
        self.cancels = 0
        self._handle: asyncio.TimerHandle | None = None  # a separate timer, if the call does not end in order
        self.when = line.loop.time() + seconds
        line.join(self)

    def over(self) -> None:
        """Cancel the task, because the timeout or the time to clean up has passed."""
        self.cancels += 1
        if self.cancels == 1:
            self._set(GRACE)
        self._task.cancel()

    def pause(self) -> None:
        """Stop the time while a person is asked, up to a limit."""
        self._left = max(0.0, self.when - self._line.loop.time())
        if not self.cancels:
            self._set(self._left + ASK_SECONDS)

    def go_on(self) -> None:
        """Let the remaining time run again after the person has answered."""
        if not self.cancels:
            self._set(self._left)

    def _set(self, seconds: float) -> None:
        self.stop()
        self.when = self._line.loop.time() + seconds
        self._handle = self._line.loop.call_at(self.when, self.over)

    def stop(self) -> None:
        """Stop the clock of a call that ended in time."""
        self._line.waiting.pop(self, None)
        if self._handle is not None:
            self._handle.cancel()

    def settle(self) -> bool:
        """Undo our own cancellations. Returns whether the task was cancelled from elsewhere too."""
        for _ in range(self.cancels):
            self._task.uncancel()
        return self._task.cancelling() > self._before


class _Line:
    """All calls of one loop with the same timeout, in the order of their ends, and one timer for the first."""

    __slots__ = ("_timer", "loop", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: dict[Clock, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, clock: Clock) -> None:
        self.waiting[clock] = None
        if self._timer is None:  # otherwise it is set for a call that ends earlier
            self._timer = self._timer_at(clock.when)

    def _timer_at(self, when: float) -> asyncio.TimerHandle:
        # The context of the call would be kept for as long as the timer, and with it a request of perhaps 16 MB.
        return self.loop.call_at(when, self._ring, context=contextvars.Context())

    def close(self) -> None:
        """Cancel the timer: no call waits here now or later."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        now = self.loop.time() if self._timer is None else max(self.loop.time(), self._timer.when())
        self._timer = None
        for clock in list(self.waiting):
            if clock.when > now:
                self._timer = self._timer_at(clock.when)
                break
            del self.waiting[clock]
            clock.over()


MAX_LENGTHS = 64
"""With more timeouts than this, unused ones are dropped: a tool may choose a new one for each call."""

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


log = logging.getLogger("toolcrib.pipeline")

NOT_STARTED = object()
"""Takes the place of the first yielded value if a coroutine has not run yet."""


class TimedOut(Exception):
    """Says that the call's time is over."""


class Asking:
    """Stops the clock of one call while its tool asks a person something (`ToolContext.ask`).

    `clean` removes secrets from the question.
    """

    __slots__ = ("_ask", "_clean", "_clock", "_questions")

    def __init__(self, ask: Ask, clean: Callable[[str], str] | None = None) -> None:
        self._ask, self._clean = ask, clean
        self._questions = 0
        self._clock: Clock | None = None

    async def __call__(self, question: str, options: Sequence[str] = ()) -> str:
        self._questions += 1
        if self._questions == 1 and self._clock is not None:
            self._clock.pause()
        try:
            if self._clean is not None:
                question, options = self._clean(question), [self._clean(option) for option in options]
            return await self._ask(question, options)
        finally:
            self._questions -= 1
            if self._questions == 0 and self._clock is not None:
                self._clock.go_on()

    def started(self, clock: Clock | None) -> None:
        """Use this clock from now on; a question may be open already. None: the call has no clock now."""
        self._clock = clock
        if clock is not None and self._questions:
            clock.pause()


@types.coroutine
def drive(
    work: Coroutine[Any, Any, Any], pending: Any, timeout: float | None, asking: Asking | None = None
) -> Generator[Any, Any, Any]:
    """Continue a manually started coroutine, in this same task, until it ends or its time is over.

    A tool that ends by itself within GRACE seconds of its cancellation keeps its result; any error it raises then
    is the timeout's. One that ignores the cancellation is closed and never resumed.
    """
    clock = None if timeout is None else Clock(timeout)
    if asking is not None:
        asking.started(clock)
    closing = False
    try:
        if pending is NOT_STARTED:
            pending = work.send(None)
        while True:
            try:
                value = yield pending
            except GeneratorExit:
                closing = True
                _close(work)
                raise
            except asyncio.CancelledError as error:
                if clock is not None and clock.cancels > 1:
                    _close(work)
                    raise
                pending = work.throw(error)
            except BaseException as error:
                pending = work.throw(error)
            else:
                pending = work.send(value)
    except StopIteration as stop:
        if clock is not None and clock.cancels:
            clock.settle()
        return stop.value
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not closing:
            raise RuntimeError("the tool raised GeneratorExit") from error
        if clock is None or not clock.cancels or closing:
            raise
        if clock.settle():
            raise asyncio.CancelledError from error
        raise TimedOut from error
    finally:
        if asking is not None:
            asking.started(None)
        if clock is not None:
            clock.stop()


def _close(work: Coroutine[Any, Any, Any]) -> None:
    try:
        work.close()
    except Exception:
        log.warning("a tool ignored its timeout and its end; its coroutine was dropped", exc_info=True)
