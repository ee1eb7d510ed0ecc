"""One remembered change, as a row: a path, its state before and after, and whether the change has happened."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from ..boundary.workspace_paths import Identity, WorkspacePath, identity

COMMAND_PREFIX = "layers/"
"""The prefix of `kept` in the row of a command."""

HASH_LIMIT = 256 * 1024  # larger files are compared by identity alone: hashing them would cost more than writing them


FileKind = Literal["absent", "file", "dir", "link"]


@dataclass(slots=True)
class Change:
    """One change of one path, as it is stored; `before_…` and `after_…` describe the path before and after it.

    A new one is of a path that exists neither before nor after it, until its maker sets the other fields.
    """

    call_id: str
    session_id: str | None
    tool: str
    reason: str | None
    root: str
    path: str
    undoes: int | None = None
    """The change that this one takes back."""
    id: int = 0
    """Its number; 0 before it is stored."""
    at: float = field(default_factory=time.time)
    before_kind: FileKind = "absent"
    before_mode: int | None = None
    before_identity: str | None = None
    before_sha: str | None = None
    kept: str | None = None
    """The path of the earlier content, below the state folder."""
    kept_size: int = 0
    after_kind: FileKind = "absent"
    after_mode: int | None = None
    after_identity: str | None = None
    after_sha: str | None = None
    status: Literal["pending", "done", "undone"] = "pending"

    @property
    def action(self) -> str:
        """What happened to the path, in one word."""
        if self.of_command:
            return "ran"
        if self.before_kind == "absent":
            return "created"
        return "deleted" if self.after_kind == "absent" else "changed"

    @property
    def of_command(self) -> bool:
        """Whether it stands for all changes of a command."""
        return self.kept is not None and self.kept.startswith(COMMAND_PREFIX)

    def set_before(self, st: os.stat_result, sha: str | None = None) -> None:
        """Set the state before the change; `sha` is the hash of the content, if known."""
        self.before_kind, self.before_mode = kind_of(st), stat.S_IMODE(st.st_mode)
        self.before_identity, self.before_sha = text(identity_of(st)), sha


def new_change(
    place: WorkspacePath,
    call_id: str,
    tool: str,
    session_id: str | None,
    reason: str | None = None,
    undoes: int | None = None,
) -> Change:
    """Return a new change of a path."""
    return Change(call_id, session_id, tool, reason, str(place.root.path), "/".join(place.parts), undoes)


def matches(
    now: os.stat_result | None, change: Change, side: Literal["before", "after"], sha: Callable[[], str | None]
) -> bool:
    """Return whether a path is in the state that the change describes for this side. `sha` reads the content, only if
    needed."""
    kind, known_identity, known_sha = (getattr(change, f"{side}_{part}") for part in ("kind", "identity", "sha"))
    if now is None or kind == "absent":
        return now is None and kind == "absent"
    if kind_of(now) != kind:
        return False
    if known_identity is None or text(identity_of(now)) == known_identity:
        return True
    return bool(known_sha) and kind == "file" and now.st_size <= HASH_LIMIT and sha() == known_sha


def kind_of(st: os.stat_result) -> FileKind:
    """Return the kind of an existing path."""
    if stat.S_ISLNK(st.st_mode):
        return "link"
    return "dir" if stat.S_ISDIR(st.st_mode) else "file"


def identity_of(st: os.stat_result) -> Identity:
    """Return the identity of a path. For a directory only its inode, which does not change when its entries change."""
    return (st.st_dev, st.st_ino, 0, 0) if stat.S_ISDIR(st.st_mode) else identity(st)


def text(numbers: Iterable[int]) -> str:
    """Return an identity as its column stores it."""
    return ":".join(map(str, numbers))


def sha_of(data: bytes) -> str | None:
    """Return the hash of a content; None if the content is too large to hash."""
    return hashlib.sha256(data).hexdigest() if len(data) <= HASH_LIMIT else None
