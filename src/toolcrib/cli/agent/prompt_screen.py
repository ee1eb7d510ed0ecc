"""A terminal with a line that is edited while the agent works: prompt_toolkit draws it, and all else goes above it.

Whole lines are printed above and stay; the line that is being written, and what happens now, are drawn with the prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from .. import show

PROMPT = "› "
MAX_HISTORY = 256 * 1024  # bytes
FLUSH_SECONDS = 0.05
TYPING_SECONDS = 1.5  # since the last change of a line that is not sent: a question waits for that long

Complete = Callable[[str], Iterable[tuple[str, str, str]]]
"""The words that may stand before the cursor, for the text before it: what is replaced, by what, and what that is."""


class PromptScreen:
    """A prompt at the bottom of a terminal, and what is written above it.

    `interrupt` is called at Ctrl-C with what is typed, and says whether to "clear" that or to "leave"; `more` is called
    at Ctrl-O; `about` returns the text below the prompt.
    """

    wants_turn_end = False

    def __init__(
        self, history: Path, complete: Complete, interrupt: Callable[[str], str], more: Callable[[], None],
        about: Callable[[], str],
    ) -> None:  # fmt: skip
        self.screen = self
        self._out: TextIO = sys.stdout
        self._lines: list[str] = []
        self._tail = self._status = self._foreign = ""
        self._held = 0
        self._free = asyncio.Event()
        self._free.set()
        self._flushing: asyncio.TimerHandle | None = None
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

        def completes() -> bool:
            before = self._session.default_buffer.document.text_before_cursor
            return any(True for _ in complete(before))

        self._session: PromptSession[str] = PromptSession(
            self._message, input=create_input(), output=create_output(self._out), multiline=True,
            prompt_continuation="· ", history=private_history(history), completer=_Words(complete),
            complete_while_typing=Condition(completes), reserve_space_for_menu=6, key_bindings=_keys(interrupt, more),
            bottom_toolbar=about,
        )  # fmt: skip

    # --- reading

    async def read(self, default: str = "") -> str:
        """Return what the person enters. Raises EOFError at Ctrl-D on an empty line, or where `interrupt` says so."""
        await self._free.wait()  # a question that came before this prompt was there has the terminal
        self._flush()
        with _through(self):
            return await self._session.prompt_async(default=default, handle_sigint=False)

    def ask(self) -> None:
        """Do nothing: the prompt is always there."""

    # --- writing

    def answer(self, text: str) -> None:
        """Write a piece of the answer."""
        *lines, self._tail = (self._tail + text).split("\n")
        self._lines += lines
        self._changed(bool(lines))

    def line(self, text: str, style: str | None = None) -> None:
        """Write a line that is not part of the answer."""
        self.end_line()
        self._lines += (show.paint(part, style) if style else part for part in show.wrapped(show.clean(text)))
        self._changed(True)

    def status(self, text: str) -> None:
        """Show what happens now."""
        if text != self._status:
            self._status = text
            self._changed(False)

    def end_line(self) -> None:
        """End the line of the answer."""
        if self._tail:
            self._lines.append(self._tail)
            self._tail = ""

    def foreign(self, text: str) -> None:
        """Write a text of another part of the program, from any thread."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.foreign, text)
        elif self._held or not self._session.app.is_running:
            self._out.write(text)
            self._out.flush()
        else:
            *lines, self._foreign = (self._foreign + text).split("\n")
            if lines:
                self.end_line()
                self._lines += lines
                self._changed(True)

    @contextlib.asynccontextmanager
    async def floor(self) -> AsyncGenerator[None]:
        """Give the terminal to a question, but not while the person types: the next key would be its answer."""
        buffer, begun, since = self._session.default_buffer, "", 0.0
        while self._session.app.is_running and buffer.text:
            if buffer.text != begun:
                begun, since = buffer.text, self._loop.time()
            elif self._loop.time() - since > TYPING_SECONDS:
                break
            await asyncio.sleep(FLUSH_SECONDS)
        async with in_terminal():
            self._write()
            self._held += 1
            self._free.clear()
            try:
                yield
            finally:
                self._held -= 1
                if not self._held:
                    self._free.set()
                self._changed(True)

    def _message(self) -> Any:
        if self._session.app.is_done:
            return PROMPT
        status = show.paint(show.clean(self._status), "dim") if self._status else ""
        return ANSI("".join(f"{line}\n" for line in (self._tail, status) if line) + PROMPT)

    def _changed(self, lines: bool) -> None:
        app = self._session.app
        if not app.is_running:
            self._flush()
        elif not lines:
            app.invalidate()
        elif self._flushing is None and not self._held:
            self._flushing = self._loop.call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        """Print the whole lines above the prompt."""
        self._flushing = None
        if self._held or not self._lines:
            return
        app = self._session.app
        if app.is_running:  # as run_in_terminal does, but keys stay keys meanwhile
            app.renderer.erase()
            self._write()
            app.renderer.request_absolute_cursor_position()
            app.invalidate()
        else:
            self._write()

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._out.write("".join(f"{line}\n" for line in lines))
            self._out.flush()


class _PromptStream(io.TextIOBase):
    """stdout or stderr while the prompt is drawn: what is written to it goes above the prompt."""

    def __init__(self, screen: PromptScreen, stream: TextIO) -> None:
        self._screen, self._stream = screen, stream

    def write(self, text: str) -> int:
        """Write a text above the prompt."""
        self._screen.foreign(text)
        return len(text)

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._stream.fileno()


@contextlib.contextmanager
def _through(screen: PromptScreen) -> Generator[None]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_PromptStream(screen, stream) for stream in before)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Words(Completer):
    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return the words for the text before the cursor."""
        for replaced, word, about in self._complete(document.text_before_cursor):
            yield Completion(word, start_position=-len(replaced), display_meta=about)


def private_history(path: Path) -> FileHistory:
    """Return the history of a file that only this user can read. A long one loses its older half."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "r+b") as file:
        os.fchmod(fd, 0o600)
        size = file.seek(0, os.SEEK_END)
        if size > MAX_HISTORY:
            file.seek(size - MAX_HISTORY // 2)
            kept = file.read().partition(b"\n# ")[2]
            file.seek(0)
            file.truncate()
            file.write(b"\n# " + kept)
    return FileHistory(path)


def _keys(interrupt: Callable[[str], str], more: Callable[[], None]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~has_completions | Condition(lambda: not _chosen()))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("enter", filter=has_completions & Condition(lambda: _chosen()))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # the word that was chosen stays

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")  # Enter is Ctrl-J if it was typed before the prompt was there
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        answer = interrupt(event.current_buffer.text)
        if answer == "clear":
            event.current_buffer.reset()
        elif answer == "leave":
            event.app.exit(exception=EOFError)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        more()

    return keys


def _chosen() -> bool:
    from prompt_toolkit.application import get_app

    state = get_app().current_buffer.complete_state
    return state is not None and state.current_completion is not None
