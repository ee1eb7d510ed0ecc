"""Close the databases in files before this process forks, and open them again when they are needed.

SQLite does not see that a child has not the locks of its parent. A connection that the child kept, or opened while the
parent's was open, would write without a lock; another process that ends would delete its log with what it wrote.
A child must not speak on its parent's connection to a server either: it makes its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Lock(Protocol):
    """A lock of `threading`."""

    def acquire(self) -> bool:
        """Wait for the lock."""
        ...

    def release(self) -> None:
        """Release it."""


class ForkSafe:
    """What has connections that a fork must not copy. Its methods do nothing of their own."""

    def before_fork(self) -> None:
        """Close the connections to files."""

    def in_child(self) -> None:
        """Forget what only the parent has: threads, what waits to be written, connections to a server."""


_all: weakref.WeakKeyDictionary[ForkSafe, tuple[Lock, ...]] = weakref.WeakKeyDictionary()
_forking, _held = threading.Lock(), list[Lock]()


def keep_fork_safe(owner: ForkSafe, *locks: Lock) -> None:
    """Call its methods around each fork, as long as it exists. It opens and uses connections under these locks, which
    are held while the process forks."""
    with _forking:
        _all[owner] = locks


def _before() -> None:
    _forking.acquire()
    for owner, locks in list(_all.items()):
        for lock in locks:
            lock.acquire()
            _held.append(lock)
        owner.before_fork()


def _in_parent() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


def _in_child() -> None:
    try:
        for owner in list(_all):
            owner.in_child()
    finally:
        _in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
