"""Reads lines of a conversation from stdin: a pipe, a file, or a terminal without line editing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable

from ..exit_codes import Usage
from .attachments import MAX_INPUT
from .screen import PlainScreen

PROMPT = "> "


class PlainReader:
    """Reads one line at a time, without a thread that could outlive us. A backslash at its end joins the next line."""

    def __init__(self, screen: PlainScreen) -> None:
        self.screen = screen
        self._fd = sys.stdin.fileno()
        self._text = b""
        self._ended = False
        self._ready: asyncio.Future[None] | None = None
        self._free = asyncio.Event()
        self._free.set()
        self._asks = sys.stdin.isatty()
        self._outer = screen.floor
        self.wants_turn_end = not self._asks  # a pipe's next line is for after the answer

    async def read(self, default: str = "") -> str:
        """Return the next line. Raises EOFError at the end of the input."""
        lines = [await self._line()]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(await self._line())
        return "\n".join(lines)

    def ask(self) -> None:
        """Show that a line can be typed."""
        if self._asks:
            self.screen.status("")
            self.screen.end_line()
            print(PROMPT, end="", file=sys.stderr, flush=True)

    @contextlib.asynccontextmanager
    async def floor(self) -> AsyncGenerator[None]:
        """Give the terminal to a question: its answer is not a line of the conversation."""
        async with self._outer():
            self._free.clear()
            waiting, self._ready = self._ready, None
            if waiting is not None:
                self._watch(None)
            try:
                yield
            finally:
                self._free.set()
                if waiting is not None and not waiting.done():
                    self._ready = waiting
                    self._watch(self._wake)

    def _wake(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def _line(self) -> str:
        while b"\n" not in self._text and not self._ended:
            await self._readable()
            data = os.read(self._fd, 1 << 16)
            self._ended = not data
            self._text += data
            if len(self._text) > MAX_INPUT:
                raise Usage(f"a line of stdin is longer than {MAX_INPUT} bytes; name a file after @ instead")
        if not self._text:
            raise EOFError
        line, _, self._text = self._text.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    async def _readable(self) -> None:
        await self._free.wait()  # a question that came before has the terminal
        self._ready = asyncio.get_running_loop().create_future()
        if not self._watch(self._wake):  # a file: reading it never waits
            return
        try:
            await self._ready
        finally:
            self._ready = None
            self._watch(None)

    def _watch(self, wake: Callable[[], None] | None) -> bool:
        loop = asyncio.get_running_loop()
        try:
            if wake is None:
                loop.remove_reader(self._fd)
            else:
                loop.add_reader(self._fd, wake)
        except (PermissionError, NotImplementedError):
            return False
        return True
