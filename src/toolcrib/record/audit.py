"""The audit log: a row for every call, and before every call with effects a committed row of intent.

Intent rows are committed on the caller's thread before the call runs (one autocommit INSERT, about 20 µs); where
another process holds the lock, a thread waits for it. Outcomes are written in groups, at most GROUP_SECONDS late.
WAL with `synchronous=NORMAL`: rows survive the end of the process, the last ones may not survive a power cut.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

from ..core.authorize import CallRequest, Grant
from ..core.errors import ToolExecutionDenied
from ..core.events import CallFinished
from ..core.threads import shared_threads
from .database import connect

log = logging.getLogger("toolcrib.record")

GROUP_SECONDS = 0.04
MAX_ARGUMENTS = 20_000
MAX_ERROR = 500

_INSERT = (
    "INSERT INTO record (kind, time, call_id, session_id, channel, tool, category, arguments, verdict, rule, approver,"
    " duration, size, outcome, error) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)


class Audit:
    """Writes and reads the audit log in the record database. Several processes may share the file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._connection = connect(path, timeout=0)
        weakref.finalize(self, self._connection.close)  # one that nobody closed
        self._lock = threading.Lock()
        self._rows: deque[tuple[Any, ...]] = deque()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._durable: sqlite3.Connection | None = None  # syncs every commit; opened for the first stored approval
        self._durable_lock = threading.Lock()

    # --- writing

    def intent(self, request: CallRequest, grant: Grant) -> Awaitable[None] | None:
        """Commit that this call is about to run. Raises where that is impossible: then it must not run.

        A grant that names a stored approval uses it up in the same transaction, synced to the disk; one that is used
        up or expired already raises ToolExecutionDenied.
        """
        ctx = request.ctx
        row = (
            "intent", time.time(), request.call_id, ctx.session_id, ctx.channel, request.tool.name,
            str(request.tool.category), _cut(request.text), "allow", grant.rule, grant.approver, None, None, None, None,
        )  # fmt: skip
        if grant.approval_id is not None:
            return shared_threads.run(self._use_up, {"row": _writable(row), "approval_id": grant.approval_id})
        try:
            with self._lock:
                self._connection.execute(_INSERT, row)
        except UnicodeEncodeError:  # text that is no Unicode comes in by a host's own strings only
            with self._lock:
                self._connection.execute(_INSERT, _writable(row))
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            return shared_threads.run(self._insist, {"row": _writable(row)})
        return None

    def _insist(self, row: tuple[Any, ...]) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                with self._lock:
                    self._connection.execute(_INSERT, row)
                return
            except sqlite3.OperationalError as error:
                if time.monotonic() > deadline or ("locked" not in str(error) and "busy" not in str(error)):
                    raise
            time.sleep(0.005)

    def _use_up(self, row: tuple[Any, ...], approval_id: str) -> None:
        """The intent and the end of the yes it rests on, as one: neither is ever there without the other."""
        with self._durable_lock:
            if self._durable is None:
                self._durable = connect(self.path, durable=True, timeout=10)
                weakref.finalize(self, self._durable.close)
            connection = self._durable
            connection.execute("BEGIN IMMEDIATE")
            try:
                used = connection.execute(
                    "UPDATE approval SET state='used', run=?2, run_time=?3 WHERE id=?1 AND state='approved'"
                    " AND expires > ?3",
                    [approval_id, row[2], time.time()],
                )
                if used.rowcount != 1:
                    raise ToolExecutionDenied(f"the approval {approval_id} was used up or expired; ask again")
                connection.execute(_INSERT, row)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def listen(self, event: Any) -> None:
        """An event listener: keeps the outcome of every call."""
        if type(event) is not CallFinished:
            return
        output = event.output
        self._rows.append((
            "outcome", event.time, event.call_id, event.session_id, event.channel, event.tool, event.category,
            _cut(event.arguments), event.verdict, event.rule, event.approver, event.duration, len(output.for_llm),
            output.error_kind or ("tool" if output.is_error else "ok"),
            output.for_llm[:MAX_ERROR] if output.is_error else None,
        ))  # fmt: skip
        if not self._wake.is_set():
            self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="toolcrib-record", daemon=True)
                self._thread.start()

    def _write(self) -> None:
        while not self._closed:
            self._wake.wait()
            time.sleep(GROUP_SECONDS)
            self._wake.clear()
            try:
                self.flush()
            except Exception:
                log.exception("the record at %s could not be written; %d rows wait", self.path, len(self._rows))
                time.sleep(1)
                self._wake.set()

    def flush(self) -> None:
        """Write all waiting rows now."""
        with self._lock:
            rows: list[tuple[Any, ...]] = []
            while self._rows:
                rows.append(_writable(self._rows.popleft()))
            if not rows:
                return
            try:
                self._begin()
                self._connection.executemany(_INSERT, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._rows.extendleft(reversed(rows))
                raise

    def _begin(self) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if time.monotonic() > deadline or ("locked" not in str(error) and "busy" not in str(error)):
                    raise
            time.sleep(0.002)

    def close(self) -> None:
        """Write what waits and close the file."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        finally:
            self._wake.set()
            with self._lock:
                self._connection.close()
            with self._durable_lock:
                if self._durable is not None:
                    self._durable.close()

    # --- reading

    def query(
        self,
        *,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
        outcome: str | None = None,
        session_id: str | None = None,
        call_id: str | None = None,
        after: int | None = None,
        limit: int = 100,
        kind: str | None = "outcome",
    ) -> list[dict[str, Any]]:
        """Rows, newest first (oldest first with `after`, a `seq` to go on from). `kind=None` gives intents too."""
        self.flush()
        clauses: list[str] = []
        values: list[Any] = []
        if kind == "outcome":  # a literal: the indexes cover outcomes, and a parameter could be anything
            clauses.append("kind = 'outcome'")
            kind = None
        for text, value in (
            ("kind = ?", kind), ("tool = ?", tool), ("time >= ?", since), ("time <= ?", until),
            ("outcome = ?", outcome), ("session_id = ?", session_id), ("call_id = ?", call_id), ("seq > ?", after),
        ):  # fmt: skip
            if value is not None:
                clauses.append(text)
                values.append(value)
        where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
        order = "seq ASC" if after is not None else ("time DESC, seq DESC" if tool else "seq DESC")
        sql = f"SELECT * FROM record {where} ORDER BY {order} LIMIT ?"  # noqa: S608 (clauses are constants)
        with self._lock:
            return [dict(row) for row in self._connection.execute(sql, [*values, limit])]

    def unfinished(self, older_than: float = 0.0) -> list[dict[str, Any]]:
        """Intents without an outcome: calls cut off by the end of a process, or running now."""
        self.flush()
        sql = (
            "SELECT * FROM record i WHERE kind='intent' AND time < ? AND NOT EXISTS "
            "(SELECT 1 FROM record o WHERE o.call_id = i.call_id AND o.kind = 'outcome') ORDER BY seq DESC LIMIT 1000"
        )
        with self._lock:
            return [dict(row) for row in self._connection.execute(sql, [time.time() - older_than])]

    def follow(self, poll: float = 0.2, **filters: Any) -> Iterator[dict[str, Any]]:
        """Rows as they are written, by this process or others, for ever."""
        newest = self.query(limit=1, kind=None)
        after: int = newest[0]["seq"] if newest else 0
        while True:
            rows = self.query(after=after, **filters)
            yield from rows
            after = rows[-1]["seq"] if rows else after
            if not rows:
                time.sleep(poll)


def _writable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with lone surrogates escaped: SQLite takes UTF-8 only, and one such row must not keep others out."""
    return tuple(value.encode("utf-8", "backslashreplace").decode() if type(value) is str else value for value in row)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}… [{len(text):,} characters]"
