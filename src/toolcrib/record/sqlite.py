"""A connection to a record in an SQLite file, always set up in the same way."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..boundary.own_files import make_private
from .connection import PARTS, RecordError, naming, run_steps, statements, transaction
from .tables import SCHEMA, SCHEMA_VERSION


class SqliteConnection(sqlite3.Connection):
    """A connection to an SQLite file, as `Database` describes it."""

    shared = False
    holder = ""

    def begin(self) -> None:
        """Begin a transaction that writes: take the lock."""
        self.execute("BEGIN IMMEDIATE")

    def snapshot(self) -> None:
        """Begin a transaction that reads."""
        self.execute("BEGIN")

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Return the rows as they are read."""
        return self.execute(sql, values)

    def make_tables(self, part: str, steps: Sequence[str]) -> None:
        """Make the tables of a part, or bring them to this version. Raises RecordError if they are of a later one."""
        known = self.execute("SELECT 1 FROM sqlite_master WHERE name = 'part'").fetchall()
        if not known or run_steps(self, part, steps, dry_run=True):
            with transaction(self):
                self.execute(PARTS)
                run_steps(self, part, steps)

    def chain(self) -> int:
        """Return the only chain."""
        return 0

    def used_bytes(self) -> int:
        """Return the bytes of the file that are in use, without the requests: who makes large ones must not push
        audit rows out."""
        pages, free, size = (
            self.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        texts = "length(CAST(arguments AS BLOB)) + length(CAST(preview AS BLOB)) + coalesce(length(edited), 0)"
        requests = self.execute(f"SELECT coalesce(sum({texts}), 0) FROM approval").fetchone()[0]  # noqa: S608
        return (pages - free) * size - requests

    def shrink(self) -> None:
        """Give back the space of deleted rows to the file system."""
        self.executescript("PRAGMA incremental_vacuum")  # execute() would stop after one page


def open_file(path: Path | str, *, durable: bool, timeout: float) -> SqliteConnection:
    """Open a connection in WAL mode. `durable` syncs every commit. Raises RecordError if the file cannot be used."""
    make_private(path)
    # The setup waits for other processes that do the same, whatever timeout later statements have.
    with naming(path):
        connection = sqlite3.connect(
            path, timeout=max(timeout, 10.0), isolation_level=None, check_same_thread=False, factory=SqliteConnection
        )
        try:
            _set_up(connection, path, durable)
            connection.execute(f"PRAGMA busy_timeout={int(timeout * 1000)}")
        except BaseException:
            connection.close()
            raise
    return connection


def write_ahead(connection: sqlite3.Connection, seconds: float = 10.0) -> None:
    """Put a database into WAL mode. SQLite does not wait here for a process that does the same, whatever its timeout.
    Raises sqlite3.OperationalError after so many seconds."""
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.005)


def _set_up(connection: SqliteConnection, path: Path | str, durable: bool) -> None:
    connection.row_factory = sqlite3.Row
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise RecordError(
            f"the record {path} was written by another version of Toolcrib (schema {version}, this one knows "
            f"{SCHEMA_VERSION}); use that one, or move the file away"
        )
    if not version:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # counts in an empty file only
    write_ahead(connection)
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    if not version:
        _make_record(connection)


def _make_record(connection: SqliteConnection) -> None:
    """Make the tables, in one transaction. If several processes do it at once, only the first one does."""
    with transaction(connection):
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in statements(SCHEMA):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
