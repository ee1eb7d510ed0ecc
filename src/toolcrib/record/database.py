"""Open the record's SQLite file, always in the same way."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ..core.errors import ToolcribError
from . import chain

SCHEMA_VERSION = 3

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,         -- without gaps; chained by hash (chain.py)
    kind TEXT NOT NULL,              -- intent: about to run; outcome: has ended; or a note: retention, lost
    time REAL NOT NULL,              -- Unix seconds: when the call came in; of an intent, when it was about to run
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    category TEXT NOT NULL,
    verdict TEXT NOT NULL,
    session_id TEXT,
    channel TEXT,
    arguments TEXT,                  -- JSON as bound, cut at MAX_ARGUMENTS characters; NULL: those of the intent
    rule TEXT,
    duration REAL,                   -- seconds, outcome only
    size INTEGER,                    -- characters of the output, outcome only
    outcome TEXT,                    -- ok or an error kind, outcome only
    labels TEXT,                     -- information-flow labels, JSON; NULL where nobody set any
    intent INTEGER,                  -- seq of the outcome's intent
    approver TEXT,
    error TEXT,                      -- the start of an error's text
    approval TEXT,                   -- the stored approval that an intent used up
    hash BLOB NOT NULL
);
-- Outcomes only: an intent is written while its call waits, and each index would cost it a page.
CREATE INDEX IF NOT EXISTS record_tool_time ON record (tool, time) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_time ON record (time) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_call ON record (call_id) WHERE kind = 'outcome';
CREATE INDEX IF NOT EXISTS record_failed ON record (outcome, time) WHERE kind = 'outcome' AND outcome <> 'ok';
CREATE INDEX IF NOT EXISTS record_notes ON record (seq) WHERE kind NOT IN ('intent', 'outcome');
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


class RecordError(ToolcribError, sqlite3.DatabaseError):
    """The record's file cannot be used. The text names it and says what to do."""


def unusable(path: Path | str, error: sqlite3.Error) -> RecordError:
    """Return the error for a record that SQLite cannot use, with a text for a person."""
    if isinstance(error, RecordError):
        return error
    said = str(error)
    if is_busy(error):
        return RecordError(f"the record {path} is locked by another process that does not let go of it")
    if "full" in said:
        return RecordError(f"the record {path} cannot be written: {said}; make room there, `toolcrib clean` helps")
    if "malformed" in said or "not a database" in said:
        return RecordError(
            f"the record {path} is damaged ({said}); to start a new one, move it away: "
            f"`mv {path} {path}.damaged && rm -f {path}-wal {path}-shm`"
        )
    return RecordError(f"the record {path} cannot be used: {said}; see that the folder is writable and not full")


@contextlib.contextmanager
def naming(path: Path | str) -> Generator[None]:
    """Raise RecordError, which names the file, for each error of SQLite within this block."""
    try:
        yield
    except RecordError:
        raise
    except sqlite3.Error as error:
        raise unusable(path, error) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the lock, so that a retry may succeed."""
    return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run a transaction that other processes see completely or not at all. Raises sqlite3.OperationalError if another
    connection holds the lock for longer than this one waits."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def connect(path: Path | str, *, durable: bool = False, timeout: float = 5.0) -> sqlite3.Connection:
    """Open a connection in WAL mode that any thread may use under its owner's lock. `durable` syncs every commit.

    Raises RecordError if the file cannot be used.
    """
    fresh = not os.path.exists(path)
    if fresh:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    # The setup waits for other processes that do the same, whatever timeout later statements have.
    with naming(path):
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
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise RecordError(
            f"the record {path} was written by another version of Toolcrib (schema {version}, this one knows "
            f"{SCHEMA_VERSION}); use that one, or move the file away"
        )
    if not version:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # counts in an empty file only
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    if not version:
        _make_tables(connection)


def note(kind: str, said: dict[str, Any]) -> chain.Row:
    """Return a row about the record itself, not about a call."""
    given = {
        "kind": kind, "time": time.time(), "call_id": "", "tool": "", "category": "", "verdict": "none",
        "arguments": json.dumps(said, separators=(",", ":")),
    }  # fmt: skip
    return tuple(given.get(column) for column in chain.COLUMNS[1:])


def _make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, in one transaction. If several processes do it at once, only the first one does."""
    with transaction(connection):
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in _SCHEMA.split(
                ";\n"
            ):  # executescript would end the transaction; comments may contain a ";"
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
