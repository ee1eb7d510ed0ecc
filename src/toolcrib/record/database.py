"""Open the record's database: an SQLite file, or Postgres for many machines."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Generator, Sequence
from typing import Any

from ..core.errors import ConfigError
from ..core.extras import how_to_add
from ..core.wings import absent, has_wing
from .connection import Database, Where, is_url, naming, transaction
from .forks import ForkSafe, keep_fork_safe
from .tables import STEPS


def connect(where: Where, *, durable: bool = False, timeout: float = 5.0) -> Database:
    """Open a connection that any thread may use under its owner's lock. `durable` syncs every commit, which Postgres
    does in any case.

    Raises RecordError if the record cannot be used, and ConfigError without the package for Postgres.
    """
    if not is_url(where):
        from .sqlite import open_file

        return open_file(where, durable=durable, timeout=timeout)
    connection = _on_postgres(str(where))
    try:
        connection.make_tables("record", STEPS)
    except BaseException:
        connection.close()
        raise
    return connection


def is_there(url: str) -> bool:
    """Return whether a Postgres database has a record. Makes nothing. Raises as `connect` does."""
    with contextlib.closing(_on_postgres(url)) as connection, naming(url):
        return connection.execute("SELECT to_regclass('toolcrib.part')").fetchone()[0] is not None


def is_open_to_all(url: str) -> bool:
    """Return whether every role of its server may connect to a Postgres database. Raises as `connect` does."""
    asked = "SELECT has_database_privilege('public', current_database(), 'CONNECT')"
    with contextlib.closing(_on_postgres(url)) as connection, naming(url):
        return connection.execute(asked).fetchone()[0]


def _on_postgres(url: str) -> Database:
    if not has_wing("postgres"):
        raise ConfigError(f"a record on Postgres: {absent('postgres')}")
    try:
        from .postgres import PostgresConnection
    except ModuleNotFoundError as error:
        raise ConfigError(f"a record on Postgres needs {error.name}; install it: {how_to_add('jobs')}") from None
    return PostgresConnection(url)


class RecordPart(ForkSafe):
    """A part of the record with a connection of its own, which is opened at the first use. Any thread may use it.

    `steps` make its tables (`Database.make_tables`). All methods raise RecordError if the record cannot be used.
    """

    def __init__(self, where: Where, *, part: str = "", steps: Sequence[str] = (), timeout: float = 10.0) -> None:
        self._where, self._part, self._steps, self._timeout = where, part, steps, timeout
        self._lock = threading.RLock()
        keep_fork_safe(self, self._lock)

    @functools.cached_property
    def _connection(self) -> Database:
        """The connection, used under the lock."""
        connection = connect(self._where, durable=True, timeout=self._timeout)
        weakref.finalize(self, connection.close)  # if `close` is never called
        if self._steps:
            connection.make_tables(self._part, self._steps)
        return connection

    def _run(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""
        with self._lock, naming(self._where):
            return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        """Run a transaction. Others see it completely or not at all."""
        with self._lock, naming(self._where), transaction(self._connection):
            yield

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._disconnect()

    def _disconnect(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()
            del self.__dict__["_connection"]

    def before_fork(self) -> None:
        """Close a connection to a file; it is opened again when needed. One to Postgres makes itself again."""
        if not is_url(self._where):
            self._disconnect()
