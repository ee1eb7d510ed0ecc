"""What the record needs of a database, and the errors of one. SQLite and Postgres speak the same statements here.

Values are marked by `?`, or by `?1`, `?2` where one is used twice. `LIKE` ignores case, `glob(pattern, text)` does not.
Rows are read by position or by name.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..core.errors import ToolcribError

LOCK_SECONDS = 10.0
"""Seconds that a call with effects waits for another process that holds the lock, before it is refused."""

_LITTLE_ROOM = 256 * 1024  # bytes; a database, its log and its index begin with less

Where = Path | str
"""A record: the path of a file, or the address of a Postgres database."""

T = TypeVar("T")


def is_url(where: Where) -> bool:
    """Return whether this names a Postgres database."""
    return isinstance(where, str) and where.startswith(("postgresql://", "postgres://"))


def shown(where: Where) -> str:
    """Return a record's name for a person: an address without its user, password and options."""
    if not is_url(where):
        return str(where)
    from urllib.parse import urlsplit

    parts = urlsplit(str(where))
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


class RecordError(ToolcribError, sqlite3.DatabaseError):
    """The record cannot be used. The text names it and says what to do."""


class Rows(Protocol):
    """The rows that a statement returns."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection that any thread may use under its owner's lock. All methods raise sqlite3.Error."""

    shared: bool
    """Whether other machines write to it too: a statement waits for a network, and several chains are written."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    @property
    def holder(self) -> str:
        """The name of this connection among LIVING, also after it was made again. Empty for a file."""
        ...

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Run a statement, committed at once if no transaction is open."""
        ...

    def cursor(self) -> Any:
        """Return what runs statements a little faster, where there is such a thing."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each of several rows of values."""

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield the rows of a statement in constant memory. Close the iterator before the next statement."""
        ...

    def begin(self) -> None:
        """Begin a transaction that writes."""

    def snapshot(self) -> None:
        """Begin a transaction that reads the database as it is now."""

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Undo the transaction."""

    def make_tables(self, part: str, steps: Sequence[str]) -> None:
        """Make the tables of a part, or bring them to the version of the last step. Several processes may do it at
        once. Step n makes version n from the one before; the first one must do nothing where the tables exist."""

    def chain(self) -> int:
        """Return the chain of audit rows that this connection appends to, taken at the first use."""
        ...

    def used_bytes(self) -> int:
        """Return the bytes that the audit rows take."""
        ...

    def shrink(self) -> None:
        """Give back the space of deleted rows."""

    def close(self) -> None:
        """Close the connection."""


@contextlib.contextmanager
def transaction(connection: Database) -> Generator[None]:
    """Run a transaction that other processes see completely or not at all. Raises sqlite3.OperationalError if another
    connection holds the lock for longer than this one waits."""
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise


def statements(text: str) -> list[str]:
    """Return the statements of a script, which end with `;` at the end of a line; comments may contain a `;`."""
    return [each for each in text.split(";\n") if each.strip()]


PARTS = "CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY, version INTEGER NOT NULL)"
"""The table of the versions of all other tables."""

LIVING = "SELECT concat(usesysid, ' ', application_name) FROM pg_stat_get_activity(NULL)"
"""On Postgres, the names of all connections that have not ended. No role can have a name of another one's. The answer
does not change within a transaction, so who waits for a lock must not ask before it has it."""


def run_steps(
    connection: Database, part: str, steps: Sequence[str], run: Callable[[str], object] | None = None, *,
    dry_run: bool = False,
) -> bool:  # fmt: skip
    """Run the steps to the last version that are still missing; return whether there are any. Raises RecordError if the
    tables are of a later version."""
    row = connection.execute("SELECT version FROM part WHERE name = ?", [part]).fetchone()
    version = row[0] if row else 0
    if version > len(steps):
        raise RecordError(
            f"the tables of {part} were written by another version of Toolcrib (schema {version}, this one knows "
            f"{len(steps)}); use that one, or another database"
        )
    if version == len(steps) or dry_run:
        return version < len(steps)
    for step in steps[version:]:
        for statement in statements(step):
            (run or connection.execute)(statement)
    sql = "INSERT INTO part VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version"
    connection.execute(sql, [part, len(steps)])
    return True


def unusable(path: Where, error: sqlite3.Error) -> RecordError:
    """Return the error for a record that SQLite cannot use, with a text for a person."""
    if isinstance(error, RecordError):
        return error
    path, said = shown(path), str(error)
    if is_busy(error):
        return RecordError(f"the record {path} is locked by another process that does not let go of it")
    if "closed database" in said:
        return RecordError(f"the record {path} is closed: make calls before the toolbox is closed")
    if "full" in said:
        return RecordError(f"the record {path} cannot be written: {said}; make room there, `toolcrib clean` helps")
    if "malformed" in said or "not a database" in said:
        return RecordError(
            f"the record {path} is damaged ({said}); to start a new one, move it away: "
            f"`mv {path} {path}.damaged && rm -f {path}-wal {path}-shm`"
        )
    return RecordError(f"the record {path} cannot be used: {said}; see that the folder is writable and not full")


@contextlib.contextmanager
def naming(path: Where) -> Generator[None]:
    """Raise RecordError, which names the record, for each error of a database within this block."""
    try:
        yield
    except RecordError:
        raise
    except sqlite3.Error as error:
        raise unusable(path, error) from error


def is_full(path: Where) -> bool:
    """Return whether the disk of a record has no room left, whatever error that caused."""
    if is_url(path) or not hasattr(os, "statvfs"):
        return False
    try:
        found = os.statvfs(Path(path).parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _LITTLE_ROOM


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection was in the way, so that a retry may succeed: it holds the lock, or it has
    written the same row first."""
    if isinstance(error, sqlite3.IntegrityError):
        return "UNIQUE" in str(error)
    return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


def when_free(write: Callable[[], T]) -> T:
    """Write, and again for LOCK_SECONDS while another process is in the way. Raises sqlite3.Error."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return write()
        except sqlite3.Error as error:
            if time.monotonic() > deadline or not is_busy(error):
                raise
        time.sleep(0.003)
