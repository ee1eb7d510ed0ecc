"""Lines of stdin as they come, without waiting for more and without keeping what is too long."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

from ..boundary.lines import Lines

_CHUNK = 256 * 1024


async def chunks_of_lines(most: int) -> AsyncIterator[list[bytes]]:
    """Lines without their ends, as many at once as were there to read. Of one longer than `most` bytes comes its start.

    Read on a daemon thread, so that judging goes on meanwhile and Ctrl-C does not wait for the next line.
    """
    from ..core.threads import shared_threads

    lines = Lines(most, cut=True)
    fd = sys.stdin.fileno()
    while chunk := await shared_threads.run(os.read, fd, _CHUNK):
        yield lines.feed(chunk)
    if rest := lines.rest():
        yield [rest]
