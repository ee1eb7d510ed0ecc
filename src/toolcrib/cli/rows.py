"""Lines of stdin as they come, without waiting for more and without keeping what is too long."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

_CHUNK = 256 * 1024


async def chunks_of_lines(most: int) -> AsyncIterator[list[bytes]]:
    """Lines without their ends, as many at once as were there to read. Of one longer than `most` bytes comes its start.

    Read on a daemon thread, so that judging goes on meanwhile and Ctrl-C does not wait for the next line.
    """
    from ..core.threads import shared_threads

    splitter = Splitter(most)
    fd = sys.stdin.fileno()
    while chunk := await shared_threads.run(os.read, fd, _CHUNK):
        yield splitter.feed(chunk)
    yield splitter.end()


class Splitter:
    """Cuts a stream of bytes into lines. Keeps at most `most` + 1 bytes of a line; its rest is no line of its own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, empty ones too."""
        *whole, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in whole:
            self._keep(part)
            lines.append(self._line())
        self._keep(rest)
        return lines

    def end(self) -> list[bytes]:
        """The line that has begun and has no end."""
        line = self._line()
        return [line] if line else []

    def _line(self) -> bytes:
        line = self._begun[0] if len(self._begun) == 1 else b"".join(self._begun)
        self._begun, self._size = [], 0
        return line

    def _keep(self, part: bytes) -> None:
        room = self._most + 1 - self._size
        if part and room > 0:
            self._begun.append(part[:room])
            self._size += min(room, len(part))
