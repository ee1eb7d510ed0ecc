"""Redact bytes that are written to a file, including secrets that arrive in two pieces. Memory stays constant."""

from __future__ import annotations

from typing import Any

from ...boundary.capture import SpillTarget
from .redact import Redactor, replaced

PIECE = 512 * 1024  # bytes that are checked together: those held back are checked twice
HELD = 36 * 1024  # bytes held back until more arrive: the length of the longest secret that is recognized for certain


class RedactingWriter:
    """A writer that passes on its input without the secrets, up to HELD bytes late."""

    def __init__(self, writer: SpillTarget, redactor: Redactor) -> None:
        self._writer, self._redactor = writer, redactor
        self._waiting = bytearray()
        self._closed = False

    @property
    def path(self) -> Any:
        """The path of the file."""
        return self._writer.path

    @property
    def truncated(self) -> bool:
        """Whether a part of the input was dropped."""
        return self._writer.truncated

    def write(self, data: memoryview | bytes | bytearray) -> None:
        """Take the next bytes. A full file drops them unread."""
        if self._writer.truncated:
            self._waiting.clear()
            return
        self._waiting += data
        while len(self._waiting) >= PIECE + HELD:
            self._pass_on(PIECE)

    def close(self) -> None:
        """Write the bytes that are held back, and close the file. May be called again."""
        if self._closed:
            return
        self._closed = True
        try:
            while self._waiting:
                self._pass_on(PIECE if len(self._waiting) > PIECE + HELD else len(self._waiting))
        finally:
            self._writer.close()

    def _pass_on(self, size: int) -> None:
        """Write at least one and about `size` bytes: never a part of a secret that continues in the bytes held back."""
        with memoryview(self._waiting) as waiting:
            data = bytes(waiting[: size + HELD])
        # Each byte that is not valid UTF-8 becomes one character, and the same byte again when written.
        text = "" if self._redactor.clears(data) else data.decode("utf-8", "surrogateescape")
        spans = self._redactor.spans(text, dumps=False)
        if not spans:
            self._writer.write(memoryview(data)[:size])
            del self._waiting[:size]
            return
        rest = len(data[:size].decode("utf-8", "surrogateescape"))
        for span in spans:
            if span.start < rest < span.end:
                rest = span.start or span.end
                break
        done = [span for span in spans if span.end <= rest]
        used = len(text[:rest].encode("utf-8", "surrogateescape"))
        out = replaced(text[:rest], done)
        self._writer.write(memoryview(out.encode("utf-8", "surrogateescape")))
        del self._waiting[:used]
