"""Read the audit log: calls by what they were, counts, and new calls as they come."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, cast

from . import chain
from .connection import Database, Where, is_url, naming
from .database import connect
from .forks import ForkSafe, keep_fork_safe
from .query import NEWEST, Select, select
from .rows import ApprovalRow, CallRow


class AuditReader(ForkSafe):
    """Reads the audit log in the record database, on a connection that is opened at the first use."""

    def __init__(self, path: Where) -> None:
        self.path = path
        self._shared = is_url(path)
        self._lock = threading.Lock()  # protects the connection
        keep_fork_safe(self, self._lock)

    @functools.cached_property
    def _connection(self) -> Database:
        """The connection, opened at the first use, under the lock. Raises RecordError if the record cannot be used."""
        connection = connect(self.path, timeout=0)
        weakref.finalize(self, connection.close)  # if `close` is never called
        return connection

    def before_fork(self) -> None:
        """Close the connection to a file; it is opened again when needed. One to Postgres makes itself again."""
        if not self._shared and "_connection" in self.__dict__:
            self._connection.close()
            del self.__dict__["_connection"]

    def flush(self) -> None:
        """Write what waits, so that it is read."""

    def query(self, *, limit: int = 100, after: int | None = None, **filters: Any) -> list[CallRow]:
        """Return rows, newest first (oldest first with `after`, the `seq` to continue from); `filters` are those of
        `query.select`. `kind=None` returns intents too."""
        self.flush()
        order = "seq" if after is not None else "time" if self._shared else NEWEST
        return self._calls(select(after=after, order=order, limit=limit, **filters))

    def page(self, before: tuple[float, int] | None = None, limit: int = 50, **filters: Any) -> list[CallRow]:
        """Return the next rows after this time and number, newest first by their time."""
        self.flush()
        return self._calls(select(before=before, order="time", limit=limit, **filters))

    def count(self, by: str, **filters: Any) -> list[dict[str, Any]]:
        """Return counts and durations: one row for each value of the column `by`, the most frequent first."""
        self.flush()
        return [dict(row) for row in self._read(select(by=by, **filters))]

    def call(self, call_id: str) -> list[CallRow]:
        """Return all rows of one call, oldest first. An outcome is found by an index; an intent without one needs a
        search."""
        rows = self.query(call_id=call_id, limit=1000)
        if not rows:
            return self.query(call_id=call_id, kind=None, after=0, limit=1000)
        for seq in {row["intent"] for row in rows if row["intent"] is not None}:
            rows += self.query(kind="intent", after=seq - 1, upto=seq)
        return sorted(rows, key=lambda row: row["seq"])

    def rows(self, **filters: Any) -> Iterator[CallRow]:
        """Yield all matching rows, oldest first (on Postgres chain by chain), in constant memory, as they were when the
        first one was requested.

        Raises RecordError if the record cannot be used.
        """
        self.flush()
        with naming(self.path), contextlib.closing(connect(self.path)) as connection:
            for row in connection.stream(*select(order="seq", **filters)):
                yield _call_row(row)

    def untrusted(self, session_id: str) -> list[str]:
        """Return the ids of a session's calls whose results are untrusted, as far as they are stored."""
        sql = "SELECT call_id FROM record WHERE kind = 'outcome' AND session_id = ? AND labels LIKE ?"
        return [row["call_id"] for row in self._read((sql, [session_id, '%"untrusted"%']))]

    def approval(self, row: CallRow) -> ApprovalRow | None:
        """Return the stored approval request that a row's call made or used, if there is one."""
        rule = row["rule"] or ""
        named = row["approval"] or rule.removeprefix("approval:")
        wanted = ("SELECT * FROM approval WHERE id = ?1 OR call_id = ?2 ORDER BY id = ?1 DESC", [named, row["call_id"]])
        return next((cast("ApprovalRow", dict(found)) for found in self._read(wanted)), None)

    def heads(self) -> list[chain.Head]:
        """Return the ends of all chains; a file has one."""
        self.flush()
        with naming(self.path), self._lock:
            connection = self._connection
            return [chain.head(connection, number) for number in range(chain.count(connection))]

    def follow(self, poll: float = 0.2, after: Sequence[chain.Head] | None = None, **filters: Any) -> Iterator[CallRow]:
        """Yield rows after these ends of chains (None: the present ones) as this process or others write them, without
        end.

        The rows of a chain are numbered in the order of their commits, so no row can appear before the last one that
        was seen.
        """
        seen = {head.seq // chain.WIDTH: head.seq for head in (self.heads() if after is None else after)}
        while True:
            for number, (end, _) in enumerate(self.heads()):
                last = seen.get(number, number * chain.WIDTH)
                while last < end:
                    rows = self.query(after=last, upto=end, limit=500, **filters)
                    yield from rows
                    last = rows[-1]["seq"] if len(rows) == 500 else end
                seen[number] = last
            time.sleep(poll)

    def _calls(self, wanted: Select) -> list[CallRow]:
        return [_call_row(row) for row in self._read(wanted)]

    def _read(self, wanted: Select) -> list[Any]:
        with naming(self.path), self._lock:
            return list(self._connection.stream(*wanted))


def plain_row(row: CallRow) -> dict[str, Any]:
    """Return a row with its arguments and labels as data, where they are complete."""
    return {**row, "arguments": plain_data(row["arguments"] or "{}"), "labels": plain_data(row["labels"])}


def plain_data(text: str | None) -> Any:
    """Return what a column contains as JSON; the text itself if it was cut off or withheld."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _call_row(row: Any) -> CallRow:
    found: dict[str, Any] = dict(row)
    found["hash"] = found["hash"].hex()
    return cast("CallRow", found)
