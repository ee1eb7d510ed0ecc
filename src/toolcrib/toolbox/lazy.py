"""A part of a toolbox that is made at its first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Makes a part at the first use and remembers it. Call it to get the part; `made` says whether it is there."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._parts: list[T] = []
        self._lock = threading.RLock()

    def __call__(self) -> T:
        """The part. Raises what making it raises; then the next use makes it again."""
        if not self._parts:
            with self._lock:
                if not self._parts:
                    self._parts.append(self._make())
        return self._parts[0]

    @property
    def made(self) -> bool:
        """Whether the part was made already."""
        return bool(self._parts)
