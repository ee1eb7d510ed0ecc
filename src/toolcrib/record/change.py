"""Remembered changes: a path, its state before and after, and whether the change has happened; and the list of them.

The list is an SQLite database that several processes write at the same time. It uses WAL mode, because a row and its
marks must be written completely or not at all.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterable
from dataclasses import field, fields
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol

from ..boundary.own_files import make_private
from ..boundary.staged_file import Content
from ..boundary.workspace_paths import Identity, WorkspacePath, identity
from ..core.bound import clean_id
from ..core.call import inner_id
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from .forks import ForkSafe, keep_fork_safe
from .sqlite import write_ahead
from .state import StateFolder

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
    after_kind: FileKind = "absent"
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

    def set_after(self, st: os.stat_result | None) -> None:
        """Set the state after the change; None if the path is gone."""
        if st is not None:
            self.after_kind, self.after_identity = kind_of(st), text(identity_of(st))

    def fits(self, now: os.stat_result | None, side: Literal["before", "after"], sha: Callable[[], str | None]) -> bool:
        """Return whether the path, which is `now`, is as it was before or after the change. `sha` reads the content,
        only if needed."""
        kind, known_identity, known_sha = (getattr(self, f"{side}_{part}") for part in ("kind", "identity", "sha"))
        if now is None or kind == "absent":
            return now is None and kind == "absent"
        if kind_of(now) != kind:
            return False
        if known_identity is None or text(identity_of(now)) == known_identity:
            return True
        return bool(known_sha) and kind == "file" and now.st_size <= HASH_LIMIT and sha() == known_sha


def new_change(
    place: WorkspacePath,
    call_id: str,
    tool: str,
    session_id: str | None,
    reason: str | None = None,
    undoes: int | None = None,
) -> Change:
    """Return a new change of a path."""
    session = None if session_id is None else clean_id(session_id, None)
    return Change(call_id, session, tool, reason, str(place.root.path), "/".join(place.parts), undoes)


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


def sha_of(data: Content) -> str | None:
    """Return the hash of a content; None if the content is too large to hash."""
    if isinstance(data, int):
        data = os.pread(data, HASH_LIMIT + 1, 0)
    return hashlib.sha256(data).hexdigest() if len(data) <= HASH_LIMIT else None


# --- the list

_SCHEMA = """
CREATE TABLE IF NOT EXISTS change (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    call_id TEXT NOT NULL, session_id TEXT, tool TEXT NOT NULL, at REAL NOT NULL, reason TEXT,
    root TEXT NOT NULL, path TEXT NOT NULL,
    before_kind TEXT NOT NULL, before_mode INTEGER, before_identity TEXT, before_sha TEXT,
    kept TEXT, after_kind TEXT NOT NULL, after_identity TEXT, after_sha TEXT,
    status TEXT NOT NULL, undoes INTEGER
);
CREATE INDEX IF NOT EXISTS change_call ON change (call_id);
CREATE INDEX IF NOT EXISTS change_path ON change (path, root);
"""


_COLUMNS = tuple(each.name for each in fields(Change) if each.name != "id")
_INSERT = f"INSERT INTO change ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


def _stored(value: Any) -> Any:
    """Return a value as a column takes it: a path that is no UTF-8 as its bytes."""
    return os.fsencode(value) if isinstance(value, str) and not value.isascii() and _is_bytes(value) else value


def _is_bytes(value: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in value)


def _change(row: sqlite3.Row) -> Change:
    values: dict[str, Any] = dict(row)
    for name in ("path", "root", "kept"):
        values[name] = None if values[name] is None else os.fsdecode(values[name])
    return Change(**values)


class ChangeTable(ForkSafe):
    """The rows of all changes in a workspace, oldest first. May be used from any thread, and after a fork."""

    def __init__(self, folder: StateFolder) -> None:
        self.lock = threading.RLock()
        self._folder = folder
        self._db: sqlite3.Connection | None = None
        keep_fork_safe(self, self.lock)

    # Writing

    def insert(self, change: Change) -> int:
        """Add a change and return its number. Raises ToolError if it cannot be written: then it must not be made."""
        row = [_stored(getattr(change, name)) for name in _COLUMNS]
        try:
            with self.lock:
                number = self._connect().execute(_INSERT, row).lastrowid
        except sqlite3.Error as error:  # no undo without the journal, so the change must not be made
            raise ToolError(
                f"the journal in {self._folder.journal} cannot be written: {error}; nothing was changed"
            ) from error
        assert number is not None
        return number

    def done(self, number: int, undoes: int | None) -> None:
        """Mark a change as done; `undoes` is the row that it takes back."""
        self.execute("UPDATE change SET status = 'done' WHERE id = ?", number)
        if undoes is not None:  # if an undo is undone, the original change counts again, with what went to the trash
            self.execute(
                "UPDATE change SET status = 'done', kept = CASE WHEN kept LIKE 'trash/%' THEN"
                " (SELECT coalesce(new.kept, change.kept) FROM change new WHERE new.id = ?) ELSE kept END"
                " WHERE id = (SELECT undoes FROM change WHERE id = ?)", number, undoes,
            )  # fmt: skip

    def same_again(self, change: Change, was: str | None, now: str) -> None:
        """Note that the file of earlier changes with the identity `was` is the same with the identity `now`: undoing
        `change` brings it back as another file."""
        self.execute(
            "UPDATE change SET after_identity = ? WHERE root = ? AND path = ? AND after_identity = ? AND id != ?",
            now, change.root, change.path, was, change.id,
        )  # fmt: skip

    def undone(self, number: int) -> None:
        """Mark a change as taken back, or as never made."""
        self.execute("UPDATE change SET status = 'undone' WHERE id = ?", number)

    def drop(self, number: int) -> None:
        """Delete the row of a change that was not made."""
        self.execute("DELETE FROM change WHERE id = ?", number)

    # Reading

    def of_call(self, call: str) -> list[Change]:
        """Return the changes of a call, and of the calls that its script made, that are not undone, newest first."""
        rows = self.execute(
            "SELECT * FROM change WHERE (call_id = ?1 OR substr(call_id, 1, length(?2)) = ?2) AND status != 'undone'"
            " ORDER BY id DESC", call, inner_id(call, ""),
        )  # fmt: skip
        return [_change(row) for row in rows]

    def being_undone(self) -> frozenset[int]:
        """Return the changes that are not undone, though an undo of them was begun and is not undone itself."""
        sql = (
            "SELECT undoes FROM change u WHERE undoes IS NOT NULL AND status != 'undone'"
            " AND EXISTS (SELECT 1 FROM change c WHERE c.id = u.undoes AND c.status != 'undone')"
        )
        return frozenset(row[0] for row in self.execute(sql))

    def listed(self, call_id: str | None, limit: int) -> list[Change]:
        """Return the newest changes, of one call or of all."""
        sql = "SELECT * FROM change WHERE ?1 IS NULL OR call_id = ?1 ORDER BY id DESC LIMIT ?2"
        return [_change(row) for row in self.execute(sql, call_id, limit)]

    def knows(self, call_id: str) -> bool:
        """Return whether there is any row of this call, undone or not. Raises sqlite3.Error."""
        return bool(self.execute("SELECT 1 FROM change WHERE call_id = ? LIMIT 1", call_id))

    def last_call(self) -> str | None:
        """Return the newest call that is not undone and is not an undo itself."""
        rows = self.execute(
            "SELECT call_id FROM change WHERE status != 'undone' AND tool != 'undo' ORDER BY id DESC LIMIT 1"
        )
        return rows[0][0] if rows else None

    # The connection

    def execute(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Run one statement in autocommit mode and return all its rows."""
        with self.lock:
            return self._connect().execute(sql, [_stored(value) for value in values]).fetchall()

    def _connect(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = open_journal_db(self._folder)
            weakref.finalize(self, self._db.close)  # if `close` is never called
        return self._db

    def close(self) -> None:
        """Close the database. It opens again when needed."""
        with self.lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    before_fork = close


def open_journal_db(folder: StateFolder) -> sqlite3.Connection:
    """Open the journal's database in autocommit mode; waits up to 10 s for other processes."""
    path = folder.journal / "journal.db"
    make_private(path)  # its other files follow it
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        write_ahead(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


class TouchedPaths:
    """Absolute paths. A path is in it if it, a folder above it or something below it was added."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._above: set[str] = set()

    def add(self, paths: Iterable[str]) -> None:
        """Add paths."""
        for path in paths:
            self._paths.add(path)
            self._above.update(map(str, PurePosixPath(path).parents))

    def __contains__(self, path: object) -> bool:
        return path in self._above or any(
            str(each) in self._paths for each in (path, *PurePosixPath(str(path)).parents)
        )


class CommandChanges(Protocol):
    """Undoes and redoes the changes of commands. The package `effects` implements it."""

    def conflict(self, change: Change, newer: Container[str]) -> str | None:
        """Return why a change cannot be reversed now, but for paths in `newer`; None if it can. Raises ToolError if it
        was cleaned up."""
        ...

    def paths(self, change: Change) -> list[str]:
        """Return the absolute paths that a change has to do with. Raises ToolError if it was cleaned up."""
        ...

    def reverse(self, table: ChangeTable, workspace: WorkspacePath, change: Change, undo_id: str) -> str | None:
        """Reverse a row. Returns a line about it; None if its changes were never applied. Raises ToolError if that
        fails."""
        ...

    def restored(self, root: str, path: str, was: str, now: str) -> None:
        """Note that an undo of an edit replaced the file `was`: it is now the file `now`."""
