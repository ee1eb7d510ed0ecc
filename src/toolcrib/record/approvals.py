"""Store pending approval requests and their answers across restarts. Every commit is synced to the disk."""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from ..core.homes import state_home
from .connection import LIVING, Database, RecordError, Where, naming
from .database import RecordPart
from .rows import SCOPES, ApprovalRow, NewApproval, Scope

KEPT_SECONDS = 90 * 86400.0
"""Seconds that answered requests are stored for inspection."""
LIVES = "lives"
"""In place of the name of a process: it has not ended. Its name says so only on its own machine."""
STAYS = "stays"
"""In place of the name of a process: what asked is stored, and goes on in any process."""
STAY_SECONDS = 1.0
"""Seconds between two looks whether a process that has asked is still connected to Postgres."""
CLOCK_SLACK = 300.0
"""A request created more than this many seconds in the future is expired: the clock was set back, so its expiry is
wrong."""


_SERVER_CLOCK = "extract(epoch FROM clock_timestamp())::double precision"
"""On Postgres, where one machine with a wrong clock must not end the questions of all."""
_COMMON_KEY = "CREATE TABLE IF NOT EXISTS common_key (id BIGINT PRIMARY KEY, secret BLOB NOT NULL)"
_HERE = "(workspace = ?2 OR workspace IS NULL OR ?2 IS NULL)"
"""The condition for requests of one workspace: on Postgres all workspaces share the table."""


def use_up(connection: Database, request_id: str, run: str) -> ApprovalRow | None:
    """Use up an approval for the run with the call id `run`. Returns the row of the request; None if there is no such
    approval."""
    sql = (
        "UPDATE approval SET state='used', run=?2, run_time=?3 WHERE id=?1 AND state='approved' AND expires > ?3"
        " RETURNING *"
    )
    rows = connection.execute(sql, [request_id, run, time.time()]).fetchall()
    return cast("ApprovalRow", dict(rows[0])) if rows else None


def local_records() -> list[Path]:
    """Return the records of all workspaces on this machine that are files."""
    return sorted(state_home().glob("*/record.db"))


@contextmanager
def find_request(request_id: str, records: Iterable[Where]) -> Generator[tuple[Approvals, ApprovalRow] | None]:
    """Find a request in any of these records: ids are random, so the id is enough."""
    for record in dict.fromkeys(records):
        with closing(Approvals(record)) as approvals:
            row = approvals.get(request_id)
            if row is not None:
                yield approvals, row
                return
    yield None


class Approvals(RecordPart):
    """Requests by id in the record database. Any process may answer them; one run uses up an approval."""

    def __init__(self, path: Where) -> None:
        super().__init__(path, timeout=5.0)
        self._asked = False  # whether this process has stored a request
        self._staying: threading.Event | None = None  # set at the end of the thread that keeps the connection

    def add(self, row: NewApproval) -> None:
        """Store a request, and delete those that were answered or expired long ago."""
        sql = "DELETE FROM approval WHERE state IN ('used', 'denied', 'expired') AND created < ?"
        self._run(sql, time.time() - KEPT_SECONDS)
        self._asked = True
        given = {column: row.get(column) for column in NewApproval.__annotations__ if row.get(column) is not None}
        if (process := row.get("process")) is not None:
            given["process"] = self._asker(process)
            with self._lock:
                if self._connection.shared and self._staying is None:
                    self._staying = threading.Event()
                    given_to = [weakref.ref(self), self._staying]
                    threading.Thread(target=_stay, args=given_to, name="toolcrib-asker", daemon=True).start()
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
        return self._run("SELECT * FROM approval WHERE state = 'pending' ORDER BY created, id")

    def count_pending(self) -> int:
        """Return how many requests wait for an answer."""
        self._expire()
        return len(self._run("SELECT id FROM approval WHERE state = 'pending'"))

    def of_call(self, digest: str, workspace: str | None = None) -> list[ApprovalRow]:
        """Return the requests and answers about exactly one call in a workspace (None: in any), oldest first: waiting
        requests, unused approvals, and denials that no caller has received yet."""
        self._expire()
        sql = (
            "SELECT * FROM approval WHERE digest=?1 AND (state IN ('pending', 'approved') OR"  # noqa: S608
            f" (state='denied' AND expires > ?3)) AND {_HERE} ORDER BY created, id"
        )
        rows = self._run(sql, digest, workspace, time.time())
        if self._connection.shared and any(row["process"] for row in rows):
            living = {name for row in super()._run(LIVING) for name in row}
            for row in rows:  # of a process that may be on another machine only the record knows
                asker = (row["process"] or "").rpartition("\n")[2]
                row["process"] = LIVES if asker in living or asker == STAYS else None
        return rows

    def _asker(self, process: str) -> str:
        """Return the name of a process, on Postgres with the name of the connection that shows that it lives."""
        with self._lock, naming(self._where):
            shared = self._connection.shared and process != STAYS
            return f"{process}\n{self._connection.holder}" if shared else process

    def open_of(self, call_id: str, workspace: str | None = None) -> list[ApprovalRow]:
        """Return the requests of the call with this id in a workspace (None: in any) that wait, or whose yes was not
        used yet, newest first. Hosts choose such ids: those of other workspaces may have the same."""
        self._expire()
        open_ = f"call_id=?1 AND state IN ('pending', 'approved') AND {_HERE}"
        return self._run(f"SELECT * FROM approval WHERE {open_} ORDER BY created DESC", call_id, workspace)  # noqa: S608

    def open_callers(self, workspace: str | None = None) -> list[str]:
        """Return the callers of the requests that wait for an answer in a workspace (None: in any)."""
        here = "(workspace = ?1 OR workspace IS NULL OR ?1 IS NULL)"
        sql = f"SELECT caller FROM approval WHERE state='pending' AND caller IS NOT NULL AND {here} LIMIT 10000"  # noqa: S608
        return [row["caller"] or "" for row in self._run(sql, workspace)]

    def cut_off(self, digest: str, workspace: str | None = None) -> ApprovalRow | None:
        """Return the approval that the latest run of exactly this call in a workspace (None: in any) used, if no
        outcome of that run is on record.

        The run was interrupted, or is still in progress. Runs from before the record's oldest row are unknown and not
        reported.
        """
        sql = (
            "SELECT * FROM (SELECT * FROM approval WHERE digest=?1 AND state='used' AND run IS NOT NULL"  # noqa: S608
            f" AND {_HERE}"
            " ORDER BY run_time DESC LIMIT 1) AS latest WHERE NOT EXISTS"
            " (SELECT 1 FROM record WHERE kind='outcome' AND call_id=run)"
            " AND run_time >= (SELECT time FROM record ORDER BY seq LIMIT 1)"
        )
        return self._one(sql, digest, workspace)

    def common_key(self) -> bytes:
        """Return a secret of 32 bytes that all servers with this record have, made by the first one."""
        with self._lock:
            self._connection.make_tables("common key", [_COMMON_KEY])
            insert = "INSERT INTO common_key VALUES (1, ?) ON CONFLICT (id) DO NOTHING"
            self._connection.execute(insert, [secrets.token_bytes(32)])
            return bytes(self._connection.execute("SELECT secret FROM common_key").fetchall()[0][0])

    def waiting_job(self, request_id: str) -> str | None:
        """Return the job that is parked until this request is answered; None if there is none."""
        with suppress(RecordError):  # the table is made when the first job is parked
            row = self._one("SELECT job FROM job_wait WHERE key = ?", f"approval:{request_id}")
            return None if row is None else cast("dict[str, str]", row)["job"]
        return None

    def recent(self, limit: int = 50, *, answered: bool = False) -> list[ApprovalRow]:
        """Return the latest requests in any state, or only those that do not wait any more, newest first."""
        self._expire()
        but = "pending" if answered else ""
        return self._run("SELECT * FROM approval WHERE state != ? ORDER BY created DESC LIMIT ?", but, limit)

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
        if self._asked:
            where = "process=?1 AND (session_id=?2 OR ?2 IS NULL) AND state IN ('pending', 'approved', 'denied')"
            self._update("process=NULL", where, self._asker(process), session_id)

    def expire(self, request_id: str) -> None:
        """End a request whose call does not run any more, also one with a yes that was not used."""
        self._run("UPDATE approval SET state='expired' WHERE id=? AND state IN ('pending', 'approved')", request_id)

    def close(self) -> None:
        """Close the connection: on Postgres, others see that this process has ended."""
        with self._lock:
            if self._staying is not None:
                self._staying.set()
                self._staying = None
            super().close()

    def in_child(self) -> None:
        """Forget the parent's thread and requests."""
        self._asked, self._staying = False, None

    def _expire(self) -> None:
        with self._lock, naming(self._where):
            shared = self._connection.shared
        now, values = (_SERVER_CLOCK, []) if shared else ("?2", [time.time()])
        over = f"state IN ('pending', 'approved') AND (expires < {now} OR created > {now} + ?1)"
        self._update("state='expired'", over, CLOCK_SLACK, *values)

    def _update(self, change: str, where: str, *values: Any) -> None:
        """Change the rows that match, and take the lock for writing only if there are any."""
        if self._run(f"SELECT 1 FROM approval WHERE {where} LIMIT 1", *values):  # noqa: S608
            self._run(f"UPDATE approval SET {change} WHERE {where}", *values)  # noqa: S608

    def _run(self, sql: str, *values: Any) -> list[ApprovalRow]:
        return [cast("ApprovalRow", dict(row)) for row in super()._run(sql, *values)]

    def _one(self, sql: str, *values: Any) -> ApprovalRow | None:
        return next(iter(self._run(sql, *values)), None)

    def stay(self) -> None:
        """Connect again if the connection was lost: what a process asked is not for others while it lives."""
        with self._lock, suppress(sqlite3.Error):
            if "_connection" in self.__dict__:
                self._connection.execute("SELECT 1")


def _stay(store: weakref.ref[Approvals], over: threading.Event) -> None:
    while not over.wait(STAY_SECONDS) and (found := store()) is not None:
        found.stay()
        del found
