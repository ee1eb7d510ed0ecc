"""Where an agent's answer, the lines about its calls, and what it does now are written: a terminal as it is, or pipes.

While a question is asked at the terminal, what comes is kept for after it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from ...core.text import clip
from .. import show

MAX_WIDTH = 100  # wider lines are hard to read
PIPE_WIDTH = 140
_CLEAR = "\r\x1b[K"


class Screen(Protocol):
    """What a display writes on."""

    def answer(self, text: str) -> None:
        """Write a piece of the answer, which may end within a line. It may have escapes of styles."""

    def line(self, text: str, style: str | None = None) -> None:
        """Write a line that is not part of the answer."""

    def status(self, text: str) -> None:
        """Show what happens now, in place of what was shown; nothing for an empty text."""

    def floor(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Give the terminal to a question."""
        ...


class PlainScreen:
    """Writes the answer to stdout and all else to stderr. On a terminal the status is a line that goes away."""

    def __init__(self) -> None:
        self._open = False  # whether the cursor is within a line of the answer
        self._status = ""
        self._kept: list[Callable[[], None]] | None = None
        self._live = show.coloured(sys.stderr) or (sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
        self._together = sys.stdout.isatty()  # the answer is on the same terminal

    def answer(self, text: str) -> None:
        """Write a piece of the answer."""
        if self._kept is not None:
            self._kept.append(lambda: self.answer(text))
        elif text:
            self.status("")
            print(text, end="", flush=True)
            self._open = not text.endswith("\n")

    def line(self, text: str, style: str | None = None) -> None:
        """Write a line that is not part of the answer."""
        if self._kept is not None:
            self._kept.append(lambda: self.line(text, style))
            return
        self.status("")
        self.end_line()
        for part in show.wrapped(text):
            show.say(part, style)

    def status(self, text: str) -> None:
        """Show what happens now."""
        if not self._live or self._kept is not None or (self._open and self._together) or text == self._status:
            return
        room = clip(show.clean(text), shutil.get_terminal_size().columns - 1)
        print(_CLEAR + (show.paint(room, "dim", sys.stderr) if room else ""), end="", file=sys.stderr, flush=True)
        self._status = text

    def end_line(self) -> None:
        """End the line of the answer."""
        if self._open:
            print(flush=True)
            self._open = False

    @contextlib.asynccontextmanager
    async def floor(self) -> AsyncGenerator[None]:
        """Give the terminal to a question."""
        self.status("")
        self.end_line()
        outer, self._kept = self._kept, []
        try:
            yield
        finally:
            kept, self._kept = self._kept, outer
            for write in kept:
                write()


def width() -> int:
    """Return how long a line for a person may be."""
    if not sys.stderr.isatty():
        return PIPE_WIDTH
    return max(20, min(shutil.get_terminal_size().columns - 1, MAX_WIDTH))
