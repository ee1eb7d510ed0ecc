"""Store pending approval requests and their answers across restarts. Every commit is synced to the disk."""

from __future__ import annotations

import functools
import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from .database import connect
from .rows import SCOPES, ApprovalRow, NewApproval, Scope

KEPT_SECONDS = 90 * 86400.0
"""Seconds that answered requests are stored for inspection."""
CLOCK_SLACK = 300.0
"""A request created more than this many seconds in the future is expired: the clock was set back, so its expiry is
wrong."""


def use_up(connection: sqlite3.Connection, request_id: str, run: str) -> ApprovalRow | None:
    """Use up an approval for the run with the call id `run`. Returns the row of the request; None if there is no such
    approval."""
    sql = (
        "UPDATE approval SET state='used', run=?2, run_time=?3 WHERE id=?1 AND state='approved' AND expires > ?3"
        " RETURNING *"
    )
    rows = connection.execute(sql, [request_id, run, time.time()]).fetchall()
    return cast("ApprovalRow", dict(rows[0])) if rows else None


class Approvals:
    """Requests by id in the record database. Any process may answer them; one run uses up an approval."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._lock = threading.Lock()

    @functools.cached_property
    def _connection(self) -> sqlite3.Connection:
        """The connection, opened at the first use, under the lock. Raises RecordError if the file cannot be used."""
        connection = connect(self._path, durable=True)
        weakref.finalize(self, connection.close)  # if `close` is never called
        return connection

    def add(self, row: NewApproval) -> None:
        """Store a request, and delete those that were answered or expired long ago."""
        sql = "DELETE FROM approval WHERE state IN ('used', 'denied', 'expired') AND created < ?"
        self._run(sql, time.time() - KEPT_SECONDS)
        given = {column: row.get(column) for column in NewApproval.__annotations__ if row.get(column) is not None}
        sql = f"INSERT INTO approval ({','.join(given)}, state) VALUES ({','.join('?' * len(given))}, 'pending')"  # noqa: S608
        self._run(sql, *given.values())

    def get(self, request_id: str) -> ApprovalRow | None:
        """Return one request, or None."""
        if not request_id.isascii():  # a person may have typed it; a lone surrogate would be an error in SQLite
            return None
        self._expire()
        return self._one("SELECT * FROM approval WHERE id = ?", request_id)

    def pending(self) -> list[ApprovalRow]:
        """Return requests that wait for an answer, oldest first."""
        self._expire()
        return self._run("SELECT * FROM approval WHERE state = 'pending' ORDER BY created, rowid")

    def of_call(self, digest: str) -> list[ApprovalRow]:
        """Return the requests and answers about exactly one call, oldest first: waiting requests, unused approvals, and
        denials that no caller has received yet."""
        self._expire()
        sql = (
            "SELECT * FROM approval WHERE digest=?1 AND (state IN ('pending', 'approved') OR"
            " (state='denied' AND expires > ?2)) ORDER BY created, rowid"
        )
        return self._run(sql, digest, time.time())

    def cut_off(self, digest: str) -> ApprovalRow | None:
        """Return the approval that the latest run of exactly this call used, if no outcome of that run is on record.

        The run was interrupted, or is still in progress. Runs from before the record's oldest row are unknown and not
        reported.
        """
        sql = (
            "SELECT * FROM (SELECT * FROM approval WHERE digest=? AND state='used' AND run IS NOT NULL"
            " ORDER BY run_time DESC LIMIT 1) WHERE NOT EXISTS"
            " (SELECT 1 FROM record WHERE kind='outcome' AND call_id=run)"
            " AND run_time >= (SELECT time FROM record ORDER BY seq LIMIT 1)"
        )
        return self._one(sql, digest)

    def recent(self, limit: int = 50) -> list[ApprovalRow]:
        """Return the latest requests in any state, newest first."""
        self._expire()
        return self._run("SELECT * FROM approval ORDER BY created DESC LIMIT ?", limit)

    def resolve(
        self,
        request_id: str,
        approve: bool,
        *,
        approver: str | None,
        reason: str = "",
        arguments: Mapping[str, Any] | None = None,
        scope: Scope = "once",
    ) -> bool:
        """Answer a pending request, or take back an unused approval. Returns False if the request is in neither state
        any more.

        `arguments` replace the request's own.
        """
        if scope not in SCOPES:
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}, got {scope!r}")
        self._expire()
        edited = json.dumps(dict(arguments)) if arguments is not None and approve else None
        sql = (
            "UPDATE approval SET state=?1, approver=?2, answer=?3, edited=?4, scope=?5 WHERE id=?6"
            " AND (state='pending' OR (state='approved' AND ?1='denied')) RETURNING *"
        )
        state = "approved" if approve else "denied"
        return self._one(sql, state, approver, reason, edited, scope, request_id) is not None

    def consume(self, request_id: str, run: str) -> ApprovalRow | None:
        """Use up an approval for one run with the call id `run`. Returns its row, or None. Only one caller gets it."""
        self._expire()
        with self._lock:
            return use_up(self._connection, request_id, run)

    def refusal(self, request_id: str) -> ApprovalRow | None:
        """Return a denial that its caller has not received yet, and mark it as received."""
        sql = "UPDATE approval SET expires=?2 WHERE id=?1 AND state='denied' AND expires > ?2 RETURNING *"
        return self._one(sql, request_id, time.time())

    def release(self, process: str, session_id: str | None = None) -> None:
        """Make the requests of a process, in one session or in all, available to the next session of the same
        caller."""
        if "_connection" in self.__dict__:  # otherwise this process has stored no request
            where = "process=?1 AND (?2 IS NULL OR session_id=?2) AND state IN ('pending', 'approved', 'denied')"
            self._update("process=NULL", where, process, session_id)

    def expire(self, request_id: str) -> None:
        """End a pending request without an answer."""
        self._run("UPDATE approval SET state='expired' WHERE id=? AND state='pending'", request_id)

    def _expire(self) -> None:
        over = "state IN ('pending', 'approved') AND (expires < ?1 OR created > ?1 + ?2)"
        self._update("state='expired'", over, time.time(), CLOCK_SLACK)

    def _update(self, change: str, where: str, *values: Any) -> None:
        """Change the rows that match, and take the lock for writing only if there are any."""
        if self._run(f"SELECT 1 FROM approval WHERE {where} LIMIT 1", *values):  # noqa: S608
            self._run(f"UPDATE approval SET {change} WHERE {where}", *values)  # noqa: S608

    def _run(self, sql: str, *values: Any) -> list[ApprovalRow]:
        with self._lock:
            return [cast("ApprovalRow", dict(row)) for row in self._connection.execute(sql, values)]

    def _one(self, sql: str, *values: Any) -> ApprovalRow | None:
        return next(iter(self._run(sql, *values)), None)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if "_connection" in self.__dict__:
                self._connection.close()
