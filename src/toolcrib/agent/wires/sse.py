"""Splits a stream of bytes into server-sent events (WHATWG HTML, "Server-sent events"). It reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.text import lazy_regex

MAX_EVENT = 32 << 20
"""Bytes of one event. Images and long reasoning come in one event."""

_LINE_ENDS = lazy_regex(rb"\r\n|\n|\r")


class SseParser:
    """Give it bytes as they arrive; it yields (event, data) for each complete event, in linear time."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._event = ""
        self._after_cr = False
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """Yield the events that `chunk` completes. Raises ValueError for an event above MAX_EVENT."""
        if self._after_cr and chunk[:1] == b"\n":  # the second half of a line end
            chunk, self._after_cr = chunk[1:], False
        if not chunk:
            return
        start = 0
        for end in _LINE_ENDS.finditer(chunk):
            line = chunk[start : end.start()]
            start = end.end()
            if self._line:
                line = bytes(self._line + line)
                self._line.clear()
            event = self._take_line(line)
            if event is not None:
                yield event
        self._after_cr = chunk[-1:] == b"\r"
        self._line += chunk[start:]
        self._check(len(self._line))

    def close(self) -> Iterator[tuple[str, str]]:
        """Yield the event that no blank line ended: some servers end the stream that way."""
        if self._line:
            self._take_line(bytes(self._line))
            self._line.clear()
        event = self._dispatch()
        if event is not None:
            yield event

    def _take_line(self, line: bytes) -> tuple[str, str] | None:
        if not line:
            return self._dispatch()
        self._size += len(line)
        self._check(self._size)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        return None

    def _dispatch(self) -> tuple[str, str] | None:
        event, data = self._event, "\n".join(self._data)
        empty = not self._data
        self._event, self._data, self._size = "", [], 0
        return None if empty else (event, data)

    def _check(self, size: int) -> None:
        if size > MAX_EVENT:
            raise ValueError(f"an event of the stream is larger than {MAX_EVENT} bytes")
