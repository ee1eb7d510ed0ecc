"""What is one remembered change? A row: a path, how it was before, how it is after, and whether it has happened."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ..boundary.workspace_paths import Identity, WorkspacePath, identity

Kind = Literal["absent", "file", "dir", "link"]
Status = Literal["pending", "done", "undone"]
Row = dict[str, Any]
"""A row of the list, by the columns of `change_table`. One that is to be inserted lacks those that are NULL."""

COMMAND_PREFIX = "layers/"
"""How `kept` begins in the row of a command."""

HASH_LIMIT = 256 * 1024  # larger files are told apart by identity alone: hashing them costs more than writing them


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
    before: Kind
    after: Kind
    status: Status
    undoes: int | None
    kept: str | None

    @property
    def action(self) -> str:
        """What happened to the path, in a word."""
        if self.kept is not None and self.kept.startswith(COMMAND_PREFIX):
            return "ran"
        if self.before == "absent":
            return "created"
        return "deleted" if self.after == "absent" else "changed"


def new_row(
    place: WorkspacePath, call_id: str, tool: str, session_id: str | None, reason: str | None, undoes: int | None
) -> Row:
    """A row for a path that does not exist before."""
    return {
        "call_id": call_id, "session_id": session_id, "tool": tool, "at": time.time(), "reason": reason,
        "root": str(place.root.path), "path": "/".join(place.parts), "before_kind": "absent",
        "kept_size": 0, "status": "pending", "undoes": undoes,
    }  # fmt: skip


def before(st: os.stat_result, sha: str | None) -> Row:
    """The columns that say how an existing path is before; `sha` of its content where that is known."""
    return {
        "before_kind": kind_of(st), "before_mode": stat.S_IMODE(st.st_mode),
        "before_identity": text(identity_of(st)), "before_sha": sha,
    }  # fmt: skip


def matches(
    now: os.stat_result | None, row: Row, side: Literal["before", "after"], sha: Callable[[], str | None]
) -> bool:
    """Whether a path is as the row says of this side; `sha` reads its content, and is called only if it must be."""
    kind: Kind = row[f"{side}_kind"]
    if now is None or kind == "absent":
        return now is None and kind == "absent"
    if kind_of(now) != kind:
        return False
    if row[f"{side}_identity"] is None or text(identity_of(now)) == row[f"{side}_identity"]:
        return True
    known = row[f"{side}_sha"]
    return bool(known) and kind == "file" and now.st_size <= HASH_LIMIT and sha() == known


def kind_of(st: os.stat_result) -> Kind:
    """What a path is that exists."""
    if stat.S_ISLNK(st.st_mode):
        return "link"
    return "dir" if stat.S_ISDIR(st.st_mode) else "file"


def identity_of(st: os.stat_result) -> Identity:
    """What tells it from another: of a directory its inode alone, which does not change with what is in it."""
    return (st.st_dev, st.st_ino, 0, 0) if stat.S_ISDIR(st.st_mode) else identity(st)


def text(numbers: Iterable[int]) -> str:
    """An identity as its column has it."""
    return ":".join(map(str, numbers))


def sha_of(data: bytes) -> str | None:
    """The hash of a content that is small enough for one."""
    return hashlib.sha256(data).hexdigest() if len(data) <= HASH_LIMIT else None
