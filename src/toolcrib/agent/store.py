"""Stores sessions in the record's database: their turns, the results of calls, and messages that wait.

A turn is committed before anything happens because of it, and a result as soon as its call has ended. So a process may
end at any time, and another one goes on from the stored state. One process at a time runs a session: it holds a lock on
a file, which the system releases when the process ends.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

from ..core.errors import ToolcribError
from ..record.database import connect, naming, transaction
from ..record.state import StateFolder, private_folder
from .history import CallResult, Entry, ResultTurn, TokenUsage, UserTurn, dump, dump_result, load, load_result

State = Literal["idle", "running", "waiting", "ended"]
"""idle: it waits for a message. waiting: calls of it wait for a person. ended: it was closed."""
Kind = Literal["steer", "queue"]
"""steer: for the running turn, before its next request. queue: for after the running turn."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS agent_session (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    title TEXT NOT NULL,
    model TEXT NOT NULL,
    system TEXT NOT NULL,            -- the system prompt, the same for all requests of the session
    state TEXT NOT NULL,
    waiting TEXT NOT NULL,           -- what it waits for: JSON list
    parent TEXT,                     -- the session that it was forked from, or that spawned it
    usage TEXT NOT NULL,             -- tokens of all requests, JSON
    cost REAL,                       -- dollars of all requests with a known price
    extra TEXT NOT NULL              -- the todo list and more, JSON
);
CREATE INDEX IF NOT EXISTS agent_session_updated ON agent_session (updated);
CREATE TABLE IF NOT EXISTS agent_turn (
    session TEXT NOT NULL,
    position INTEGER NOT NULL,
    time REAL NOT NULL,
    turn TEXT NOT NULL,
    PRIMARY KEY (session, position)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent_result (  -- of calls whose turn has other calls that still run or wait
    call_id TEXT PRIMARY KEY,
    result TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS agent_message (
    seq INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    turn TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS agent_message_session ON agent_message (session, kind, seq);
CREATE TABLE IF NOT EXISTS agent_seen (  -- messages from channels that came, so that none counts twice
    key TEXT PRIMARY KEY,
    expires REAL NOT NULL
) WITHOUT ROWID;
"""


class SessionError(ToolcribError):
    """A session cannot be used: it is unknown, or another process runs it."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session as it is stored. `usage` and `cost` are those of all its requests."""

    id: str
    created: float
    updated: float
    title: str
    model: str
    system: str
    state: State
    waiting: tuple[dict[str, Any], ...]
    parent: str | None
    usage: TokenUsage
    cost: float | None
    extra: dict[str, Any]


class SessionStore:
    """All sessions of a workspace. Any thread may use it."""

    def __init__(self, state: StateFolder) -> None:
        self._path, self._locks = state.record_db, state.path / "sessions"
        self._lock = threading.RLock()

    @functools.cached_property
    def _connection(self) -> sqlite3.Connection:
        connection = connect(self._path, durable=True, timeout=10.0)
        weakref.finalize(self, connection.close)
        with transaction(connection):
            for statement in _SCHEMA.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
        return connection

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if "_connection" in self.__dict__:
                self._connection.close()
                del self.__dict__["_connection"]

    def _run(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock, naming(self._path):
            return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        with self._lock, naming(self._path), transaction(self._connection):
            yield

    # --- sessions

    def create(self, *, model: str, system: str, title: str = "", parent: str | None = None) -> SessionRow:
        """Store a new session and return it."""
        while True:
            now, session_id = time.time(), new_id()
            made = self._run(
                "INSERT INTO agent_session VALUES (?,?,?,?,?,?,'idle','[]',?,'{}',NULL,'{}')"
                " ON CONFLICT (id) DO NOTHING RETURNING id",
                session_id, now, self._used(now), title, model, system, parent,
            )  # fmt: skip
            if made:
                return self.get(session_id)

    def _used(self, now: float) -> float:
        """Return the time of a use: later than that of every other session, also where the clock was set back."""
        return max(now, (self._run("SELECT max(updated) FROM agent_session")[0][0] or 0.0) + 1e-6)

    def get(self, session_id: str) -> SessionRow:
        """Return a session by its id or the beginning of it; `last` is the one used last. Raises SessionError."""
        if session_id == "last":
            rows = self._run("SELECT * FROM agent_session WHERE parent IS NULL ORDER BY updated DESC LIMIT 1")
        else:
            rows = self._run("SELECT * FROM agent_session WHERE substr(id, 1, ?) = ?", len(session_id), session_id)
            rows = [row for row in rows if row["id"] == session_id] or rows
        if not rows:
            raise SessionError(f"there is no session {session_id!r}; `toolcrib sessions` lists them")
        if len(rows) > 1:
            found = ", ".join(row["id"] for row in rows[:5])
            raise SessionError(f"several sessions begin with {session_id!r}: {found}")
        return _session(rows[0])

    def list(self, limit: int = 50) -> list[SessionRow]:
        """Return sessions, the one used last first."""
        return [_session(r) for r in self._run("SELECT * FROM agent_session ORDER BY updated DESC LIMIT ?", limit)]

    def children(self, parent: str) -> list[SessionRow]:
        """Return the subagents of a session, oldest first."""
        return [
            _session(row) for row in self._run("SELECT * FROM agent_session WHERE parent = ? ORDER BY rowid", parent)
        ]

    def report(self, session_id: str, turn: UserTurn) -> None:
        """Send the report of a background subagent to its parent, once."""
        with self._transaction():
            row = self.get(session_id)
            if row.parent and row.extra.pop("background", None):
                self._run("UPDATE agent_session SET extra = ? WHERE id = ?", json.dumps(row.extra), session_id)
                self.send(row.parent, "steer", turn)

    def of_chat(self, channel: str, chat_id: str) -> SessionRow | None:
        """Return the newest session that was begun for a chat; None if there is none."""
        found = [row for row in self.chats(channel) if row.extra["chat"][1] == chat_id]
        return found[-1] if found else None

    def chats(self, channel: str) -> list[SessionRow]:
        """Return the sessions that were begun for chats of a channel, oldest first."""
        sql = (
            "SELECT * FROM agent_session WHERE json_extract(extra, '$.chat[0]') = ?"
            " AND json_extract(extra, '$.forked_from') IS NULL ORDER BY created, rowid"
        )
        return [_session(row) for row in self._run(sql, channel)]

    def is_first(self, key: str, until: float) -> bool:
        """Return whether a key comes for the first time, and remember it until that time (Unix seconds)."""
        self._run("DELETE FROM agent_seen WHERE expires < ?", time.time())
        return bool(self._run("INSERT OR IGNORE INTO agent_seen VALUES (?,?) RETURNING key", key, until))

    def update(self, session_id: str, **changes: Any) -> None:
        """Change columns of a session: state, waiting, title, model, system, usage, cost, extra."""
        stored = {
            name: json.dumps(value, default=vars_of) if name in ("waiting", "usage", "extra") else value
            for name, value in changes.items()
        }
        names = ", ".join(f"{name} = ?" for name in stored)
        sql = f"UPDATE agent_session SET {names}, updated = ? WHERE id = ?"  # noqa: S608
        self._run(sql, *stored.values(), self._used(time.time()), session_id)

    def set_extra(self, session_id: str, key: str, value: Any) -> None:
        """Store one entry of `extra`."""
        with self._transaction():
            extra = {**self.get(session_id).extra, key: value}
            self._run("UPDATE agent_session SET extra = ? WHERE id = ?", json.dumps(extra), session_id)

    def remove(self, session_id: str) -> None:
        """Remove a session with its turns."""
        with self._transaction():
            for table in ("agent_turn", "agent_message"):
                self._run(f"DELETE FROM {table} WHERE session = ?", session_id)  # noqa: S608
            self._run("DELETE FROM agent_result WHERE call_id GLOB ?", f"{session_id}.*")
            self._run("DELETE FROM agent_session WHERE id = ?", session_id)
        with contextlib.suppress(OSError):
            (self._locks / session_id).unlink()

    def fork(self, session_id: str, before: int | None = None) -> SessionRow:
        """Copy a session with its turns before a position, and return the copy."""
        source = self.get(session_id)
        with self._transaction():
            copy = self.create(model=source.model, system=source.system, title=source.title, parent=None)
            self._run(
                "INSERT INTO agent_turn SELECT ?, position, time, turn FROM agent_turn"
                " WHERE session = ? AND position < ?",
                copy.id, source.id, 1 << 60 if before is None else before,
            )  # fmt: skip
            self.update(copy.id, extra={**source.extra, "forked_from": source.id})
        return self.get(copy.id)

    @contextlib.contextmanager
    def running(self, session_id: str) -> Generator[None]:
        """Hold the lock of a session while it runs. Raises SessionError if another process holds it."""
        import fcntl

        private_folder(self._locks)
        fd = os.open(self._locks / session_id, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SessionError(f"the session {session_id} runs in another process") from None
            try:
                yield
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)  # a process that was just forked has the descriptor until its exec
        finally:
            os.close(fd)

    # --- turns

    def turns(self, session_id: str) -> list[Entry]:
        """Return the turns of a session, in order; a turn's index is its position."""
        rows = self._run("SELECT turn FROM agent_turn WHERE session = ? ORDER BY position", session_id)
        return [load(row["turn"]) for row in rows]

    def times(self, session_id: str) -> list[float]:
        """Return when each turn was stored, in Unix seconds."""
        rows = self._run("SELECT time FROM agent_turn WHERE session = ? ORDER BY position", session_id)
        return [row["time"] for row in rows]

    def append(self, session_id: str, position: int, turn: Entry, taken: int | None = None) -> None:
        """Store the turn at the next position. `taken` is the waiting message that became this turn."""
        with self._transaction():
            self._run("INSERT INTO agent_turn VALUES (?,?,?,?)", session_id, position, time.time(), dump(turn))
            if taken is not None:
                self._run("DELETE FROM agent_message WHERE seq = ?", taken)
            if isinstance(turn, ResultTurn):
                self._run("DELETE FROM agent_result WHERE call_id GLOB ?", f"{session_id}.*")

    def cut(self, session_id: str, position: int) -> None:
        """Remove the turns from a position on."""
        self._run("DELETE FROM agent_turn WHERE session = ? AND position >= ?", session_id, position)

    def result(self, run_id: str) -> CallResult | None:
        """Return the stored result of a call, by the id under which it ran."""
        rows = self._run("SELECT result FROM agent_result WHERE call_id = ?", run_id)
        return load_result(rows[0]["result"]) if rows else None

    def store_result(self, run_id: str, result: CallResult) -> None:
        """Store the result of a call that has ended."""
        self._run("INSERT OR REPLACE INTO agent_result VALUES (?,?)", run_id, dump_result(result))

    # --- messages that wait

    def send(self, session_id: str, kind: Kind, turn: UserTurn) -> None:
        """Store a message for a session, from any process."""
        self._run("INSERT INTO agent_message (session, kind, turn) VALUES (?,?,?)", session_id, kind, dump(turn))

    def waiting(self, session_id: str, kinds: tuple[Kind, ...]) -> tuple[int, UserTurn] | None:
        """Return the oldest waiting message of these kinds: its number and its turn."""
        marks = ",".join("?" * len(kinds))
        sql = f"SELECT seq, turn FROM agent_message WHERE session = ? AND kind IN ({marks}) ORDER BY kind DESC, seq LIMIT 1"  # noqa: S608, E501
        rows = self._run(sql, session_id, *kinds)
        turn = load(rows[0]["turn"]) if rows else None
        return (rows[0]["seq"], turn) if isinstance(turn, UserTurn) else None


def new_id() -> str:
    """Return an id for a session: the time, so that ids sort, and four random characters."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def vars_of(value: Any) -> Any:
    """Return a dataclass as a dict, for JSON."""
    import dataclasses

    return dataclasses.asdict(value)


def _session(row: sqlite3.Row) -> SessionRow:
    fields: dict[str, Any] = dict(row)
    fields["waiting"] = tuple(json.loads(row["waiting"]))
    fields["usage"] = TokenUsage(**json.loads(row["usage"]))
    fields["extra"] = json.loads(row["extra"])
    return SessionRow(**fields)
