"""Move files and whole trees between open directories, also across file systems, and never through a link."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat

from ..boundary.copy_tree import copy_tree
from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.mount_points import mounts
from ..boundary.openat2 import rename_new
from ..boundary.programs import beneath
from ..boundary.remove_tree import remove_all

log = logging.getLogger(__name__)


def move(src_dir: int, src: str, dst_dir: int, dst: str) -> None:
    """Move an entry to a new name. Raises FileExistsError if that exists, and OSError if something is mounted in the
    entry: removing it later would remove what is mounted. Moves the whole entry, or leaves the source.

    Across file systems it is copied first under a temporary name and then renamed. The source then gets a temporary
    name too, before it is removed: a process that is killed in between leaves a whole source or none, never half of it.
    """
    if mounted := mounts():
        whole = os.path.join(os.readlink(f"/proc/self/fd/{src_dir}"), src)
        if any(beneath(each.point, whole) for each in mounted):
            raise OSError(
                errno.EBUSY, "something is mounted in it, and is not moved to the trash; unmount it first", src
            )
    try:
        rename_new(src, dst, src_dir, dst_dir)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    passing = f".{secrets.token_hex(6)}.tmp"
    try:
        before = _state_of(src_dir, src)
        copy_tree(src_dir, src, dst_dir, passing, durable=True)  # the source will be removed next
        rename_new(passing, dst, dst_dir, dst_dir)
    except BaseException:
        remove_all(passing, dst_dir)
        raise
    try:
        rename_new(src, passing, src_dir, src_dir)
    except BaseException:
        remove_all(dst, dst_dir)
        raise
    if _state_of(src_dir, passing) != before:  # a change that another process made meanwhile is not in the copy
        rename_new(passing, src, src_dir, src_dir)
        remove_all(dst, dst_dir)
        raise OSError(errno.EBUSY, "it was changed while it was moved", src)
    try:
        remove_all(passing, src_dir)
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
