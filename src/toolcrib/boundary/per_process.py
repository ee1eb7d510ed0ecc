"""Objects that a process makes once for itself, and a forked child makes again: those with a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A function that returns this process's object, and makes it at the first call. A forked child forgets its
    parent's: the threads do not exist there."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.made: T | None = None
        self._make, self._lock = make, threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def __call__(self) -> T:
        if self.made is None:
            with self._lock:
                if self.made is None:
                    self.made = self._make()
        return self.made

    def _after_fork(self) -> None:
        self.made, self._lock = None, threading.Lock()
