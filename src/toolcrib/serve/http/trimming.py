"""Does the memory that the server no longer needs go back to the system?

Python frees what a request used, but the allocator of glibc keeps most of it for later: after 40 uploads of 15 MB
about 100 MB. By default each thread has a part of its own, which grows for some MB more each hour with many clients.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager

TRIM_SECONDS = 30.0
_M_ARENA_MAX = -8  # of malloc.h


@contextmanager
def trimming() -> Generator[None]:
    """Let later threads share one part of the memory, and give unused memory back every TRIM_SECONDS, where the C
    library can."""
    if (limit := _of_malloc("mallopt")) is not None:
        limit(_M_ARENA_MAX, 1)
    trim = _of_malloc("malloc_trim")
    task = asyncio.create_task(_trim(trim)) if trim is not None else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


async def _trim(trim: Callable[..., int]) -> None:
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)  # some milliseconds, without Python's lock


def _of_malloc(name: str) -> Callable[..., int] | None:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # another C library; TypeError: Windows
        return None
