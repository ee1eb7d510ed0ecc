"""The program of a plugin: opened inside its folder, checked against its hash, and run from the hashed copy.

A path can be replaced, or a file rewritten, between a check and a run. So the hashed bytes are copied to a sealed
file in memory, which cannot be changed, and that copy runs. The copy is reused, and made again when the file's
status shows a change.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import threading
import time
from pathlib import Path

from ...boundary.openat2 import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, has_openat2, openat2
from ...boundary.real_path import real_path
from ...core.errors import ToolError

MAX_BYTES = 512 << 20
_PIECE = 1 << 20
_SETTLED_SECONDS = 2.0  # a file that changed this recently may change again without a new timestamp
_MFD_EXEC = 0x10  # linux/memfd.h, since 6.3; older kernels do not support it and do not need it


class ProgramRefused(ToolError):
    """A plugin's program is missing, is not a program, or is not the pinned one."""


class PinnedProgram:
    """The program at `path` inside `folder`. With `sha256`, only a file with that hash is run."""

    def __init__(self, folder: Path, path: str, sha256: str | None = None) -> None:
        self.folder, self.path, self.sha256 = folder, path, sha256
        self.place = folder / path
        """The path of the file."""
        self._lock = threading.Lock()
        self._kept: int | None = None
        self._identity: tuple[int, ...] | None = None

    def open(self) -> int:
        """Return a descriptor of the program to run; the caller closes it.

        Raises ProgramRefused if it cannot be run.
        """
        if self._identity is not None:
            with self._lock, contextlib.suppress(OSError):
                # Even if the path now leads to another file, the hashed copy runs.
                if self._kept is not None and _identity(os.stat(self.place)) == self._identity:
                    return os.dup(self._kept)
        fd = self._opened()
        if self.sha256 is None:
            return fd
        try:
            with self._lock:
                self._check(fd, self.sha256)
                assert self._kept is not None
                return os.dup(self._kept)
        finally:
            os.close(fd)

    def check(self) -> str:
        """Return the SHA-256 of the current file. Raises ProgramRefused if it cannot be run."""
        fd = self._opened()
        try:
            found = _digest(fd)
        finally:
            os.close(fd)
        if self.sha256 is not None and found != self.sha256:
            raise self._changed(found)
        return found

    def close(self) -> None:
        """Close the copy."""
        with self._lock:
            self._forget()

    def _opened(self) -> int:
        try:
            fd = _open_beneath(self.folder, self.path)
        except OSError as error:
            raise ProgramRefused(f"{self.place}: cannot be opened: {error.strerror}") from None
        st = os.fstat(fd)
        if not stat.S_ISREG(st.st_mode):
            problem = "is not a regular file"
        elif not st.st_mode & 0o111:
            problem = "may not be executed (chmod +x makes it a program)"
        elif st.st_size > MAX_BYTES:
            problem = f"has more than {MAX_BYTES:,} bytes"
        else:
            return fd
        os.close(fd)
        raise ProgramRefused(f"{self.place}: {problem}")

    def _check(self, fd: int, sha256: str) -> None:
        """Make a copy of these bytes. Raises ProgramRefused if their hash is not the pinned one."""
        st = os.fstat(fd)
        identity = _identity(st)
        if self._kept is not None and identity == self._identity:
            return
        self._forget()
        copy, digest = _sealed_copy(fd)
        if digest != sha256:
            os.close(copy)
            raise self._changed(digest)
        self._kept = copy
        if time.time() - max(st.st_mtime, st.st_ctime) > _SETTLED_SECONDS:
            self._identity = identity

    def _changed(self, found: str) -> ProgramRefused:
        return ProgramRefused(
            f"{self.place}: its SHA-256 is {found}, and the manifest's {self.sha256}: it has changed, and is not run. "
            "If that is right, put the new one into binary.sha256."
        )

    def _forget(self) -> None:
        kept, self._kept, self._identity = self._kept, None, None
        if kept is not None:
            os.close(kept)


def _identity(st: os.stat_result) -> tuple[int, ...]:
    """Return values that differ if the file is another one, or has changed."""
    return (st.st_dev, st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def _open_beneath(folder: Path, path: str) -> int:
    """Open a file below a folder. Links are followed if they stay inside. Does not block on FIFOs."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    if has_openat2():
        base = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return openat2(base, path, flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
        finally:
            os.close(base)
    real, root = real_path(folder / path), real_path(folder)
    if not real.startswith(f"{root}{os.sep}"):
        raise OSError(errno.EXDEV, "leads out of the plugin's folder")
    return os.open(real, flags | os.O_NOFOLLOW)


def _sealed_copy(fd: int) -> tuple[int, str]:
    """Return a sealed file in memory with these bytes, and their SHA-256.

    Raises ProgramRefused if the system is not Linux.
    """
    if sys.platform != "linux":
        raise ProgramRefused("pinned programs can be run on Linux only: elsewhere no copy can be sealed")
    import fcntl

    copy = _memory_file()
    try:
        while os.sendfile(copy, fd, None, _PIECE):
            pass
        os.fchmod(copy, 0o500)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
        sealed = os.open(f"/proc/self/fd/{copy}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(copy)
    return sealed, _digest(sealed)


def _digest(fd: int) -> str:
    with open(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("toolcrib-plugin", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create("toolcrib-plugin", flags)
