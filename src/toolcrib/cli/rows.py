"""Reads lines from stdin as they come, without waiting for more and with a bound on each."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

from ..boundary.lines import Lines

_CHUNK = 256 * 1024


async def chunks_of_lines(max_bytes: int) -> AsyncIterator[list[bytes]]:
    """Lines without their ends, in the chunks in which they came. A line longer than `max_bytes` is cut.

    A daemon thread reads, so that the judging goes on meanwhile and Ctrl-C does not wait for the next line.
    """
    from ..core.threads import shared_threads

    lines = Lines(max_bytes, cut=True)
    fd = sys.stdin.fileno()
    while chunk := await shared_threads.run(os.read, fd, _CHUNK):
        yield lines.feed(chunk)
    if rest := lines.rest():
        yield [rest]
