"""Compare the bytes of two files, and copy files with the holes of sparse files."""

from __future__ import annotations

import errno
import os

from ..boundary.descriptors import closing_fd

_CHUNK = 1 << 20
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def same_content(first: str, first_dir: int, second: str, second_dir: int) -> bool:
    """Return whether two regular files of one size have the same bytes. A file that cannot be read counts as
    different."""
    try:
        with (
            closing_fd(os.open(first, READ, dir_fd=first_dir)) as one,
            closing_fd(os.open(second, READ, dir_fd=second_dir)) as two,
        ):
            while (here := os.read(one, _CHUNK)) == os.read(two, _CHUNK):
                if not here:
                    return True
    except PermissionError:
        pass
    return False


def copy_sparse(source: int, target: int) -> None:
    """Copy all bytes of a file. Holes stay holes."""
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
        while start < end:
            part = os.pread(source, min(_CHUNK, end - start), start)
            if not part:
                break
            start += os.pwrite(target, part, start)
        at = max(end, start)
    os.ftruncate(target, size)
