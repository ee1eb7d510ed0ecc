"""Move files and whole trees between open directories, also across file systems, and never through a link."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
import stat

from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.openat2 import rename_new
from ..boundary.remove_tree import remove_all

log = logging.getLogger(__name__)

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def move(src_dir: int, src: str, dst_dir: int, dst: str) -> None:
    """Move an entry to a new name. Raises FileExistsError if that exists. Moves the whole entry, or leaves the source.

    Across file systems it is copied first under a temporary name and then renamed. The source then gets a temporary
    name too, before it is removed: a process that is killed in between leaves a whole source or none, never half of it.
    """
    try:
        rename_new(src, dst, src_dir, dst_dir)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    passing = f".{secrets.token_hex(6)}.tmp"
    try:
        before = _state_of(src_dir, src)
        copy_tree(src_dir, src, dst_dir, passing)
        rename_new(passing, dst, dst_dir, dst_dir)
    except BaseException:
        remove_tree(dst_dir, passing)
        raise
    try:
        rename_new(src, passing, src_dir, src_dir)
    except BaseException:
        remove_tree(dst_dir, dst)
        raise
    if _state_of(src_dir, passing) != before:  # a change that another process made meanwhile is not in the copy
        rename_new(passing, src, src_dir, src_dir)
        remove_tree(dst_dir, dst)
        raise OSError(errno.EBUSY, "it was changed while it was moved", src)
    try:
        remove_tree(src_dir, passing)
    except OSError:  # the move is complete; an error here would delete the copy while the source is half removed
        log.warning("%s was moved, but what is left of it as %s could not be removed", src, passing, exc_info=True)


def _state_of(dir_fd: int, name: str) -> list[tuple[int, ...]]:
    """Return a value that changes when an entry or anything below it changes; it does not include names."""
    st = os.lstat(name, dir_fd=dir_fd)
    found = [(st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns)]
    if stat.S_ISDIR(st.st_mode):
        with closing_fd(os.open(name, LISTED, dir_fd=dir_fd)) as below:
            for each in sorted(os.listdir(below)):
                found += _state_of(below, each)
    return found


def copy_tree(src_dir: int, src: str, dst_dir: int, dst: str) -> None:
    """Copy an entry with its modes and times; links stay links. Raises OSError for sockets and devices."""
    st = os.lstat(src, dir_fd=src_dir)
    if stat.S_ISLNK(st.st_mode):
        os.symlink(os.readlink(src, dir_fd=src_dir), dst, dir_fd=dst_dir)
        return
    if stat.S_ISFIFO(st.st_mode):
        os.mkfifo(dst, stat.S_IMODE(st.st_mode), dir_fd=dst_dir)
        return
    if stat.S_ISDIR(st.st_mode):
        os.mkdir(dst, 0o700, dir_fd=dst_dir)
        with (
            closing_fd(os.open(src, LISTED, dir_fd=src_dir)) as below,
            closing_fd(os.open(dst, LISTED, dir_fd=dst_dir)) as there,
        ):
            for name in os.listdir(below):
                copy_tree(below, name, there, name)
            _take_over(there, st)
        return
    with closing_fd(os.open(src, _READ, dir_fd=src_dir)) as source:
        now = os.fstat(source)
        if not stat.S_ISREG(now.st_mode):
            raise OSError(errno.EINVAL, "neither a file, a directory nor a link; it cannot be copied", src)
        with closing_fd(os.open(dst, _WRITE, 0o600, dir_fd=dst_dir)) as target:
            copy_content(source, target)
            _take_over(target, now)
            os.fsync(target)  # the source will be removed next


def copy_content(source: int, target: int) -> None:
    """Copy all bytes: inside the kernel, with shared blocks if the file system can; else in a loop."""
    copy_range = getattr(os, "copy_file_range", None)
    if copy_range is not None:
        try:
            while copy_range(source, target, 1 << 30):
                pass
            return
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
                raise
    with open(source, "rb", closefd=False) as reading, open(target, "wb", closefd=False) as writing:
        shutil.copyfileobj(reading, writing)


def remove_tree(dir_fd: int, name: str) -> None:
    """Remove an entry and all below it; entries that are already gone are ignored. Links are removed, not followed."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):  # macOS returns EPERM for a directory
            raise
        remove_all(name, dir_fd)


def _take_over(fd: int, st: os.stat_result) -> None:
    try:
        os.fchown(fd, st.st_uid, st.st_gid)
    except PermissionError:
        pass  # only root may change the owner of files
    os.fchmod(fd, stat.S_IMODE(st.st_mode))
    os.utime(fd, ns=(st.st_atime_ns, st.st_mtime_ns))
