"""The list of changes, in one SQLite database that several processes write at the same time.

It uses WAL mode, because a row and its marks must be written completely or not at all.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from dataclasses import asdict
from typing import Any, Protocol

from ..boundary.workspace_paths import WorkspacePath
from ..core.errors import ToolError
from .change import Change
from .state import StateFolder

_SCHEMA = """
CREATE TABLE IF NOT EXISTS change (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    call_id TEXT NOT NULL, session_id TEXT, tool TEXT NOT NULL, at REAL NOT NULL, reason TEXT,
    root TEXT NOT NULL, path TEXT NOT NULL,
    before_kind TEXT NOT NULL, before_mode INTEGER, before_identity TEXT, before_sha TEXT,
    kept TEXT, kept_size INTEGER NOT NULL DEFAULT 0,
    after_kind TEXT NOT NULL, after_mode INTEGER, after_identity TEXT, after_sha TEXT,
    status TEXT NOT NULL, undoes INTEGER
);
CREATE INDEX IF NOT EXISTS change_call ON change (call_id);
CREATE INDEX IF NOT EXISTS change_path ON change (path, root);
"""


class ChangeTable:
    """The rows of all changes in a workspace, oldest first. May be used from any thread, and after a fork."""

    def __init__(self, folder: StateFolder) -> None:
        self.lock = threading.RLock()
        self._folder = folder
        self._db: sqlite3.Connection | None = None
        self._pid = 0

    # Writing

    def insert(self, change: Change) -> int:
        """Add a change and return its number. Raises ToolError if it cannot be written: then it must not be made."""
        row = asdict(change)
        del row["id"]
        sql = f"INSERT INTO change ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"  # noqa: S608
        try:
            with self.lock:
                number = self._connect().execute(sql, list(row.values())).lastrowid
        except sqlite3.Error as error:  # no undo without the journal, so the change must not be made
            raise ToolError(
                f"the journal in {self._folder.journal} cannot be written: {error}; nothing was changed"
            ) from error
        assert number is not None
        return number

    def done(self, number: int, undoes: int | None) -> None:
        """Mark a change as done; `undoes` is the row that it takes back."""
        self.execute("UPDATE change SET status = 'done' WHERE id = ?", number)
        if undoes is not None:  # if an undo is undone, the original change counts again
            self.execute(
                "UPDATE change SET status = 'done' WHERE id = (SELECT undoes FROM change WHERE id = ?)", undoes
            )

    def undone(self, number: int) -> None:
        """Mark a change as taken back, or as never made."""
        self.execute("UPDATE change SET status = 'undone' WHERE id = ?", number)

    def drop(self, number: int) -> None:
        """Delete the row of a change that was not made."""
        self.execute("DELETE FROM change WHERE id = ?", number)

    # Reading

    def of_call(self, call: str) -> list[Change]:
        """Return the changes of a call that are not undone, newest first."""
        rows = self.execute("SELECT * FROM change WHERE call_id = ? AND status != 'undone' ORDER BY id DESC", call)
        return [Change(**dict(row)) for row in rows]

    def listed(self, call_id: str | None, limit: int, session_id: str | None) -> list[Change]:
        """Return the newest changes, of one call, of one session or of all."""
        sql = (
            "SELECT * FROM change WHERE (?1 IS NULL OR call_id = ?1) AND (?2 IS NULL OR session_id = ?2)"
            " ORDER BY id DESC LIMIT ?3"
        )
        return [Change(**dict(row)) for row in self.execute(sql, call_id, session_id, limit)]

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
            return self._connect().execute(sql, values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        if self._db is None or self._pid != os.getpid():  # a connection must not be used after a fork
            self._db = open_journal_db(self._folder)
            weakref.finalize(self, self._db.close)  # if `close` is never called
            self._pid = os.getpid()
        return self._db

    def close(self) -> None:
        """Close the database. It opens again when needed."""
        with self.lock:
            if self._db is not None and self._pid == os.getpid():
                self._db.close()
            self._db = None


def open_journal_db(folder: StateFolder) -> sqlite3.Connection:
    """Open the journal's database in autocommit mode; waits up to 10 s for other processes."""
    db = sqlite3.connect(folder.journal / "journal.db", timeout=10, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


class CommandChanges(Protocol):
    """Undoes and redoes the changes of commands. The package `effects` implements it."""

    def conflict(self, change: Change) -> str | None:
        """Return why a change cannot be reversed now; None if it can. Raises ToolError if it was cleaned up."""
        ...

    def reverse(self, table: ChangeTable, workspace: WorkspacePath, change: Change, undo_id: str) -> str | None:
        """Reverse a row. Returns a line about it; None if its changes were never applied. Raises ToolError if that
        fails."""
        ...

    def restored(self, root: str, path: str, was: str, now: str) -> None:
        """Note that an undo of an edit replaced the file `was`: it is now the file `now`."""
        ...
