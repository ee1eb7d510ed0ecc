"""Lines out of chunks, in time linear in their length: the SDK's own reader joins and splits all it has each time."""

from __future__ import annotations


class LineTooLong(Exception):
    """A line has no end within the limit."""


class Lines:
    """Feed it chunks of bytes; it gives whole lines. At most `limit` bytes of an unfinished line are held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends. Raises LineTooLong."""
        *whole, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in whole:
            if self._parts:
                self._parts.append(piece)
                piece = b"".join(self._parts)
                self._parts, self._held = [], 0
            lines.append(piece)
        if rest:
            self._parts.append(rest)
            self._held += len(rest)
            if self._held > self._limit:
                raise LineTooLong
        return lines

    def rest(self) -> bytes:
        """What has no end."""
        return b"".join(self._parts)
