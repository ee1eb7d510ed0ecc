"""The program of a plugin: opened inside its folder, held against its hash, and run from what was hashed.

A path can be swapped, and a file rewritten in place, between a look and a run. So what is hashed is read into a sealed
file in memory, and that is what runs: nobody can change it any more. It is kept, and read anew when the file's status
says that the file has changed.
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
from ...core.errors import ToolError

MAX_BYTES = 512 << 20
_PIECE = 1 << 20
_SETTLED_SECONDS = 2.0  # a file that changed this recently may change again without its times telling
_MFD_EXEC = 0x10  # linux/memfd.h, since 6.3; older kernels know it not, and need it not


class ProgramRefused(ToolError):
    """A plugin's program is not there, is no program, or is not the one that was pinned."""


class PinnedProgram:
    """The program at `path` inside `folder`. With `sha256` nothing else is ever run."""

    def __init__(self, folder: Path, path: str, sha256: str | None = None) -> None:
        self.folder, self.path, self.sha256 = folder, path, sha256
        self.place = folder / path
        """Where the file is."""
        self._spelled = str(self.place)
        self._lock = threading.Lock()
        self._kept: int | None = None
        self._identity: tuple[int, ...] | None = None

    def open(self) -> int:
        """A descriptor of what is to be run, for the caller to close. Raises ProgramRefused."""
        if self._identity is not None:
            with self._lock, contextlib.suppress(OSError):
                # Whatever the path leads to by now, what runs is the copy that was hashed.
                if self._kept is not None and _identity(os.stat(self._spelled)) == self._identity:
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
        """The SHA-256 of the file as it is now. Raises ProgramRefused where it could not be run."""
        fd = self._opened()
        try:
            digest = hashlib.sha256()
            while piece := os.read(fd, _PIECE):
                digest.update(piece)
        finally:
            os.close(fd)
        found = digest.hexdigest()
        if self.sha256 is not None and found != self.sha256:
            raise self._changed(found)
        return found

    def close(self) -> None:
        """Let go of the copy."""
        with self._lock:
            self._forget()

    def _opened(self) -> int:
        try:
            fd = _open_beneath(self.folder, self.path)
        except OSError as error:
            raise ProgramRefused(f"{self.place}: cannot be opened: {error.strerror}") from None
        st = os.fstat(fd)
        if stat.S_ISREG(st.st_mode) and st.st_mode & 0o111 and st.st_size <= MAX_BYTES:
            return fd
        os.close(fd)
        if not stat.S_ISREG(st.st_mode):
            raise ProgramRefused(f"{self.place}: is not a regular file")
        if not st.st_mode & 0o111:
            raise ProgramRefused(f"{self.place}: may not be executed (chmod +x makes it a program)")
        raise ProgramRefused(f"{self.place}: has more than {MAX_BYTES:,} bytes")

    def _check(self, fd: int, sha256: str) -> None:
        """Have a copy of these bytes, and of no others."""
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
    """What differs when a file is another, or has changed."""
    return (st.st_dev, st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def _open_beneath(folder: Path, path: str) -> int:
    """Open a file below a folder, by whatever links that stay inside. FIFOs are not waited for."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    if has_openat2():
        base = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return openat2(base, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
        finally:
            os.close(base)
    real, root = os.path.realpath(folder / path), os.path.realpath(folder)
    if not real.startswith(f"{root}{os.sep}"):
        raise OSError(errno.EXDEV, "leads out of the plugin's folder")
    return os.open(real, flags | os.O_NOFOLLOW)


def _sealed_copy(fd: int) -> tuple[int, str]:
    """A file in memory with these bytes, which nobody can change, and their SHA-256."""
    if sys.platform != "linux":
        raise ProgramRefused("pinned programs can be run on Linux only: elsewhere no copy can be sealed")
    import fcntl

    copy = _memory_file()
    try:
        digest = hashlib.sha256()
        while piece := os.read(fd, _PIECE):
            digest.update(piece)
            left = memoryview(piece)
            while left:
                left = left[os.write(copy, left) :]
        os.fchmod(copy, 0o500)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
        return os.open(f"/proc/self/fd/{copy}", os.O_RDONLY | os.O_CLOEXEC), digest.hexdigest()
    finally:
        os.close(copy)


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("toolcrib-plugin", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create("toolcrib-plugin", flags)
