"""Pending approval requests and their answers, kept across restarts. Every commit is synced to the disk."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .database import connect

SCOPES = ("once", "session", "rule")


class Approvals:
    """Requests by id in the record database. Any process may answer them; a yes is used up by one run."""

    def __init__(self, path: Path | str) -> None:
        self._connection = connect(path, durable=True)
        weakref.finalize(self, self._connection.close)  # one that nobody closed
        self._lock = threading.Lock()

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a request. `row` has the columns of the table but those of the answer; times are Unix seconds."""
        columns = (
            "id", "call_id", "tool", "category", "arguments", "preview", "reason", "rule", "digest", "session_id",
            "created", "expires",
        )  # fmt: skip
        sql = f"INSERT INTO approval ({','.join(columns)}, state) VALUES ({','.join('?' * len(columns))}, 'pending')"  # noqa: S608
        with self._lock:
            self._connection.execute(sql, [row.get(column) for column in columns])

    def get(self, request_id: str) -> dict[str, Any] | None:
        """One request, or None."""
        self._expire()
        with self._lock:
            row = self._connection.execute("SELECT * FROM approval WHERE id = ?", [request_id]).fetchone()
        return dict(row) if row else None

    def pending(self, digest: str | None = None) -> list[dict[str, Any]]:
        """Requests that wait for an answer, oldest first; with `digest`, those for exactly that call."""
        self._expire()
        sql = "SELECT * FROM approval WHERE state = 'pending' AND (?1 IS NULL OR digest = ?1) ORDER BY created"
        with self._lock:
            return [dict(row) for row in self._connection.execute(sql, [digest])]

    def recent(self, limit: int = 50) -> list[dict[str, Any]]:
        """The latest requests in any state, newest first."""
        self._expire()
        with self._lock:
            rows = self._connection.execute("SELECT * FROM approval ORDER BY created DESC LIMIT ?", [limit])
            return [dict(row) for row in rows]

    def resolve(
        self,
        request_id: str,
        approve: bool,
        *,
        approver: str | None,
        reason: str = "",
        arguments: Mapping[str, Any] | None = None,
        scope: str = "once",
    ) -> bool:
        """Answer a pending request; False where it is not pending any more. `arguments` replace the request's own."""
        if scope not in SCOPES:
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}, got {scope!r}")
        self._expire()
        edited = json.dumps(dict(arguments)) if arguments is not None and approve else None
        sql = "UPDATE approval SET state=?, approver=?, answer=?, edited=?, scope=? WHERE id=? AND state='pending'"
        state = "approved" if approve else "denied"
        with self._lock:
            cursor = self._connection.execute(sql, [state, approver, reason, edited, scope, request_id])
            return cursor.rowcount == 1

    def consume(self, digest: str, request_id: str | None = None) -> dict[str, Any] | None:
        """Use up a yes for exactly this call: the row it was given in, or None. Only one caller ever gets it."""
        self._expire()
        sql = (
            "UPDATE approval SET state='used' WHERE id = (SELECT id FROM approval WHERE digest=?1 AND state='approved'"
            " AND (?2 IS NULL OR id=?2) ORDER BY created LIMIT 1) AND state='approved' RETURNING *"
        )
        with self._lock:
            rows = self._connection.execute(sql, [digest, request_id]).fetchall()
        return dict(rows[0]) if rows else None

    def refusal(self, digest: str, request_id: str | None = None) -> dict[str, Any] | None:
        """A person's no to exactly this call that its caller was not told yet; from now on it counts as told."""
        sql = (
            "UPDATE approval SET expires=?3 WHERE digest=?1 AND state='denied' AND expires > ?3"
            " AND (?2 IS NULL OR id=?2) RETURNING *"
        )
        with self._lock:
            rows = self._connection.execute(sql, [digest, request_id, time.time()]).fetchall()
        return dict(max(rows, key=lambda row: row["created"])) if rows else None

    def expire(self, request_id: str) -> None:
        """End a pending request without an answer."""
        with self._lock:
            self._connection.execute("UPDATE approval SET state='expired' WHERE id=? AND state='pending'", [request_id])

    def _expire(self) -> None:
        sql = "UPDATE approval SET state='expired' WHERE state IN ('pending', 'approved') AND expires < ?"
        with self._lock:
            if self._connection.execute(
                "SELECT 1 FROM approval WHERE state IN ('pending','approved') AND expires < ? LIMIT 1", [time.time()]
            ).fetchone():
                self._connection.execute(sql, [time.time()])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
