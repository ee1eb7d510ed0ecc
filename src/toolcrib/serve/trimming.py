"""Does the memory that the server no longer needs go back to the system?

Python frees what a request used, but the allocator of glibc keeps most of it for later: after 40 uploads of 15 MB
about 100 MB, and some MB more each hour with many clients, because each thread has a part of its own.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager

TRIM_SECONDS = 30.0


@contextmanager
def trimming() -> Generator[None]:
    """Give unused memory back every TRIM_SECONDS, where the C library can."""
    trim = _malloc_trim()
    task = asyncio.create_task(_trim(trim)) if trim is not None else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


async def _trim(trim: Callable[[int], int]) -> None:
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)  # some milliseconds, without Python's lock


def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library; TypeError: Windows
        return None
