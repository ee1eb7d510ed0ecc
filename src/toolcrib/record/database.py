"""The record's SQLite file: one connection a thread would ask for, opened the same way everywhere."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,              -- intent: about to run; outcome: has ended
    time REAL NOT NULL,              -- Unix seconds: when the call came in
    call_id TEXT NOT NULL,
    session_id TEXT,
    channel TEXT,
    tool TEXT NOT NULL,
    category TEXT NOT NULL,
    arguments TEXT NOT NULL,         -- JSON as bound, cut at MAX_ARGUMENTS characters
    verdict TEXT NOT NULL,
    rule TEXT,
    approver TEXT,
    duration REAL,                   -- seconds, outcome only
    size INTEGER,                    -- characters of the output, outcome only
    outcome TEXT,                    -- ok or an error kind, outcome only
    error TEXT,                      -- the start of an error's text
    labels TEXT                      -- information-flow labels, JSON; NULL until policy sets them
);
-- Outcomes only: an intent is written while its call waits, and each index would cost it a page.
CREATE INDEX IF NOT EXISTS record_tool_time ON record (tool, time) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_call ON record (call_id) WHERE kind = 'outcome';
CREATE TABLE IF NOT EXISTS approval (
    id TEXT PRIMARY KEY,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    category TEXT NOT NULL,
    arguments TEXT NOT NULL,
    preview TEXT NOT NULL,
    reason TEXT NOT NULL,
    rule TEXT,
    digest TEXT NOT NULL,            -- SHA-256 of tool and canonical arguments: what a yes is bound to
    session_id TEXT,
    state TEXT NOT NULL,             -- pending, approved, denied, expired, used
    created REAL NOT NULL,
    expires REAL NOT NULL,
    approver TEXT,
    answer TEXT,                     -- the person's reason
    edited TEXT,                     -- arguments the person changed, JSON
    scope TEXT NOT NULL DEFAULT 'once',
    asked_by TEXT,                   -- what asks whatever rules allow; NULL where `rule` would allow the call
    scopes TEXT NOT NULL DEFAULT 'once session',  -- how far a yes may reach
    workspace TEXT,                  -- the folder it was asked for: where a rule would hold
    caller TEXT,                     -- channel, chat, sender and agent that asked, JSON
    process TEXT,                    -- the process that asked; NULL once its session has ended
    run TEXT,                        -- the call that used the yes up, and when
    run_time REAL
);
CREATE INDEX IF NOT EXISTS approval_digest ON approval (digest, state);
"""

_ADDED = {
    "approval": {  # with version 2
        "asked_by": "TEXT", "scopes": "TEXT NOT NULL DEFAULT 'once session'", "workspace": "TEXT", "caller": "TEXT",
        "process": "TEXT", "run": "TEXT", "run_time": "REAL",
    },
}  # fmt: skip
"""Columns that tables of an older version lack."""


def connect(path: Path | str, *, durable: bool = False, timeout: float = 5.0) -> sqlite3.Connection:
    """A connection in WAL mode that any thread may use under its owner's lock. `durable` syncs every commit."""
    fresh = not os.path.exists(path)
    if fresh:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    # Setting up waits for other processes that do the same, whatever is waited for later.
    connection = sqlite3.connect(path, timeout=max(timeout, 10.0), isolation_level=None, check_same_thread=False)
    try:
        _set_up(connection, path, durable)
        connection.execute(f"PRAGMA busy_timeout={int(timeout * 1000)}")
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, path: Path | str, durable: bool) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"{path} was written by a newer version (schema {version} > {SCHEMA_VERSION})")
    if version < SCHEMA_VERSION:
        _add_columns(connection)
        connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT;")


def _add_columns(connection: sqlite3.Connection) -> None:
    """Bring tables of an older version up to this one. Of several processes that do it at once, the first one does."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table, columns in _ADDED.items():
            known = {row["name"] for row in connection.execute(f"PRAGMA table_info({table})")}
            for name, kind in columns.items():
                if known and name not in known:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
