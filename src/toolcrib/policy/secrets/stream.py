"""Redacts bytes on their way into a file, also secrets that come in two pieces. Memory stays constant."""

from __future__ import annotations

from typing import Any

from ...boundary.capture import SpillTarget
from .redact import Redactor, replaced

PIECE = 64 * 1024  # bytes looked at together
HELD = 36 * 1024  # bytes kept back until more has come: as long as the longest secret that is known for certain


class RedactingWriter:
    """A writer that passes on what it gets without the secrets in it, up to HELD bytes late."""

    def __init__(self, writer: SpillTarget, redactor: Redactor) -> None:
        self._writer, self._redactor = writer, redactor
        self._waiting = bytearray()
        self._closed = False

    @property
    def path(self) -> Any:
        """Where it is written to."""
        return self._writer.path

    @property
    def truncated(self) -> bool:
        """Whether some of it was dropped."""
        return self._writer.truncated

    def write(self, data: memoryview | bytes | bytearray) -> None:
        """Take the next bytes."""
        self._waiting += data
        while len(self._waiting) >= PIECE + HELD:
            self._pass_on(PIECE)

    def close(self) -> None:
        """Write what waits; no more is coming. May be called again."""
        if self._closed:
            return
        self._closed = True
        try:
            while self._waiting:
                self._pass_on(PIECE if len(self._waiting) > PIECE + HELD else len(self._waiting))
        finally:
            self._writer.close()

    def _pass_on(self, size: int) -> None:
        """Write at least one and about `size` bytes: never a part of a secret that goes on in what waits."""
        # Each byte that is no UTF-8 becomes one character and the same byte again.
        text = bytes(self._waiting[: size + HELD]).decode("utf-8", "surrogateescape")
        rest = len(bytes(self._waiting[:size]).decode("utf-8", "surrogateescape"))
        spans = self._redactor.spans(text)
        for span in spans:
            if span.start < rest < span.end:
                rest = span.start or span.end
                break
        done = [span for span in spans if span.end <= rest]
        used = (
            len(text[:rest].encode("utf-8", "surrogateescape"))
            if rest < len(text)
            else min(size + HELD, len(self._waiting))
        )
        out = replaced(text[:rest], done) if done else text[:rest]
        self._writer.write(memoryview(out.encode("utf-8", "surrogateescape")))
        del self._waiting[:used]
