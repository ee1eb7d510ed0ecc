"""File descriptors that are closed at the end of a block, modes that are set without following a link, and what holds
when no descriptors are left."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags of a directory whose entries are read. A link in its place is not followed."""


@contextmanager
def closing_fd(fd: int) -> Generator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def chmod_at(name: str, dir_fd: int | None, mode: int, kind: int = os.O_DIRECTORY) -> None:
    """Set the mode of a directory that we own; with `kind` 0, of a file. A link in its place is not followed."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | kind
    with closing_fd(os.open(name, flags, dir_fd=dir_fd)) as fd:
        chmod_fd(fd, mode)


def chmod_fd(fd: int, mode: int) -> None:
    """Set the mode of an open file, also of one that was opened with O_PATH."""
    os.chmod(f"/proc/self/fd/{fd}", mode)


_T = TypeVar("_T")
_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class _Unreadable:
    """A block in which an OSError means that something is not there, or that this user cannot read it. One that means
    only that no descriptors or no memory are left says nothing of it, and is raised."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError) and error.errno not in _SHORT


unreadable = _Unreadable()
_PATIENCE, _PAUSE = 10.0, 0.02


def patiently(work: Callable[[], _T]) -> _T:
    """Do something, and do it again as long as no descriptors or memory are left: others may have them for a moment."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in _SHORT or time.monotonic() > until:
                raise
        time.sleep(_PAUSE)
