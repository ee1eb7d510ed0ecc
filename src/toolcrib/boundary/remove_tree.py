"""Remove what a command made: folders at any depth and with any modes. Links are removed, never followed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from .descriptors import LISTED, chmod_at, closing_fd

_MAX_DEPTH = 100  # folders that are open at once


def remove_all(entry: Path | str, dir_fd: int | None = None) -> None:
    """Remove a file, a link, or a folder with everything below it. A missing entry is not an error."""
    try:
        os.unlink(entry, dir_fd=dir_fd)
        return
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):  # macOS returns EPERM for a directory
            raise
    try:
        top = os.open(entry, LISTED, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    with closing_fd(top):
        _empty(top, top, 0)
        while os.listdir(top):  # folders that were nested too deep were moved up
            _empty(top, top, 0)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(entry, dir_fd=dir_fd)


def open_any(name: str, dir_fd: int) -> int:
    """Open a directory that we own, with any mode, and return its descriptor. Its mode is changed if it cannot be
    opened."""
    try:
        return os.open(name, LISTED, dir_fd=dir_fd)
    except PermissionError:
        chmod_at(name, dir_fd, 0o700)
        return os.open(name, LISTED, dir_fd=dir_fd)


def _empty(fd: int, top: int, depth: int) -> None:
    with contextlib.suppress(PermissionError):
        os.fchmod(fd, 0o700)
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
            continue
        if depth >= _MAX_DEPTH:
            os.rename(name, secrets.token_hex(8), src_dir_fd=fd, dst_dir_fd=top)
            continue
        with closing_fd(open_any(name, fd)) as below:
            _empty(below, top, depth + 1)
        os.rmdir(name, dir_fd=fd)
