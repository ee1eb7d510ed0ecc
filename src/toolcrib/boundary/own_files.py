"""Write Toolcrib's own files (settings, trust, tokens, lists). Each is replaced in one step, so a reader never sees
half of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Literal, overload

from .descriptors import unreadable


def replace_file(path: Path, data: bytes | str, mode: int = 0o600) -> None:
    """Replace a file. The new one is on the disk before it takes the old one's place. Its folder must exist.

    Raises OSError with this file's name; then the old file is unchanged.
    """
    try:
        _replace(path, data.encode() if isinstance(data, str) else data, mode)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the person knows nothing of the temporary file
        raise


def _replace(path: Path, raw: bytes, mode: int) -> None:
    fd, temp = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mkstemp makes it 0600
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(raw)
            out.flush()
            os.fsync(fd)
        if mode != 0o600:
            os.chmod(temp, mode)
        os.replace(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise


def signature(path: str | Path) -> tuple[int, int, int] | None:
    """Return the time, size and inode of a file, which change when it does; None if it is missing."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def private(path: str, flags: int) -> int:
    """The opener, for `open`, of a file to write that only this user can read if it is new. Raises OSError for a link:
    a tool may have put it there, to another file. /dev/stdout and the like are no tool's."""
    try:
        return os.open(path, flags | (0 if path.startswith("/dev/") else getattr(os, "O_NOFOLLOW", 0)), 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "It is a link; name the file that it leads to", path) from None


def make_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file that only this user can read, if there is nothing at this path. It is not opened: closing a
    file drops all locks that this process has on it, so SQLite would lose those of its connections
    (https://sqlite.org/howtocorrupt.html, 2.2)."""
    try:
        os.mknod(path, stat.S_IFREG | 0o600)
    except FileExistsError:
        pass
    except (OSError, AttributeError):  # a system where only root may, or that has no such call
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def read_regular(path: str | os.PathLike[str], most: int | None) -> bytes | None:
    """Return the content, at most `most` + 1 bytes; None if it is not a regular file. Does not wait at a FIFO."""
    length = -1 if most is None else most + 1
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # not every system has all of them
        flags |= getattr(os, name, 0)
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            return file.read(length) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except IsADirectoryError:
        return None


def beginning_of(path: str, most: int) -> bytes:
    """Return the beginning of a plain file, however large it is; b"" if there is none."""
    with unreadable, contextlib.suppress(ValueError):
        return (read_regular(path, most) or b"")[:most]
    return b""


def read_file(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Return the content of a file that a person names, at most `most` + 1 bytes.

    Raises OSError, also for what is not a regular file: a FIFO that nobody writes to would hold the command for ever.
    What the person's shell opened for this command (`<(…)`, /dev/stdin) is read to its end.
    """
    if os.fspath(path).startswith(("/dev/fd/", "/dev/stdin")):
        with open(path, "rb") as file:
            return file.read(-1 if most is None else most + 1)
    data = read_regular(path, most)
    if data is None:
        code = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
        raise OSError(code, os.strerror(code) if code == errno.EISDIR else "Not a regular file", os.fspath(path))
    return data


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of this file. One process or thread has it at a time."""
    if sys.platform == "win32":  # no flock on Windows: two rarely write in the same millisecond
        yield
        return
    fd = lock_file(path)
    try:
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Hold the lock of a folder, in which nothing is made for that. One process or thread has it at a time."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@overload
def lock_file(path: Path) -> int: ...
@overload
def lock_file(path: Path, *, wait: Literal[False]) -> int | None: ...
def lock_file(path: Path, *, wait: bool = True) -> int | None:
    """Return a descriptor that holds the lock of a file until it is closed; None if another has it, without `wait`.

    Raises OSError, or ImportError on a system without such locks.
    """
    import fcntl

    fd = open_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return fd


def open_lock(path: Path) -> int:
    """Open a file that is only locked; it is made if it is not there. Raises OSError, also for a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
