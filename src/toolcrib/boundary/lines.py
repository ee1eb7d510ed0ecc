"""Split chunks of bytes into lines, in time linear in their length, with a limit on the length of a line."""

from __future__ import annotations


class LineTooLong(Exception):
    """A line is longer than the limit."""


class Lines:
    """A splitter: feed it chunks, and it returns the complete lines without their ends.

    It holds at most `limit` bytes of an unfinished line. A longer line raises LineTooLong. With `cut` the first `limit`
    + 1 bytes of the line are returned instead, and the rest of it is dropped.
    """

    def __init__(self, limit: int, *, cut: bool = False) -> None:
        self._limit, self._cut = limit, cut
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk, empty ones too. Raises LineTooLong if a line exceeds the limit."""
        *whole, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in whole:
            if self._parts or len(piece) > self._limit:
                self._hold(piece)
                piece = self.rest()
                self._parts, self._held = [], 0
            lines.append(piece)
        self._hold(rest)
        return lines

    def rest(self) -> bytes:
        """Return the last line, which has no end yet."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def _hold(self, piece: bytes) -> None:
        if self._cut:
            piece = piece[: max(0, self._limit + 1 - self._held)]
        if piece:
            self._parts.append(piece)
            self._held += len(piece)
            if self._held > self._limit and not self._cut:
                raise LineTooLong
