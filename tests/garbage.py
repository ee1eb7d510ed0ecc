"""What calls leave to Python's collector: until it comes, such objects keep their contexts and outputs in memory."""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable

CALLS = 4


async def garbage_of(call: Callable[[], Awaitable[object]]) -> list[str]:
    """Return the names of our classes and functions of which every call leaves an object that only the collector
    frees."""
    await call()  # imports and caches
    gc.freeze()  # what is there now is not looked through: in a process with many tests that takes seconds
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        for _ in range(CALLS):
            await call()
        gc.collect()
        left = Counter(f"{_kind(each).__module__}.{_kind(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    return sorted(name for name, count in left.items() if name.startswith("toolcrib.") and count >= CALLS)


def _kind(value: object) -> type:
    return value if callable(value) and hasattr(value, "__qualname__") else type(value)
