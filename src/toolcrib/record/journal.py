"""Remembers every change that the file tools make, before it is made, so that it can be undone.

Each change is one row: a path, how it was before (absent, file, directory or link; its mode; where its content is
kept) and how it is after. The row is there before the change, marked `pending`, and is marked `done` after it.
A crash in between leaves a pending row, and the path itself says whether the change happened.

The list is an SQLite database in WAL mode, because several processes write it at once and a row and its marks
must be all there or not at all; contents are files beside it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import secrets
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..boundary.layers.removing import remove_all
from ..boundary.places import ChangedMeanwhile, Identity, Place, identity
from ..boundary.staging import Staged
from ..boundary.workspace import Workspace
from ..core.errors import ToolcribError, ToolError
from . import layer_undo
from .layers import Held, Layers
from .moving import copy_content, move
from .state import JOURNAL_AGE, JOURNAL_QUOTA, Removal, StateFolder, folder_entries, remove_entry

Kind = Literal["absent", "file", "dir", "link"]
Status = Literal["pending", "done", "undone"]

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

_LISTED = "id, call_id, session_id, tool, at, reason, root, path, before_kind, after_kind, status, undoes, kept"

_HASH_LIMIT = 256 * 1024  # larger files are told apart by identity alone: hashing them costs more than writing them
_LINK_LIMIT = 64 * 2**20  # larger before-images are kept by a second name of the same inode where possible
_MOST_DIRECTORIES = 100  # made for one file; more are a mistake, or meant to keep us busy
_PRUNE_EVERY = 256  # changes between two looks at the quota


class UndoConflict(ToolcribError):
    """Something changed since, so undoing would lose it. `conflicts` says what; `force` undoes all the same."""

    def __init__(self, conflicts: list[str]) -> None:
        super().__init__("; ".join(conflicts) + " (nothing was undone; force undoes it all the same)")
        self.conflicts = conflicts


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
        if self.kept is not None and self.kept.startswith("layers/"):
            return "ran"
        if self.before == "absent":
            return "created"
        return "deleted" if self.after == "absent" else "changed"


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did: the call it undid, its own call id (to undo the undo), and a line for each path."""

    call_id: str
    undo_id: str
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Written:
    """A journaled write: the file's new identity, and whether it existed before."""

    identity: Identity
    existed: bool


class Journal:
    """Makes changes in a workspace and remembers how to take them back."""

    def __init__(self, folder: StateFolder, ws: Workspace, *, sync: bool = True) -> None:
        self.folder = folder
        self.ws = ws
        self._sync = sync
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._pid = 0
        self._since_prune = 0

    # Changing

    def write(
        self,
        path: str,
        data: bytes,
        *,
        call_id: str,
        tool: str = "write_file",
        session_id: str | None = None,
        mode: int | None = None,
        expect: Identity | None = None,
        must_be_new: bool = False,
        reason: str | None = None,
        undoes: int | None = None,
    ) -> Written:
        """Create or replace a file in one step; directories above it are made. `expect`: the file seen before."""
        self.mkdirs(os.path.dirname(self.ws.relative(path)) or ".", call_id=call_id, tool=tool, session_id=session_id)
        staged = self.ws.stage(path, data, mode, sync=self._sync, expect=expect, override=undoes is not None)
        kept: str | None = None
        try:
            if must_be_new and staged.before is not None:
                raise FileExistsError(17, "it exists already", staged.place.shown)
            row = self._row(staged.place, call_id, tool, session_id, reason, undoes)
            if staged.before is not None:
                kept, sha = self._keep(staged, staged.place)
                row |= _before(staged.before, sha) | {"kept": kept, "kept_size": staged.before.st_size}
            row |= {"after_kind": "file", "after_identity": _text(staged.identity), "after_sha": _sha(data)}
            number = self._insert(row)
        except BaseException:
            staged.abort()
            self._forget(kept)
            raise
        try:
            staged.commit()
        except BaseException:
            self._execute("DELETE FROM change WHERE id = ?", number)
            self._forget(kept)
            raise
        self._done(number, undoes)
        self._maybe_prune()
        return Written(staged.identity, staged.before is not None)

    def mkdirs(self, path: str, *, call_id: str, tool: str = "write_file", session_id: str | None = None) -> list[str]:
        """Make a directory and those above it, each remembered; the ones that were made."""
        made: list[str] = []
        place = self.ws.locate(path)
        if not place.parts:
            return made
        todo = self.ws.missing_parents(path)
        if todo or not self.ws.exists(path):
            todo.append(place.shown)
        if len(todo) > _MOST_DIRECTORIES:
            raise ToolError(f"{path[:80]}… needs {len(todo):,} new directories; at most {_MOST_DIRECTORIES} are made")
        for each in todo:
            row = self._row(self.ws.locate(each), call_id, tool, session_id, None, None) | {"after_kind": "dir"}
            number = self._insert(row)
            try:
                self.ws.mkdir(each)
            except FileExistsError:
                self._execute("DELETE FROM change WHERE id = ?", number)
                self.ws.mkdir(each, exist_ok=True)  # somebody else made it; refuses what is no directory
                continue
            except BaseException:
                self._execute("DELETE FROM change WHERE id = ?", number)
                raise
            st = self.ws.lstat(each)
            self._execute("UPDATE change SET after_identity = ? WHERE id = ?", _text(_dir_identity(st)), number)
            self._done(number, None)
            made.append(each)
        return made

    def move_to_trash(
        self,
        path: str,
        call_id: str,
        reason: str | None = None,
        *,
        tool: str = "exec",
        session_id: str | None = None,
        undoes: int | None = None,
    ) -> Path:
        """Move a file, link or whole directory to the trash; where it is now. Undo brings it back."""
        parent, name, place = self.ws.open_parent(path)
        try:
            st = os.lstat(name, dir_fd=parent)
            target = self.trash_path(name)
            row = self._row(place, call_id, tool, session_id, reason, undoes) | _before(st, None)
            row |= {"kept": f"trash/{target.parent.name}/{target.name}", "after_kind": "absent"}
            row["kept_size"] = st.st_size if stat.S_ISREG(st.st_mode) else 0
            number = self._insert(row)
            there = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                move(parent, name, there, target.name)
            except BaseException:
                self._execute("DELETE FROM change WHERE id = ?", number)
                remove_entry(target.parent)
                raise
            finally:
                os.close(there)
        finally:
            os.close(parent)
        self._done(number, undoes)
        self._maybe_prune()
        return target

    def trash_path(self, name: str) -> Path:
        """A fresh place in the trash for something of this name; its folder exists."""
        folder = self.folder.trash / _fresh_name()
        folder.mkdir(mode=0o700)
        return folder / name[:200]

    # Commands

    @functools.cached_property
    def layers(self) -> Layers:
        """What commands changed that ran over a layer."""
        return Layers(self.folder)

    def apply_layer(self, held: Held, *, call_id: str, tool: str = "exec", session_id: str | None = None) -> Held:
        """Apply what a command would change, as one change of this call. Raises ApplyConflict: nothing happened."""
        row = self._row(self.ws.locate("."), call_id, tool, session_id, held.command[:300], None)
        row |= layer_undo.row_of(held)
        number = self._insert(row)
        try:
            done = self.layers.apply(held.id)
        except BaseException:
            self._execute("DELETE FROM change WHERE id = ?", number)
            raise
        self._done(number, None)
        self._maybe_prune()
        return done

    def _reverse_layer(self, row: dict[str, Any], undo_id: str) -> str | None:
        held = layer_undo.held_of(self.layers, row)
        if held.state == "held":  # the process ended before it was applied
            self._execute("UPDATE change SET status = 'undone' WHERE id = ?", row["id"])
            return None
        new = self._row(self.ws.locate("."), undo_id, "undo", row["session_id"], None, row["id"])
        number = self._insert(new | layer_undo.row_of(held))
        try:
            line = layer_undo.turn(self.layers, held)
        except BaseException:
            self._execute("DELETE FROM change WHERE id = ?", number)
            raise
        self._done(number, row["id"])
        self._execute("UPDATE change SET status = 'undone' WHERE id = ?", row["id"])
        status = "undone" if held.state == "applied" else "done"  # however often it was turned round
        self._execute("UPDATE change SET status = ? WHERE kept = ? AND tool != 'undo'", status, row["kept"])
        return line

    # Looking back

    def changes(self, call_id: str | None = None, limit: int = 100, session_id: str | None = None) -> list[Change]:
        """Remembered changes, newest first."""
        where, values = ["1"], list[Any]()
        for column, value in (("call_id", call_id), ("session_id", session_id)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        rows = self._execute(
            f"SELECT {_LISTED} FROM change WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?",  # noqa: S608
            *values,
            limit,
        )
        return [Change(*row) for row in rows]

    def knows(self, call_id: str) -> bool:
        """Whether any change is remembered under this id, undone or not."""
        try:
            return bool(self._execute("SELECT 1 FROM change WHERE call_id = ? LIMIT 1", call_id))
        except sqlite3.Error:  # the change itself is refused with the words for it
            return False

    def last_call(self) -> str | None:
        """The call that `undo()` would take back: the newest that is not undone and is no undo itself."""
        rows = self._execute(
            "SELECT call_id FROM change WHERE status != 'undone' AND tool != 'undo' ORDER BY id DESC LIMIT 1"
        )
        return rows[0][0] if rows else None

    # Undoing

    def undo(self, call_id: str | None = None, *, force: bool = False) -> Undone:
        """Take back all changes of a call (default: the last one), newest first, if nothing changed since.

        UndoConflict otherwise, before anything is touched. With `force` what is there now goes to the trash or the
        journal, never away. An undo is remembered like any change: undoing its own id brings the change back.
        """
        with self._alone():
            return self._undo(call_id, force)

    def _undo(self, call_id: str | None, force: bool) -> Undone:
        call = call_id or self.last_call()
        if call is None:
            raise ToolError("there is nothing to undo")
        rows = self._rows(call)
        if not rows:
            known = self._execute("SELECT 1 FROM change WHERE call_id = ? LIMIT 1", call)
            raise ToolError(f"call {call} is undone already" if known else f"no changes of a call {call} are known")
        seen: set[tuple[str, str]] = set()
        conflicts: list[str] = []
        for row in rows:
            key = (row["root"], row["path"])
            if key not in seen:
                seen.add(key)
                problem = self._conflict(row)
                if problem:
                    conflicts.append(problem)
        if conflicts and not force:
            raise UndoConflict(conflicts)
        undo_id = f"undo-{secrets.token_hex(4)}"
        lines = [line for row in rows if (line := self._reverse(row, undo_id))]
        return Undone(call, undo_id, lines)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """One undo at a time, over all processes: two of the same call would both move the same things."""
        with self._lock, open(self.folder.journal / "journal.db-undo", "wb") as file:
            with contextlib.suppress(ImportError, OSError):  # no such locks here: then as well as it goes
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _conflict(self, row: dict[str, Any]) -> str | None:
        if layer_undo.is_layer(row):
            return layer_undo.conflict(self.layers, row)
        shown = self._shown(row)
        now = self._now(shown)
        if _matches(now, row, "after", lambda: self._sha_of(shown)):
            return None
        if row["status"] == "pending" and _matches(now, row, "before", lambda: self._sha_of(shown)):
            return None  # the process ended before it made the change
        if row["before_kind"] == "absent" and row["after_kind"] == "dir" and now is None:
            return None  # a directory it made is gone already
        if now is None:
            return f"{shown} was removed since"
        return f"{shown} was changed since"

    def _reverse(self, row: dict[str, Any], undo_id: str) -> str | None:
        if layer_undo.is_layer(row):
            return self._reverse_layer(row, undo_id)
        shown = self._shown(row)
        now = self._now(shown)
        by: dict[str, Any] = {"call_id": undo_id, "session_id": row["session_id"], "tool": "undo"}
        if row["status"] == "pending" and _matches(now, row, "before", lambda: self._sha_of(shown)):
            self._execute("UPDATE change SET status = 'undone' WHERE id = ?", row["id"])
            return None
        if row["before_kind"] == "absent":
            line = self._reverse_creation(row, shown, now, by)
        elif row["before_kind"] == "dir" and row["kept"] is None:
            line = self._make_directory(row, shown, by)
        elif str(row["kept"]).startswith("trash/"):
            line = self._reverse_removal(row, shown, now, by)
        else:
            line = self._reverse_change(row, shown, now, by)
        self._execute("UPDATE change SET status = 'undone' WHERE id = ?", row["id"])
        return line

    def _reverse_creation(
        self, row: dict[str, Any], shown: str, now: os.stat_result | None, by: dict[str, Any]
    ) -> str | None:
        if now is None:
            return None
        if row["after_kind"] == "dir" and row["undoes"] is None:  # one that was made, not a tree that came back
            return self._remove_directory(row, shown, now, by)
        self.move_to_trash(shown, by["call_id"], f"undo of {row['call_id']}", tool="undo", undoes=row["id"])
        return f"removed {shown}"

    def _remove_directory(self, row: dict[str, Any], shown: str, now: os.stat_result, by: dict[str, Any]) -> str:
        new = self._row(self.ws.locate(shown), by["call_id"], "undo", by["session_id"], None, row["id"])
        number = self._insert(new | _before(now, None) | {"after_kind": "absent"})
        try:
            self.ws.rmdir(shown)
        except OSError:
            self._execute("DELETE FROM change WHERE id = ?", number)
            return f"kept {shown}/ (not empty)"
        self._done(number, row["id"])
        return f"removed {shown}/"

    def _make_directory(self, row: dict[str, Any], shown: str, by: dict[str, Any]) -> str | None:
        self.mkdirs(shown, **by)
        self.ws.chmod(shown, row["before_mode"])
        self._same_again(row, _text(_dir_identity(self.ws.lstat(shown))))
        self._execute("UPDATE change SET status = 'done' WHERE id = ?", row["undoes"])
        return f"made {shown}/"

    def _reverse_change(
        self, row: dict[str, Any], shown: str, now: os.stat_result | None, by: dict[str, Any]
    ) -> str | None:
        data = self._kept_path(row).read_bytes()
        if now is not None and not stat.S_ISREG(now.st_mode):
            self.move_to_trash(shown, by["call_id"], "in the way of an undo", tool="undo")
        written = self.write(shown, data, mode=row["before_mode"], undoes=row["id"], **by)
        self._same_again(row, _text(written.identity))
        return f"restored {shown}"

    def _reverse_removal(
        self, row: dict[str, Any], shown: str, now: os.stat_result | None, by: dict[str, Any]
    ) -> str | None:
        if now is not None:
            self.move_to_trash(shown, by["call_id"], "in the way of an undo", tool="undo")
        self.mkdirs(os.path.dirname(shown) or ".", **by)
        source = self._kept_path(row)
        st = source.lstat()
        parent, name, place = self.ws.open_parent(shown)
        there = os.open(source.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            new = self._row(place, by["call_id"], "undo", by["session_id"], None, row["id"])
            new |= {"after_kind": _kind(st), "after_identity": _text(_identity(st)), "after_mode": st.st_mode & 0o7777}
            number = self._insert(new)
            try:
                move(there, source.name, parent, name)
            except BaseException:
                self._execute("DELETE FROM change WHERE id = ?", number)
                raise
            restored = _text(_identity(os.lstat(name, dir_fd=parent)))
        finally:
            os.close(there)
            os.close(parent)
        self._execute("UPDATE change SET after_identity = ? WHERE id = ?", restored, number)
        self._done(number, row["id"])
        self._same_again(row, restored)
        remove_entry(source.parent)
        return f"restored {shown}{'/' if stat.S_ISDIR(st.st_mode) else ''}"

    def _same_again(self, row: dict[str, Any], restored: str) -> None:
        """Earlier changes ended in the file that was just restored; it is the same file with a new inode."""
        self._execute(
            "UPDATE change SET after_identity = ? WHERE root = ? AND path = ? AND after_identity = ? AND id != ?",
            restored, row["root"], row["path"], row["before_identity"], row["id"],
        )  # fmt: skip
        self.layers.aliases.add(row["root"], row["path"], row["before_identity"], restored)

    # How a path is now

    def _shown(self, row: dict[str, Any]) -> str:
        return self.ws.relative(os.path.join(str(row["root"]), str(row["path"])))

    def _now(self, shown: str) -> os.stat_result | None:
        try:
            return self.ws.lstat(shown)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _sha_of(self, shown: str) -> str | None:
        fd = self.ws.open_read(shown)
        with open(fd, "rb") as f:
            return _sha(f.read(_HASH_LIMIT + 1))

    # Contents

    def _keep(self, staged: Staged, place: Place) -> tuple[str, str | None]:
        """Keep the content that is about to be replaced: (name below the state folder, hash of a small one)."""
        before = staged.before
        assert before is not None
        name = _fresh_name()
        target = self.folder.journal / name
        parent, own, _ = self.ws.open_parent(place.path)
        try:
            fd = os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            try:
                if identity(os.fstat(fd)) != identity(before):
                    raise ChangedMeanwhile(f"{place.shown} was changed by somebody else; read it again")
                if before.st_size > _LINK_LIMIT and self._keep_by_link(parent, own, target, before):
                    return f"journal/{name}", None
                out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    sha: str | None = None
                    if before.st_size <= _HASH_LIMIT:
                        content = _read_all(fd, before.st_size)
                        sha = _sha(content)
                        _write_all(out, content)
                    else:
                        copy_content(fd, out)
                    if os.fstat(out).st_size != before.st_size:
                        raise ChangedMeanwhile(f"{place.shown} is being changed by somebody else")
                finally:
                    os.close(out)
            finally:
                os.close(fd)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(parent)
        return f"journal/{name}", sha

    def _keep_by_link(self, parent: int, name: str, target: Path, before: os.stat_result) -> bool:
        try:
            os.link(name, target, src_dir_fd=parent, follow_symlinks=False)
        except OSError:
            return False
        if identity(target.lstat()) == identity(before):
            return True
        target.unlink()
        return False

    def _kept_path(self, row: dict[str, Any]) -> Path:
        path = self.folder.path / str(row["kept"])
        if row["kept"] is None or not os.path.lexists(path):
            raise ToolError(f"the earlier content of {row['path']} is no longer kept; it was cleaned away")
        return path

    def _forget(self, kept: str | None) -> None:
        if kept is not None:
            (self.folder.path / kept).unlink(missing_ok=True)

    # Rows

    def _row(
        self,
        place: Place,
        call_id: str,
        tool: str,
        session_id: str | None,
        reason: str | None,
        undoes: int | None,
    ) -> dict[str, Any]:
        """A row for a path that does not exist before."""
        return {
            "call_id": call_id, "session_id": session_id, "tool": tool, "at": time.time(), "reason": reason,
            "root": str(place.root.path), "path": "/".join(place.parts), "before_kind": "absent",
            "kept_size": 0, "status": "pending", "undoes": undoes,
        }  # fmt: skip

    def _insert(self, row: dict[str, Any]) -> int:
        columns = ", ".join(row)
        marks = ", ".join("?" * len(row))
        sql = f"INSERT INTO change ({columns}) VALUES ({marks})"  # noqa: S608
        try:
            with self._lock:
                number = self._connect().execute(sql, list(row.values())).lastrowid
        except sqlite3.Error as error:  # no undo without the journal, so no change either
            raise ToolError(
                f"the journal in {self.folder.journal} cannot be written: {error}; nothing was changed"
            ) from error
        assert number is not None
        return number

    def _done(self, number: int, undoes: int | None) -> None:
        self._execute("UPDATE change SET status = 'done' WHERE id = ?", number)
        if undoes is not None:  # undoing an undo makes the change it undid count again
            self._execute(
                "UPDATE change SET status = 'done' WHERE id = (SELECT undoes FROM change WHERE id = ?)", undoes
            )

    def _rows(self, call: str) -> list[dict[str, Any]]:
        with self._lock:
            cursor = self._connect().execute(
                "SELECT * FROM change WHERE call_id = ? AND status != 'undone' ORDER BY id DESC", (call,)
            )
            names = [d[0] for d in cursor.description]
            found = cursor.fetchall()
        rows: list[dict[str, Any]] = [dict(zip(names, values, strict=True)) for values in found]
        return rows

    def _execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connect().execute(sql, values).fetchall()

    def _connect(self) -> sqlite3.Connection:
        if self._db is None or self._pid != os.getpid():  # a connection must not cross a fork
            self._db = open_journal_db(self.folder)
            weakref.finalize(self, self._db.close)  # one that nobody closed
            self._pid = os.getpid()
        return self._db

    def close(self) -> None:
        """Close the database. It opens again when needed."""
        with self._lock:
            if self._db is not None and self._pid == os.getpid():
                self._db.close()
            self._db = None

    def _maybe_prune(self) -> None:
        self._since_prune += 1
        if self._since_prune >= _PRUNE_EVERY:
            self._since_prune = 0
            prune_journal(self.folder, JOURNAL_QUOTA, JOURNAL_AGE)


def open_journal_db(folder: StateFolder) -> sqlite3.Connection:
    """A connection to the journal's list, in autocommit; waits up to 10 s for other processes."""
    db = sqlite3.connect(folder.journal / "journal.db", timeout=10, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def prune_journal(folder: StateFolder, quota: int, max_age: float, *, dry_run: bool = False) -> list[Removal]:
    """Forget changes that are too old or, oldest first, over the quota, with what was kept of them."""
    if not (folder.journal / "journal.db").exists():
        return []
    now = time.time()
    layers = {f"layers/{n}": (s, t) for n, s, t in folder_entries(folder.path / "layers")}
    sizes = {f"journal/{n}": s for n, s, _ in folder_entries(folder.journal) if not n.startswith("journal.db")}
    ages = {f"journal/{n}": t for n, _, t in folder_entries(folder.journal) if not n.startswith("journal.db")}
    for name, size, changed in folder_entries(folder.trash):
        sizes[f"trash/{name}"], ages[f"trash/{name}"] = size, changed
    removed: list[Removal] = []
    db = open_journal_db(folder)
    try:
        rows = db.execute("SELECT id, at, kept FROM change ORDER BY id").fetchall()
        holders = [(number, at, _holder(kept)) for number, at, kept in rows]
        for holder in {holder for _, _, holder in holders} & layers.keys():  # others wait for an answer
            sizes[holder], ages[holder] = layers[holder]
        total = sum(sizes.values())
        for number, at, holder in holders:
            size = sizes.get(holder, 0) if holder else 0
            if now - at <= max_age and (total <= quota or size == 0):
                continue
            total -= size
            removed.append(
                Removal("trash" if holder.startswith("trash/") else "journal", f"change {number}", size, now - at)
            )
            if not dry_run:
                db.execute("DELETE FROM change WHERE id = ?", (number,))
                if holder.startswith("layers/"):
                    remove_all(folder.path / holder)
                elif holder:
                    remove_entry(folder.path / holder)
        known = {holder for _, _, holder in holders}
        for holder in sizes.keys() - known:  # left by a crash between content and row
            if now - ages[holder] > 3600:
                removed.append(Removal(holder.split("/")[0], holder, sizes[holder], now - ages[holder]))
                if not dry_run:
                    remove_entry(folder.path / holder)
    finally:
        db.close()
    return removed


def _holder(kept: str | None) -> str:
    """The entry of the state folder that holds what was kept: a trash entry is a folder of its own."""
    return "/".join(kept.split("/")[:2]) if kept else ""


def _fresh_name() -> str:
    return f"{time.time_ns():x}-{secrets.token_hex(4)}"


def _kind(st: os.stat_result) -> Kind:
    if stat.S_ISLNK(st.st_mode):
        return "link"
    return "dir" if stat.S_ISDIR(st.st_mode) else "file"


def _dir_identity(st: os.stat_result) -> Identity:
    return (st.st_dev, st.st_ino, 0, 0)


def _identity(st: os.stat_result) -> Identity:
    return _dir_identity(st) if stat.S_ISDIR(st.st_mode) else identity(st)


def _text(numbers: Iterable[int]) -> str:
    return ":".join(map(str, numbers))


def _before(st: os.stat_result, sha: str | None) -> dict[str, Any]:
    return {
        "before_kind": _kind(st), "before_mode": stat.S_IMODE(st.st_mode),
        "before_identity": _text(_identity(st)), "before_sha": sha,
    }  # fmt: skip


def _matches(now: os.stat_result | None, row: dict[str, Any], side: str, sha: Any) -> bool:
    kind: Kind = row[f"{side}_kind"]
    if now is None or kind == "absent":
        return now is None and kind == "absent"
    if _kind(now) != kind:
        return False
    if row[f"{side}_identity"] is None or _text(_identity(now)) == row[f"{side}_identity"]:
        return True
    known = row[f"{side}_sha"]
    return bool(known) and kind == "file" and now.st_size <= _HASH_LIMIT and sha() == known


def _sha(data: bytes) -> str | None:
    return hashlib.sha256(data).hexdigest() if len(data) <= _HASH_LIMIT else None


def _read_all(fd: int, size: int) -> bytes:
    parts: list[bytes] = []
    while chunk := os.read(fd, max(size, 1) + 1):
        parts.append(chunk)
    return b"".join(parts)


def _write_all(fd: int, data: bytes | Sequence[int]) -> None:
    view = memoryview(bytes(data))
    while view:
        view = view[os.write(fd, view) :]
