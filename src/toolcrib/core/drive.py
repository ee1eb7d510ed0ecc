"""Runs a tool's coroutine in the caller's task, and ends it at its timeout."""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any

from .clock import Clock

if TYPE_CHECKING:
    from .context import Ask

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
