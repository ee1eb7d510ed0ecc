"""Does the memory that the server no longer needs go back to the system?

Python frees what a request used, but the allocator of glibc keeps most of it for later: after 40 uploads of 15 MB
about 100 MB. By default each thread has a part of its own, which grows for some MB more each hour with many clients.
And a request leaves about 112 objects of the SDK in cycles. Python's collector comes only after many of them, and what
it frees late lies between what is kept.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager

TRIM_SECONDS = 30.0
_M_ARENA_MAX = -8  # of malloc.h


@contextmanager
def trimming() -> Generator[None]:
    """Free what is left in cycles every TRIM_SECONDS, without looking through what is there now, which is kept. Let
    later threads share one part of the memory, and give unused memory back, where the C library can."""
    gc.freeze()
    if (limit := _of_malloc("mallopt")) is not None:
        limit(_M_ARENA_MAX, 1)
    trim = _of_malloc("malloc_trim")
    task = asyncio.create_task(_trim(trim))
    try:
        yield
    finally:
        task.cancel()
        gc.unfreeze()


async def _trim(trim: Callable[..., int] | None) -> None:
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        gc.collect()  # 3 ms after 2,000 calls; 60 if it looked through what the start has made
        if trim is not None:
            await asyncio.to_thread(trim, 0)  # some milliseconds, without Python's lock


def _of_malloc(name: str) -> Callable[..., int] | None:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # another C library; TypeError: Windows
        return None
