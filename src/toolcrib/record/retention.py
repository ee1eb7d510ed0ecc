"""Limit the age and size of the record: delete its beginning so that the rest can still be verified.

First a row is appended to the chain with the number and hash of the last row to delete: verification continues from
there. Then the rows are removed in small transactions, so that other processes do not wait. If this is interrupted, the
remaining rows already count as deleted; the next run removes them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from ..core.dataclass import dataclass
from . import chain
from .connection import Database, Where, transaction, when_free
from .database import connect
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


def through(
    connection: Database, keep: RecordSettings, slack: float = DAY, number: int = 0, used: int | None = None
) -> int | None:
    """Return the last row of a chain to delete, or None. `slack` are seconds that rows may be too old, so that not
    every start deletes a few rows. `used` are the bytes that the record takes, if that is known."""
    within = chain.bounds(number)
    found = connection.execute(
        "SELECT seq, time FROM record WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT 1", within
    ).fetchone()
    if found is None:
        return None
    first, oldest = found  # in one statement: another process may drop this row now
    last = chain.head(connection, number).seq
    used = connection.used_bytes() if used is None else used
    goes = max(_too_old(connection, keep, slack, first, last, oldest), _too_much(keep, used, first, last))
    stated = chain.dropped(connection, number)[0]
    goes = min(max(goes, stated), last - 1)  # the last row stays: the next row is chained to it
    return goes if goes >= first else None


def is_due(connection: Database, keep: RecordSettings) -> bool:
    """Return whether there is anything to delete."""
    used = connection.used_bytes()
    numbers = range(chain.count(connection))
    return any(through(connection, keep, DAY, number, used) is not None for number in numbers)


def _too_old(connection: Database, keep: RecordSettings, slack: float, first: int, last: int, oldest: float) -> int:
    if not keep.keep_days:
        return first - 1
    limit = time.time() - keep.keep_days * DAY
    if oldest >= limit - slack:
        return first - 1
    young = "SELECT seq FROM record WHERE seq BETWEEN ? AND ? AND time >= ? ORDER BY seq LIMIT 1"
    row = connection.execute(young, [first, last, limit]).fetchone()
    return row[0] - 1 if row else last


def _too_much(keep: RecordSettings, used: int, first: int, last: int) -> int:
    if not keep.max_bytes or used <= keep.max_bytes:
        return first - 1
    return first - 1 + int((last - first + 1) * (1 - _ROOM * keep.max_bytes / used))


def apply(
    where: Where, keep: RecordSettings, *, slack: float = DAY, dry_run: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Dropped:  # fmt: skip
    """Delete rows over the limits, until all are deleted or `stop` returns True. Several processes may do it at
    once."""
    connection = connect(where, timeout=10)
    try:
        found, used = Dropped(), connection.used_bytes()
        for number in range(chain.count(connection)):
            last = through(connection, keep, slack, number, used)
            if last is None:
                continue
            part = _measure(connection, last, number, used)
            found = Dropped(found.rows + part.rows, found.size + part.size, max(found.age, part.age))
            if not dry_run:
                when_free(functools.partial(_state, connection, last, number))
                _remove(connection, last, number, stop)
        if found.rows and not dry_run:
            _old_approvals(connection, keep)
        return found
    finally:
        connection.close()


def _measure(connection: Database, last: int, number: int, used: int) -> Dropped:
    first_row = "SELECT seq, time FROM record WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT 1"
    first, oldest = connection.execute(first_row, chain.bounds(number)).fetchone()
    numbers = range(chain.count(connection))
    rows = sum(chain.head(connection, each).seq - chain.dropped(connection, each)[0] for each in numbers)
    count = max(last - first + 1, 0)  # another process may have dropped them since
    return Dropped(count, int(used * count / max(rows, 1)), time.time() - oldest)


def _state(connection: Database, last: int, number: int) -> None:
    """Append the row from which the rest is verified."""
    with transaction(connection):
        before = chain.dropped(connection, number)[0]
        row = connection.execute("SELECT hash FROM record WHERE seq = ?", [last]).fetchone()
        if row is not None and last > before:
            said = {"through": last, "hash": row[0].hex(), "dropped": last - before}
            chain.append(connection, [chain.note("retention", said)], number)


def _remove(connection: Database, last: int, number: int, stop: Callable[[], bool]) -> None:
    """Delete only rows that the record states as deleted, oldest first."""
    last = min(last, chain.dropped(connection, number)[0])
    low = chain.bounds(number)[0]
    while True:
        with transaction(connection):
            first = connection.execute("SELECT min(seq) FROM record WHERE seq >= ?", [low]).fetchone()[0]
            upto = min(last, first + _CHUNK - 1)
            connection.execute("DELETE FROM record WHERE seq BETWEEN ? AND ?", [low, upto])
        connection.shrink()
        if first + _CHUNK > last or stop():
            return
        time.sleep(0.005)  # gives other processes time to write


def _old_approvals(connection: Database, keep: RecordSettings) -> None:
    """Delete answered and expired requests that are older than the record."""
    if keep.keep_days:
        sql = "DELETE FROM approval WHERE state NOT IN ('pending', 'approved') AND created < ?1 AND expires < ?1"
        connection.execute(sql, [time.time() - keep.keep_days * DAY])
