"""Make a part of a toolbox at its first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A part that is made at the first use and then stored. Call it to get the part; `made` says whether it exists."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._parts: list[T] = []
        self._lock = threading.RLock()

    def __call__(self) -> T:
        """Return the part. If making it raises, the exception is passed on, and the next use tries again."""
        if not self._parts:
            with self._lock:
                if not self._parts:
                    self._parts.append(self._make())
        return self._parts[0]

    @property
    def made(self) -> bool:
        """Whether the part was already made."""
        return bool(self._parts)
