"""The location and type of a path, and the errors for paths that a call cannot use."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..core.dataclass import dataclass
from ..core.errors import OutsideWorkspace, ToolError

WHOLE_MACHINE = "/"
"""As a workspace it can only be read, and commands see only what they see from any workspace."""


class NotRegularFile(ToolError):
    """The path is a directory, FIFO, device or socket where a regular file is needed."""


class LinkRefused(ToolError):
    """The path to be changed is a link or leads through one. The text names the link's target."""


class PrivatePath(OutsideWorkspace):
    """The path belongs to Toolcrib itself, or a change of it would move what belongs to Toolcrib."""


class ReadOnlyRoot(ToolError, PermissionError):
    """The path lies in a root that was granted for reading only."""

    def __str__(self) -> str:  # OSError would format (errno, strerror)
        return str(self.args[0]) if self.args else ""


class ChangedMeanwhile(ToolError):
    """The file was changed after it was read."""


Identity = tuple[int, int, int, int]
"""Device, inode, modification time in ns and size. They are equal for an unchanged file, even if other files are
renamed."""


def identity(st: os.stat_result) -> Identity:
    """Return the identity of a file from its stat."""
    return (st.st_dev, st.st_ino, st.st_mtime_ns, st.st_size)


@dataclass(frozen=True, slots=True)
class GrantedRoot:
    """One granted directory: its real path, and whether it may be changed. `only`: the one file of it that is granted,
    or "" for all."""

    path: Path
    writable: bool
    only: str = ""

    @property
    def shown(self) -> str:
        """What was granted, as a path."""
        return str(self.path / self.only)


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """The location of a path by its text: the root and the parts below it. `shown` is its canonical form."""

    root: GrantedRoot
    parts: tuple[str, ...]
    shown: str

    @property
    def path(self) -> Path:
        """Return the absolute path, for messages and for other programs. Our code must never open it."""
        return self.root.path.joinpath(*self.parts)


def kind_of(mode: int) -> str:
    """Return the file type of a stat mode, in words."""
    for test, words in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    ):
        if test(mode):
            return words
    return "a regular file" if stat.S_ISREG(mode) else "something unknown"
