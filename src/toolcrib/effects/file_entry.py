"""Facts about a path, by which an apply or an undo recognises a change; and the bytes of files: compare, copy."""

from __future__ import annotations

import os
import stat
from typing import Literal, NamedTuple

from ..boundary.copy_tree import OVERLAY, READ
from ..boundary.descriptors import closing_fd

Kind = Literal["file", "dir", "link", "fifo", "socket", "device"]


_CHUNK = 1 << 20

_KINDS: dict[int, Kind] = {
    stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


class Entry(NamedTuple):
    """The facts about one path. Sizes in bytes, times in ns; for a directory only kind, device and inode count."""

    kind: Kind
    mode: int
    dev: int
    ino: int
    size: int
    mtime: int
    ctime: int

    @classmethod
    def of(cls, st: os.stat_result) -> Entry:
        """Create an entry from a stat result."""
        kind = _KINDS.get(stat.S_IFMT(st.st_mode), "device")
        return cls(kind, stat.S_IMODE(st.st_mode), st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)

    def is_same(self, other: Entry | None) -> bool:
        """Return whether it is the same, unchanged file. Moving a file sets a new ctime and changes nothing else."""
        if other is None or (self.kind, self.dev, self.ino) != (other.kind, other.dev, other.ino):
            return False
        return self.kind == "dir" or (self.mode, self.size, self.mtime) == (other.mode, other.size, other.mtime)

    def is_untouched(self, other: Entry | None) -> bool:
        """Return whether it is the same file, and was neither moved nor given other attributes."""
        return self.is_same(other) and other is not None and (self.kind == "dir" or self.ctime == other.ctime)


def entry_at(name: str, dir_fd: int) -> Entry | None:
    """Return the entry of that name, or None."""
    try:
        return Entry.of(os.lstat(name, dir_fd=dir_fd))
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_whiteout(st: os.stat_result) -> bool:
    """Return whether this is overlayfs's mark for a removed name."""
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def attributes(path: str | int) -> dict[str, bytes]:
    """Return the extended attributes of a file, without those of overlayfs. `path` may be a descriptor."""
    follow = isinstance(path, int)
    try:
        names = os.listxattr(path, follow_symlinks=follow)
        return {n: os.getxattr(path, n, follow_symlinks=follow) for n in names if not n.startswith(OVERLAY)}
    except OSError:  # the file system has no extended attributes
        return {}


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
