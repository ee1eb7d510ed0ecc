"""Remove a folder that a command filled, at any depth and with any modes. Links are removed, never followed."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 100  # folders that are open at once


def remove_all(folder: Path) -> None:
    """Remove a folder and everything below it. A missing folder is not an error."""
    try:
        top = os.open(folder, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        _empty(top, top, 0)
        while os.listdir(top):  # folders that were nested too deep were moved up
            _empty(top, top, 0)
    finally:
        os.close(top)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(folder)


def open_any(name: str, dir_fd: int) -> int:
    """Open a directory that we own, with any mode, and return its descriptor. Its mode is changed if it cannot be
    opened."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=dir_fd)
    except PermissionError:
        make_enterable(name, dir_fd)
        return os.open(name, _DIRECTORY, dir_fd=dir_fd)


def make_enterable(name: str, dir_fd: int) -> None:
    """Give a directory that we own the mode 0700. A link in its place is not followed."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


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
        below = open_any(name, fd)
        try:
            _empty(below, top, depth + 1)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=fd)
