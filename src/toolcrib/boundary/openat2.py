"""Call two Linux system calls that Python lacks, by ctypes: openat2 (open without escaping) and renameat2.

It also has fstatfs, which distinguishes /proc and /sys from real files. Each function reports if the kernel or a
seccomp filter does not offer its call; callers then use another way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from functools import cache

_SYS_OPENAT2 = 437  # the same number on every architecture since Linux 5.6; enabled where it was tried
_MACHINES = frozenset({"x86_64", "aarch64", "arm64"})

# linux/openat2.h
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2  # linux/fs.h

# linux/magic.h: file systems whose "files" are the kernel speaking; reading or writing one has effects.
_KERNEL_FILESYSTEMS = {
    0x9FA0: "/proc",
    0x62656572: "/sys",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x1CD1: "devpts",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup",
    0x73636673: "securityfs",
    0x62656570: "configfs",
    0xCAFE4A11: "bpf",
}

_RETRIES = 128  # openat2 answers EAGAIN while a folder above the path is renamed; an attacker can do that all the time


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_linux = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True) if _linux else None
if _libc is not None:
    _libc.syscall.restype = ctypes.c_long
    if hasattr(_libc, "renameat2"):
        _libc.renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Call `openat2(2)` and return the descriptor, or raise OSError. BlockingIOError (EAGAIN) comes only after many
    retries."""
    assert _libc is not None
    # The kernel refuses modes without O_CREAT and flags it does not know, unlike open(2).
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    raw = os.fsencode(path)
    for _ in range(_RETRIES):
        fd = _libc.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(dir_fd),
            ctypes.c_char_p(raw),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


@cache
def has_openat2() -> bool:
    """Return whether this kernel offers openat2 to us (Linux ≥ 5.6; old container seccomp filters answer EPERM)."""
    if _libc is None or platform.machine() not in _MACHINES:
        return False
    try:
        fd = openat2(-100, "/", os.O_RDONLY | os.O_DIRECTORY, 0)  # -100 is AT_FDCWD
    except OSError:
        return False
    os.close(fd)
    return True


_PLAIN = _OpenHow(getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0), 0, RESOLVE_NO_SYMLINKS)


def is_without_links(path: str) -> bool:
    """Return whether a path is there, and no link on the way, itself included; False where that is not known."""
    if not has_openat2() or "\0" in path:  # where the kernel would take the name to end
        return False
    assert _libc is not None
    size = ctypes.c_size_t(ctypes.sizeof(_PLAIN))
    fd = _libc.syscall(_SYS_OPENAT2, -100, os.fsencode(path), ctypes.byref(_PLAIN), size)
    if fd < 0:
        return False
    os.close(fd)
    return True


def _renameat2(src: str, dst: str, src_dir_fd: int, dst_dir_fd: int, flag: int) -> None:
    if _libc is None or not hasattr(_libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), src)
    if _libc.renameat2(src_dir_fd, os.fsencode(src), dst_dir_fd, os.fsencode(dst), flag) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), src, None, dst)


def rename_new(src: str, dst: str, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Rename, or raise FileExistsError if `dst` exists (even as a dangling link). Never replaces anything.

    If neither renameat2 nor hard links are available, it checks and then renames: only in this case another program can
    create `dst` in between.
    """
    try:
        _renameat2(src, dst, src_dir_fd, dst_dir_fd, _RENAME_NOREPLACE)
        return
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EPERM):  # the file system does not support the flag
            raise
    try:
        os.link(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        try:
            os.lstat(dst, dir_fd=dst_dir_fd)
        except FileNotFoundError:
            os.rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst) from None
    os.unlink(src, dir_fd=src_dir_fd)


def rename_exchange(src: str, dst: str, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Swap two existing names in one step. Raises OSError if the kernel or the file system cannot."""
    _renameat2(src, dst, src_dir_fd, dst_dir_fd, _RENAME_EXCHANGE)


def filesystem_type(fd: int) -> int | None:
    """Return the number of the file system of an open file (statfs(2)'s f_type); None if it is not known."""
    if _libc is None:
        return None
    buffer = ctypes.create_string_buffer(256)  # struct statfs is 120 bytes here; its first long is the type
    if _libc.fstatfs(ctypes.c_int(fd), buffer) != 0:
        return None
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF


def kernel_filesystem(fd: int) -> str | None:
    """Return the name of the kernel's own file system (/proc, /sys …) that an open file belongs to, or None."""
    kind = filesystem_type(fd)
    return None if kind is None else _KERNEL_FILESYSTEMS.get(kind)
