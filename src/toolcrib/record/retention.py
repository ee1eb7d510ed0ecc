"""Limit the age and size of the record: delete its beginning so that the rest can still be verified.

First a row is appended to the chain with the number and hash of the last row to delete: verification continues from
there. Then the rows are removed in small transactions, so that other processes do not wait. If this is interrupted, the
remaining rows already count as deleted; the next run removes them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import chain
from .database import connect, note, transaction
from .settings import RecordSettings

DAY = 86_400.0
_CHUNK = 2_000
_ROOM = 0.9
"""A record that is too large is cut to this part of its limit, so that it is not cut again immediately."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The rows that were deleted, or would be."""

    rows: int = 0
    size: int = 0
    age: float = 0.0
    """Seconds since the oldest row."""


def through(connection: sqlite3.Connection, keep: RecordSettings, slack: float = DAY) -> int | None:
    """Return the last row to delete, or None. `slack` are seconds that rows may be too old, so that not every start
    deletes a few rows."""
    ends = connection.execute("SELECT min(seq), max(seq) FROM record").fetchone()
    first, last = ends[0], ends[1]
    if first is None:
        return None
    goes = max(_too_old(connection, keep, slack), _too_much(connection, keep, first, last))
    stated = chain.dropped(connection)[0]
    goes = min(max(goes, stated), last - 1)  # the last row stays: the next row is chained to it
    return goes if goes >= first else None


def _too_old(connection: sqlite3.Connection, keep: RecordSettings, slack: float) -> int:
    if not keep.keep_days:
        return 0
    oldest = connection.execute("SELECT time FROM record ORDER BY seq LIMIT 1").fetchone()[0]
    limit = time.time() - keep.keep_days * DAY
    if oldest >= limit - slack:
        return 0
    young = connection.execute("SELECT seq FROM record WHERE time >= ? ORDER BY seq LIMIT 1", [limit]).fetchone()
    return young[0] - 1 if young else 2**62


def _too_much(connection: sqlite3.Connection, keep: RecordSettings, first: int, last: int) -> int:
    used = used_bytes(connection)
    if not keep.max_bytes or used <= keep.max_bytes:
        return 0
    return first - 1 + int((last - first + 1) * (1 - _ROOM * keep.max_bytes / used))


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def apply(
    path: Path | str, keep: RecordSettings, *, slack: float = DAY, dry_run: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Dropped:  # fmt: skip
    """Delete rows over the limits, until all are deleted or `stop` returns True. Several processes may do it at
    once."""
    connection = connect(path, timeout=10)
    try:
        last = through(connection, keep, slack)
        if last is None:
            return Dropped()
        found = _measure(connection, last)
        if not dry_run:
            _state(connection, last)
            _remove(connection, last, stop)
            _old_approvals(connection, keep)
        return found
    finally:
        connection.close()


def _measure(connection: sqlite3.Connection, last: int) -> Dropped:
    first, oldest = connection.execute("SELECT seq, time FROM record ORDER BY seq LIMIT 1").fetchone()
    end = chain.head(connection).seq
    share = (last - first + 1) / (end - first + 1)
    return Dropped(last - first + 1, int(used_bytes(connection) * share), time.time() - oldest)


def _state(connection: sqlite3.Connection, last: int) -> None:
    """Append the row from which the rest is verified."""
    with transaction(connection):
        before = chain.dropped(connection)[0]
        row = connection.execute("SELECT hash FROM record WHERE seq = ?", [last]).fetchone()
        if row is not None and last > before:
            said = {"through": last, "hash": row[0].hex(), "dropped": last - before}
            chain.append(connection, [note("retention", said)])


def _remove(connection: sqlite3.Connection, last: int, stop: Callable[[], bool]) -> None:
    """Delete only rows that the record states as deleted, oldest first."""
    last = min(last, chain.dropped(connection)[0])
    while True:
        with transaction(connection):
            first = connection.execute("SELECT min(seq) FROM record").fetchone()[0]
            connection.execute("DELETE FROM record WHERE seq <= ?", [min(last, first + _CHUNK - 1)])
        connection.executescript("PRAGMA incremental_vacuum")  # frees the space; execute() would stop after one page
        if first + _CHUNK > last or stop():
            return
        time.sleep(0.005)  # gives other processes time to write


def _old_approvals(connection: sqlite3.Connection, keep: RecordSettings) -> None:
    """Delete answered and expired requests that are older than the record."""
    if keep.keep_days:
        sql = "DELETE FROM approval WHERE state NOT IN ('pending', 'approved') AND max(created, expires) < ?"
        connection.execute(sql, [time.time() - keep.keep_days * DAY])
