"""File descriptors that are closed at the end of a block, and modes that are set without following a link."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

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
