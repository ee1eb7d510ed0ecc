"""Finds a window of lines in a file of any size, with constant memory, and as fast as the bytes can be counted."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.text import in_lines

CHUNK = 64 * 1024  # larger ones are no faster, and take longer where a page is all that is read
_MAX_WORD = 8 * 1024  # bytes
_GAPS = ((b"\t", b'"', b"'", b",", b";"), (b" ",))
"""What ends a word; spaces where there is nothing else, because a key in JSON may have some in its first line."""

Fill = Callable[[bytearray], int]
"""Fills a buffer from a source and returns the number of bytes; 0 at the end."""


@dataclass(frozen=True, slots=True)
class Window:
    """Some lines of a file, without their line ends.

    `first` is the number of the first line (from 1), `skipped` the number of its bytes before the window. `next` is
    the place to read on, (line, bytes into it), or None at the end of the file; `total` is known only there.
    `position` is the byte in the source at which line `next[0]` begins.
    """

    lines: list[bytes]
    first: int
    skipped: int
    next: tuple[int, int] | None
    total: int | None = None
    position: int | None = None


class PastEnd(ToolError):
    """Says that the window begins after the end of the file or of the line."""


def recoded(source: Fill, encoding: str) -> Fill:
    """Return a function that reads a source in any encoding as UTF-8. Undecodable bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    raw, ready = bytearray(CHUNK), bytearray()
    ended = False

    def fill(buffer: bytearray) -> int:
        nonlocal ended
        while not ready and not ended:
            count = source(raw)
            ended = not count
            ready.extend(decoder.decode(raw[:count], final=ended).encode("utf-8", "replace"))
        size = min(len(ready), len(buffer))
        buffer[:size] = ready[:size]
        del ready[:size]
        return size

    return fill


def read_window(
    fill: Fill, offset: int, limit: int, *, max_bytes: int, byte_offset: int = 0, start: tuple[int, int] = (1, 0)
) -> Window:
    """Read at most `limit` whole lines from line `offset`, and at most `max_bytes`; a longer first line is cut.

    `start` is the current line of the source, and its byte in the file. Raises PastEnd if `offset` is after the end.
    """
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    line, consumed = start  # consumed: bytes of the file before `data`
    at_start = True  # whether the file has ended right after a line end
    data = b""
    # Skip lines: count line ends in C, one chunk at a time.
    wanted = offset - line
    while wanted > 0:
        size = fill(buffer)
        if size == 0:
            raise _past_lines(line - (1 if at_start else 0), offset)
        ends = buffer.count(b"\n", 0, size)
        if ends < wanted:
            wanted -= ends
            line += ends
            consumed += size
            at_start = buffer[size - 1] == 10
            continue
        position = -1
        for _ in range(wanted):
            position = buffer.find(b"\n", position + 1, size)
        data = bytes(view[position + 1 : size])
        consumed += position + 1
        line, wanted = offset, 0
    # Skip bytes inside the line, but for those in which a word that goes on may begin.
    behind = min(byte_offset, _MAX_WORD)
    left = byte_offset - behind
    while left > 0:
        end = data.find(b"\n", 0, left)
        if end >= 0:
            raise _past_bytes(byte_offset - behind - left + end, offset, byte_offset)
        skip = min(left, len(data))
        data, left, consumed = data[skip:], left - skip, consumed + skip
        if left > 0:
            size = fill(buffer)
            if size == 0:
                raise _past_bytes(byte_offset - behind - left, offset, byte_offset)
            data = bytes(view[:size])
    while len(data) < behind and (size := fill(buffer)):
        data += view[:size]
    end = data.find(b"\n", 0, behind)
    if end >= 0 or len(data) < behind:
        raise _past_bytes(byte_offset - behind + (end if end >= 0 else len(data)), offset, byte_offset)
    begin = _word(data, behind, at_line_start=behind == byte_offset)
    data, byte_offset, consumed = data[begin:], byte_offset - behind + begin, consumed + begin
    return _collect(fill, buffer, data, offset, byte_offset, limit, max_bytes, consumed)


def _collect(
    fill: Fill, buffer: bytearray, data: bytes, offset: int, skipped: int, limit: int, max_bytes: int, consumed: int
) -> Window:
    ended = False
    while not ended and len(data) <= max_bytes and data.count(b"\n") < limit:
        size = fill(buffer)
        ended = size == 0
        data += memoryview(buffer)[:size]
    # now the page is in `data`, and the last line is whole unless it is too long for the page
    lines: list[bytes] = []
    used = position = 0  # position: where the next line begins in data
    while len(lines) < limit and position < len(data):
        end = data.find(b"\n", position)
        stop, number = len(data) if end < 0 else end, offset + len(lines)
        around = len(str(number)) + 3
        used += stop - position + around
        if used > max_bytes and lines:
            return Window(lines, offset, skipped, (number, 0), None, consumed + position)
        if used > max_bytes:
            size = _whole_words(data, position, max_bytes - around)
            return Window([data[position : position + size]], offset, skipped, (number, skipped + size))
        lines.append(data[position:stop])
        position = min(stop + 1, len(data))
    if not ended and position == len(data):
        ended = fill(buffer) == 0
    if ended and position == len(data):
        total = offset + max(len(lines), 1 if skipped else 0) - 1
        if not lines and not skipped and offset > 1:
            raise _past_lines(total, offset)
        return Window(lines, offset, skipped, None, total)
    return Window(lines, offset, skipped, (offset + len(lines), 0), None, consumed + position)


def _word(data: bytes, place: int, *, at_line_start: bool) -> int:
    """Return where the word begins that goes on at a place: the rest of a secret would not be known as one. It is the
    place itself in a word longer than those that `_whole_words` keeps."""
    for signs in _GAPS:
        if (gap := max(data.rfind(sign, 0, place) for sign in signs)) >= 0:
            return gap + 1
    return 0 if at_line_start else place


def _whole_words(data: bytes, position: int, size: int) -> int:
    """Return how many bytes fit without cutting a word in two, if it is short: neither half would be known as a
    secret."""
    end = position + size
    for signs, back in zip(_GAPS, (2 * _MAX_WORD, _MAX_WORD), strict=True):  # so that `_word` finds no other gap
        start = position + max(1, size - back)
        if (gap := max(data.rfind(sign, start, end) for sign in signs)) >= 0:
            return gap + 1 - position
    return _whole_characters(data, position, size)


def _whole_characters(data: bytes, position: int, size: int) -> int:
    """Return how many bytes fit without cutting a UTF-8 character; at least one byte."""
    cut = max(1, size)
    for back in range(min(4, cut)):
        if position + cut - back < len(data) and data[position + cut - back] & 0xC0 != 0x80:
            return max(1, cut - back)
    return cut


def _past_lines(lines: int, offset: int) -> PastEnd:
    return PastEnd(f"the file has {in_lines(lines)}; offset {offset} is past the end")


def _past_bytes(size: int, offset: int, byte_offset: int) -> PastEnd:
    return PastEnd(f"line {offset} has {size:,} bytes; byte_offset {byte_offset} is past its end")
