"""Copy an entry of an open directory and all below it, with modes, times, attributes, holes and hard links."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from .descriptors import LISTED, chmod_fd, closing_fd
from .remove_tree import open_any

OVERLAY = "user.overlay."  # extended attributes in which overlayfs stores its notes (option userxattr)
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20

Links = dict[tuple[int, int], str]
"""The path of the first copy of each file with several names, by the file's device and inode."""


def copy_tree(
    src_dir: int, src: str, dst_dir: int, dst: str, links: Links | None = None, full: str = "", *, durable: bool = False
) -> None:
    """Copy an entry; symbolic links stay links. `durable`: its files are on the disk afterwards.

    With `links` and `full`, the path of the new entry, files with several names stay one file. Raises OSError for
    sockets and devices.
    """
    st = os.lstat(src, dir_fd=src_dir)
    if stat.S_ISLNK(st.st_mode):
        os.symlink(os.readlink(src, dir_fd=src_dir), dst, dir_fd=dst_dir)
        os.utime(dst, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=dst_dir, follow_symlinks=False)
    elif stat.S_ISFIFO(st.st_mode):
        os.mkfifo(dst, stat.S_IMODE(st.st_mode), dir_fd=dst_dir)
    elif stat.S_ISDIR(st.st_mode):
        os.mkdir(dst, 0o700, dir_fd=dst_dir)
        with closing_fd(open_any(src, src_dir)) as below, closing_fd(os.open(dst, LISTED, dir_fd=dst_dir)) as there:
            for name in os.listdir(below):
                copy_tree(below, name, there, name, links, f"{full}/{name}", durable=durable)
            _take_over(below, there, st)
    elif not stat.S_ISREG(st.st_mode):
        raise OSError(errno.EINVAL, "neither a file, a directory nor a link; it cannot be copied", src)
    elif links is not None and (known := links.get((st.st_dev, st.st_ino))) is not None:
        os.link(known, dst, dst_dir_fd=dst_dir, follow_symlinks=False)
    else:
        if links is not None and st.st_nlink > 1:
            links[st.st_dev, st.st_ino] = full
        with closing_fd(_open(src, src_dir)) as source, closing_fd(os.open(dst, _NEW, 0o600, dir_fd=dst_dir)) as target:
            copy_content(source, target)
            _take_over(source, target, st)
            if durable:
                os.fsync(target)


def _open(name: str, dir_fd: int) -> int:
    try:
        return os.open(name, READ, dir_fd=dir_fd)
    except PermissionError:  # the file is ours, and even we may not read it
        with closing_fd(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)) as there:
            mode = stat.S_IMODE(os.fstat(there).st_mode)
            chmod_fd(there, mode | stat.S_IRUSR)
            try:
                return os.open(f"/proc/self/fd/{there}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            finally:
                chmod_fd(there, mode)


def copy_content(source: int, target: int) -> None:
    """Copy all bytes: inside the kernel, with shared blocks, if the file system can. Holes stay holes."""
    size = os.fstat(source).st_size
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data after this: a hole up to the end
                raise
            break
        end = os.lseek(source, start, os.SEEK_HOLE)
        while start < end and (done := _copy_some(source, target, start, end - start)):
            start += done
        at = max(end, start)
    os.ftruncate(target, size)


def _copy_some(source: int, target: int, at: int, most: int) -> int:
    """Copy bytes from one place to the same place, and return how many; 0 at the end."""
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):  # another file system, or one that cannot
            if done := os.copy_file_range(source, target, most, at, at):
                return done
    return os.pwrite(target, os.pread(source, min(_CHUNK, most), at), at)


def _take_over(source: int, target: int, st: os.stat_result) -> None:
    with contextlib.suppress(OSError, AttributeError):  # macOS has no such functions
        for name in os.listxattr(source):
            if not name.startswith(OVERLAY):
                os.setxattr(target, name, os.getxattr(source, name))
    with contextlib.suppress(PermissionError):  # only root may change the owner of files
        os.fchown(target, st.st_uid, st.st_gid)
    os.fchmod(target, stat.S_IMODE(st.st_mode))
    os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
