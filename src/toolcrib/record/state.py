"""The place where Toolcrib stores data about a workspace: a private folder for each, which no tool can reach.

`$XDG_STATE_HOME/toolcrib/<workspace id>` contains the record, the journal for undo, the trash, and spilled outputs.
Several processes may use every part at the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.own_files import replace_file
from ..boundary.read_tree import all_below
from ..boundary.real_path import real_path
from ..boundary.remove_tree import remove_all
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.homes import state_home
from .connection import Where

GIB = 2**30

SPILL_QUOTA = 2 * GIB
JOURNAL_QUOTA = 2 * GIB  # before-images and trash together; the same as the spill quota, without a measured reason
SPILL_AGE = 7 * 86400.0
JOURNAL_AGE = 30 * 86400.0  # a usual limit for a desktop's trash


def workspace_id(root: str | os.PathLike[str]) -> str:
    """Return a name for a workspace: the folder's own name in plain characters, and a hash of its real path."""
    real = real_path(root)
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(real)).strip(".-")[:40] or "root"
    return f"{slug}-{hashlib.blake2b(os.fsencode(real), digest_size=6).hexdigest()}"


def state_path(root: str | os.PathLike[str], home: Path | None = None) -> Path:
    """Return the path of a workspace's state folder. Makes nothing."""
    return Path(real_path(home or state_home())) / workspace_id(root)


@dataclass(frozen=True, slots=True)
class Removal:
    """One entry that `clean` removed, or would remove: its part, name, size in bytes and age in seconds."""

    part: str
    name: str
    size: int
    age: float


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The state folder of one workspace. Only this user can read it."""

    path: Path
    url: str = field(default="", repr=False)
    """The Postgres database that has the record; "" for the file in this folder."""

    @classmethod
    def for_workspace(cls, root: str | os.PathLike[str], home: Path | None = None, *, url: str = "") -> StateFolder:
        """Return the folder of a workspace, made if needed. `url` names a shared database of the record.

        Raises ConfigError if it cannot be made.
        """
        path = state_path(root, home)
        folder = cls(path, url)
        for each in (path.parent, path, folder.journal, folder.trash, folder.spill):
            try:
                private_folder(each)
            except OSError as error:
                raise ConfigError(
                    f"the state folder {each} cannot be made: {error.strerror}; make that place writable, or set "
                    "XDG_STATE_HOME to a folder that is"
                ) from None
        return folder

    @property
    def record_db(self) -> Path:
        """The file of the audit record, pending approvals and sessions."""
        return self.path / "record.db"

    @property
    def record(self) -> Where:
        """The record: a database that many machines share, or the file."""
        return self.url or self.record_db

    @property
    def journal(self) -> Path:
        """The folder of before-images and the list of changes."""
        return self.path / "journal"

    @property
    def trash(self) -> Path:
        """The folder of deleted files, until they are restored or cleaned up."""
        return self.path / "trash"

    @property
    def spill(self) -> Path:
        """The folder of outputs that were too large for the model."""
        return self.path / "spill"

    @property
    def saved(self) -> Path:
        """The folder of files as they were before commands. Made when the first such command runs."""
        return self.path / "saved"

    @property
    def browser(self) -> Path:
        """The folder of browser profiles, of running browsers and of killed ones. Made when the first browser
        starts."""
        return self.path / "browser"

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of each part."""
        parts = {"journal": self.journal, "trash": self.trash, "spill": self.spill, "saved": self.saved}
        parts["browser"] = self.browser
        found = {name: sum(size for _, size, _ in folder_entries(path)) for name, path in parts.items()}
        found["record"] = sum(_size(Path(f"{self.record_db}{end}")) for end in ("", "-wal", "-shm"))
        return found


def private_folder(path: Path) -> None:
    """Make a folder that only this user can enter. Raises ConfigError if it is a link, belongs to another user, or is
    one that all users share, such as /tmp."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    st = path.lstat()
    if not stat.S_ISDIR(st.st_mode) or (hasattr(os, "getuid") and st.st_uid != os.getuid()):
        raise ConfigError(f"the state folder {path} is not a directory of this user")
    if st.st_mode & stat.S_ISVTX:  # root could take it away from all others
        raise ConfigError(f"the state folder {path} is one that all users share; name a folder in it")
    if st.st_mode & 0o077:
        path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Replace a file in a folder that only this user can enter; the folder is made. Raises OSError or ConfigError."""
    private_folder(path.parent.parent)
    private_folder(path.parent)
    replace_file(path, text)


def folder_entries(path: Path) -> Iterator[tuple[str, int, float]]:
    """Yield each direct entry of a folder: name, total bytes, time of the last change. Entries that vanish are
    skipped."""
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            st = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        size = _tree_size(entry.path) if stat.S_ISDIR(st.st_mode) else _on_disk(st)
        yield entry.name, size, st.st_mtime


def prune_folder(
    path: Path, part: str, quota: int, max_age: float, *, dry_run: bool = False, keep: frozenset[str] = frozenset()
) -> list[Removal]:
    """Remove entries of a folder that are too old or, oldest first, over the quota; `keep` are never removed."""
    now = time.time()
    entries = sorted(folder_entries(path), key=lambda e: e[2])
    total = sum(size for _, size, _ in entries)
    removed: list[Removal] = []
    for name, size, changed in entries:
        if name in keep or (total <= quota and now - changed <= max_age):
            continue
        total -= size
        removed.append(Removal(part, name, size, now - changed))
        if not dry_run:
            remove_entry(path / name)
    return removed


def remove_entry(path: Path) -> None:
    """Remove a file or a whole folder, as far as that is possible."""
    with contextlib.suppress(OSError):
        remove_all(path)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _tree_size(path: str) -> int:
    with contextlib.suppress(OSError), closing_fd(os.open(path, LISTED)) as fd:
        return sum(_on_disk(st) for _, _, st in all_below(fd) if not stat.S_ISDIR(st.st_mode))
    return 0


def _on_disk(st: os.stat_result) -> int:
    """Return the bytes of a file that take room: not the holes, of which one file can have terabytes."""
    return min(st.st_size, st.st_blocks * 512)
