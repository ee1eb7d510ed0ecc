"""Check whether a directory is on a local disk, or on a file system that can block us (NFS, SMB, FUSE, 9p)."""

from __future__ import annotations

import os

from .descriptors import closing_fd
from .openat2 import filesystem_type

# f_type of statfs(2), from linux/magic.h. Any other type may belong to a network, and is treated so.
LOCAL_FILESYSTEMS = {
    0xEF53: "ext2, ext3, ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
    0x01021994: "tmpfs",
    0x858458F6: "ramfs",
    0x794C7630: "overlayfs",
    0x61756673: "aufs",
    0x4D44: "vfat",
    0x2011BAB0: "exfat",
    0x7366746E: "ntfs3",
    0x3153464A: "jfs",
    0x52654973: "reiserfs",
    0x73717368: "squashfs",
    0x9660: "iso9660",
}


def may_hang(path: str | os.PathLike[str]) -> bool:
    """Return whether access to a file there may block as long as a network does. Only the directory itself is
    checked."""
    try:
        opened = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    with closing_fd(opened) as fd:
        kind = filesystem_type(fd)
    return kind is not None and kind not in LOCAL_FILESYSTEMS
