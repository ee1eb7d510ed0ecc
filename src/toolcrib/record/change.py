"""One remembered change, as a row: a path, its state before and after, and whether the change has happened."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ..boundary.workspace_paths import Identity, WorkspacePath, identity
from .rows import ChangeRow, ChangeStatus, FileKind, NewChange

COMMAND_PREFIX = "layers/"
"""The prefix of `kept` in the row of a command."""

HASH_LIMIT = 256 * 1024  # larger files are compared by identity alone: hashing them would cost more than writing them


@dataclass(frozen=True, slots=True)
class Change:
    """One remembered change of one path, as lists show it."""

    id: int
    call_id: str
    session_id: str | None
    tool: str
    at: float
    reason: str | None
    root: str
    path: str
    before: FileKind
    after: FileKind
    status: ChangeStatus
    undoes: int | None
    kept: str | None

    @property
    def action(self) -> str:
        """What happened to the path, in one word."""
        if self.kept is not None and self.kept.startswith(COMMAND_PREFIX):
            return "ran"
        if self.before == "absent":
            return "created"
        return "deleted" if self.after == "absent" else "changed"


def new_row(
    place: WorkspacePath, call_id: str, tool: str, session_id: str | None, reason: str | None, undoes: int | None
) -> NewChange:
    """Return the row for a path that exists neither before nor after the change; the caller sets the other columns."""
    return {
        "call_id": call_id, "session_id": session_id, "tool": tool, "at": time.time(), "reason": reason,
        "root": str(place.root.path), "path": "/".join(place.parts), "kept": None, "kept_size": 0,
        "before_kind": "absent", "before_mode": None, "before_identity": None, "before_sha": None,
        "after_kind": "absent", "after_mode": None, "after_identity": None, "after_sha": None,
        "status": "pending", "undoes": undoes,
    }  # fmt: skip


def with_before(row: NewChange, st: os.stat_result, sha: str | None) -> NewChange:
    """Add the state before the change to a row; `sha` is the hash of the content, if known."""
    return {
        **row,
        "before_kind": kind_of(st), "before_mode": stat.S_IMODE(st.st_mode),
        "before_identity": text(identity_of(st)), "before_sha": sha,
    }  # fmt: skip


def matches(
    now: os.stat_result | None, row: ChangeRow, side: Literal["before", "after"], sha: Callable[[], str | None]
) -> bool:
    """Return whether a path is in the state that the row describes for this side. `sha` reads the content, only if
    needed."""
    if side == "before":
        kind, known_identity, known_sha = row["before_kind"], row["before_identity"], row["before_sha"]
    else:
        kind, known_identity, known_sha = row["after_kind"], row["after_identity"], row["after_sha"]
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
