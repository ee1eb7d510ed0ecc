"""Keep the head and the tail of a stream in constant memory, and pass the whole stream to a spill writer."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Protocol

from ..core.dataclass import dataclass
from ..core.text import lazy_regex

_FIRST_WORD, _LAST_WORD = lazy_regex(r"\A\S{1,1000}"), lazy_regex(r"(?<!\S)\S{1,1000}\Z")
_BYTES_A_CHARACTER = 4  # the most that UTF-8 needs; the stored bytes can always fill the limit


class SpillTarget(Protocol):
    """A writer for output that does not fit. `path` is the name shown in the output. A full target drops further
    data and is `truncated`."""

    @property
    def path(self) -> Any: ...
    @property
    def truncated(self) -> bool: ...
    def write(self, data: memoryview, /) -> object: ...
    def close(self) -> None: ...


OpenSpill = Callable[[str], SpillTarget]
"""A function that opens a spill for the stream of that name ("stdout", "stderr"). It is called only when output does
not fit."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of a stream, or its two ends: `omitted` bytes are missing between `head` and `tail`.

    `spill` is where the whole stream is (its beginning, if `truncated`), None if it was not stored.
    """

    head: str
    tail: str = ""
    omitted: int = 0
    spill: str | None = None
    truncated: bool = False

    @property
    def text(self) -> str:
        """Return the text with a line that says how much is missing, and where it is."""
        if not self.omitted:
            return self.head
        what = "the beginning of the output" if self.truncated else "the whole output"
        where = f"; {what} is in {self.spill}" if self.spill else ""
        return f"{self.head}\n[… {self.omitted:,} bytes omitted{where} …]\n{self.tail}"


class Capture:
    """The capture of one stream while it is read: `feed` it, `close` it, then take an `excerpt`.

    It uses less than 12 bytes of memory per character of `limit`, however much is fed. Not thread-safe.
    """

    def __init__(self, limit: int, name: str = "stdout", open_spill: OpenSpill | None = None) -> None:
        self.name = name
        self.limit = limit
        self.total = 0
        self.spill_error: str | None = None
        self._half = max(1, limit // 2) * _BYTES_A_CHARACTER
        self._head = bytearray()
        self._tail = bytearray()
        self._open_spill = open_spill
        self._writer: SpillTarget | None = None
        self._spill: str | None = None
        self._truncated = False

    def feed(self, data: memoryview | bytes) -> None:
        """Take the next bytes. The buffer may be reused afterwards."""
        size = len(data)
        overflowing = self.total > 2 * self._half
        self.total += size
        if not overflowing and self.total > 2 * self._half:
            self._begin_spill()
        if self._writer is not None:
            self._write(memoryview(data))
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data):
            self._tail += data[-self._half :]
            if len(self._tail) > 2 * self._half:
                del self._tail[: -self._half]

    def close(self) -> None:
        """Mark the end of the stream."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._truncated = writer.truncated or self.spill_error is not None
            try:
                writer.close()
            except OSError as error:
                self.spill_error = error.strerror or str(error)

    def since(self, position: int) -> tuple[bytes, int]:
        """Return the bytes after a position, as far as they are kept (the end of them), and the position after them."""
        kept = self._head + self._tail if self.total <= len(self._head) + len(self._tail) else self._tail
        start = max(position, self.total - len(kept))
        return bytes(kept[len(kept) - (self.total - start) :]) if start < self.total else b"", self.total

    def excerpt(self, limit: int | None = None, redact: Callable[[str], str] | None = None) -> Excerpt:
        """Return the decoded stream, at most `limit` characters of it. Spill the whole stream if it does not fit.

        `redact` gets more text than is shown, so that a secret is never cut in two and missed.
        """
        limit = self.limit if limit is None else min(limit, self.limit)
        if self.total <= 2 * self._half:
            text = bytes(self._head + self._tail).decode("utf-8", "replace")
            if redact is not None:
                text = redact(text)
            if len(text) <= limit:
                return Excerpt(text, spill=self._spill)
            if self._spill is None:
                self._begin_spill()
                self.close()
            head, tail = text[: limit - limit // 2], text[len(text) - limit // 2 :]
        else:
            head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
            tail = _decode_tail(bytes(self._tail))
            if redact is not None:
                # Masks are short: what is left may end where the stream was cut, within a secret.
                head, tail = _LAST_WORD.sub("", redact(head)), _FIRST_WORD.sub("", redact(tail))
            head = head[: limit - limit // 2]
            tail = tail[max(0, len(tail) - limit // 2) :]
        kept = len(head.encode("utf-8", "replace")) + len(tail.encode("utf-8", "replace"))
        return Excerpt(head, tail, max(1, self.total - kept), self._spill, self._truncated)

    def _begin_spill(self) -> None:
        if self._open_spill is None or self._spill is not None:
            return
        try:
            self._writer = self._open_spill(self.name)
        except OSError as error:
            self.spill_error = error.strerror or str(error)
            return
        self._spill = str(self._writer.path)
        if self._head:
            self._write(memoryview(bytes(self._head + self._tail)))

    def _write(self, data: memoryview) -> None:
        assert self._writer is not None
        try:
            self._writer.write(data)
        except OSError as error:  # a full disk must not end the command
            self.spill_error = error.strerror or str(error)
            self.close()


def _decode_tail(data: bytes) -> str:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # in the middle of a character
        start += 1
    return data[start:].decode("utf-8", "replace")
