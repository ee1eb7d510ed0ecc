"""The audit log: one row for every call, and a committed row of intent before every call with effects.

Intent rows are committed on the caller's thread before the call runs (one autocommit INSERT, about 25 µs); if another
process holds the lock, a thread waits for it. Outcomes are written in groups, at most GROUP_SECONDS late. WAL with
`synchronous=NORMAL`: rows survive the end of the process, but the last ones may be lost in a power failure. Every row
is chained to the one before by a hash (chain.py), whichever process wrote it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from ..core.call import Call
from ..core.errors import ToolExecutionDenied
from ..core.events import CallFinished
from ..core.interfaces import Grant
from ..core.output import LABELS, Labels
from ..core.threads import shared_threads
from ..core.tool import ToolCategory
from . import chain, retention
from .approvals import use_up
from .database import connect, is_busy, naming, note, transaction, unusable
from .query import NEWEST, Select, select
from .rows import ApprovalRow, CallRow
from .settings import RecordSettings

log = logging.getLogger("toolcrib.record")

GROUP_SECONDS = 0.04
GROUP_ROWS = 250
"""Rows that are written in one transaction: an intent may have to wait for it, about 3 ms."""
LOCK_SECONDS = 10.0
"""Seconds that a call with effects waits for another process that holds the lock, before it is refused."""
MAX_ARGUMENTS = 20_000
MAX_ERROR = 500
MAX_WAITING = 50_000
"""Outcomes that wait while the file cannot be written. Above this number the oldest are lost, and the record says so
later."""
_MAX_RUNNING = 1_000
_CALL_ID, _ARGUMENTS = (chain.COLUMNS.index(name) - 1 for name in ("call_id", "arguments"))

WITHHELD = "(withheld)"
"""Replaces a text that could not be redacted."""
T = TypeVar("T")


class Audit:
    """Writes and reads the audit log in the record database. Several processes may share the file.

    The file is opened by `open`, or else by the first row that is written or read. `redact` removes secrets from
    intents; the pipeline has already removed them from outcomes.
    """

    redact: Callable[[str], str] = str

    def __init__(self, path: Path | str, keep: RecordSettings | None = None) -> None:
        self.path = Path(path)
        self._keep = keep
        self._lock = threading.Lock()  # protects the connection
        self._rows: deque[chain.Row] = deque()
        self._lost = 0
        self._running: dict[str, tuple[int, str | None]] = {}  # call id → its intent's seq and arguments
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._durable: sqlite3.Connection | None = None  # syncs every commit; opened for the first stored approval
        self._durable_lock = threading.Lock()
        self._keeper: threading.Thread | None = None
        self._head = chain.Head(0, chain.GENESIS)

    def open(self) -> Self:
        """Open the file now, and delete rows that are too old. Raises RecordError if the file cannot be used."""
        keep = self._keep
        with self._lock, naming(self.path):
            connection = self._connection
            due = keep is not None and retention.through(connection, keep) is not None
        if due:
            self._keeper = threading.Thread(target=self._retain, args=[keep], name="toolcrib-retention", daemon=True)
            self._keeper.start()
        return self

    @functools.cached_property
    def _connection(self) -> sqlite3.Connection:
        """The connection, opened at the first use, under the lock. Raises RecordError if the file cannot be used."""
        connection = connect(self.path, timeout=0)
        weakref.finalize(self, connection.close)  # if `close` is never called
        with naming(self.path):
            self._head = chain.head(connection)
        return connection

    @functools.cached_property
    def _cursor(self) -> sqlite3.Cursor:
        """The cursor for intents."""
        return self._connection.cursor()

    # --- writing

    def intent(self, request: Call, grant: Grant) -> Awaitable[None] | None:
        """Commit that this call is about to run. Raises RecordError if that is impossible: then the call must not run.

        A grant that names a stored approval uses it up in the same transaction, synced to the disk. Raises
        ToolExecutionDenied if the approval is already used up or expired.
        """
        ctx, tool, category = request.ctx, request.tool, request.tool.category
        text = request.redacted_arguments
        text = _cut(self._clean(request.text) if text is None else text)
        rule = None if grant.rule is None else self._clean(grant.rule)
        row = (  # in the order of chain.COLUMNS
            "intent", time.time(), request.call_id, tool.name, _CATEGORIES.get(category) or str(category), "allow",
            ctx.session_id, ctx.channel, text, rule, None, None, None, None, None, grant.approver, None,
            grant.approval_id,
        )  # fmt: skip
        if grant.approval_id is not None:
            return shared_threads.run(self._use_up, _writable(row), grant.approval_id)
        try:
            self._append_intent(row)
        except UnicodeEncodeError:  # invalid Unicode can only come from a host's own strings
            row = _writable(row)
            return shared_threads.run(self._insist, row)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise unusable(self.path, error) from error
            return shared_threads.run(self._insist, _writable(row))
        return None

    def _clean(self, text: str) -> str:
        try:
            return self.redact(text)
        except Exception:
            log.exception("a text could not be redacted for the record")
            return WITHHELD

    def _append_intent(self, row: chain.Row) -> None:
        with self._lock:
            try:
                cursor = self._cursor  # opens the file, which sets the head
                self._head = chain.append_next(cursor, self._head, row)
            except sqlite3.IntegrityError:  # another process, or another connection of ours, has appended
                self._append([row])
            self._remember(row, self._head[0])

    def _remember(self, row: chain.Row, seq: int) -> None:
        """Remember an intent, so that its outcome can refer to it and need not repeat the arguments."""
        if len(self._running) >= _MAX_RUNNING:  # nothing receives the outcomes; forgotten arguments are stored twice
            self._running.clear()
        self._running[row[_CALL_ID]] = (seq, row[_ARGUMENTS])

    def _append(self, rows: list[chain.Row]) -> None:
        with transaction(self._connection):
            head = chain.append(self._connection, rows)
        self._head = head

    def _insist(self, row: chain.Row) -> None:
        with naming(self.path):
            _when_free(self._append_intent, row)

    def _use_up(self, row: chain.Row, approval_id: str) -> None:
        """Write the intent and use up its approval in one transaction: both are on record, or neither."""
        with self._durable_lock, naming(self.path):
            if self._durable is None:
                self._durable = connect(self.path, durable=True, timeout=LOCK_SECONDS)
                weakref.finalize(self, self._durable.close)
            with transaction(self._durable):
                if use_up(self._durable, approval_id, str(row[_CALL_ID])) is None:
                    raise ToolExecutionDenied(f"the approval {approval_id} was used up or expired; ask again")
                head = chain.append(self._durable, [row])
        with self._lock:
            self._remember(row, head.seq)

    def listen(self, event: Any) -> None:
        """Handle an event: store the outcome of every call."""
        if type(event) is not CallFinished:
            return
        output, category = event.output, event.category
        arguments: str | None = _cut(event.arguments)
        intent, told = self._running.pop(event.call_id, _NO_INTENT)
        if told == arguments:
            arguments = None
        else:  # another call with the same id, or arguments that a hook changed
            intent = None
        rule = None if event.rule is None else self._clean(event.rule)
        error = self._clean(output.for_llm)[:MAX_ERROR] if output.is_error else None
        labels = output.labels
        duration = int(event.duration * 1e7) / 1e7  # seven decimals: hashing more costs a microsecond
        self._rows.append((
            "outcome", float(event.time), event.call_id, event.tool, _CATEGORIES.get(category) or str(category),
            event.verdict, event.session_id, event.channel, arguments, rule, duration, len(output.for_llm),
            output.error_kind or ("tool" if output.is_error else "ok"),
            None if labels is None else _LABELS.get(id(labels)) or _encoded(labels),
            intent, event.approver, error, None,
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
            except Exception as error:
                log.error("the record misses %d outcomes for now: %s", len(self._rows), error)
                time.sleep(1)
                self._wake.set()

    def flush(self) -> None:
        """Write all waiting rows now. Raises RecordError if that is impossible; the rows then stay in the queue."""
        while self._rows:
            with self._lock:
                self._flush_some()

    def _flush_some(self) -> None:
        """Write one transaction. Waiting rows are removed from the queue after the commit, so that no failure loses
        them."""
        lost = self._lost
        rows = [self._rows[i] for i in range(min(GROUP_ROWS, len(self._rows)))]
        if not rows:
            return
        if lost:
            rows.insert(0, note("lost", {"outcomes": lost}))
        try:
            try:
                _when_free(self._append, rows)
            except UnicodeEncodeError:
                _when_free(self._append, [_writable(row) for row in rows])
        except sqlite3.Error as error:
            while len(self._rows) > MAX_WAITING:
                self._rows.popleft()
                self._lost += 1
            raise unusable(self.path, error) from error
        self._lost -= lost
        for _ in range(len(rows) - bool(lost)):
            self._rows.popleft()

    def _retain(self, keep: RecordSettings) -> None:
        try:
            retention.apply(self.path, keep, stop=lambda: self._closed)
        except Exception:
            log.exception("old rows of the record at %s could not be dropped", self.path)

    def close(self) -> None:
        """Write the waiting rows and close the file. Rows that cannot be written are lost, and this is logged."""
        if self._closed:
            return
        self._closed = True
        try:
            self.flush()
        except Exception as error:
            log.error("%d outcomes are not in the record: %s", len(self._rows), error)
        finally:
            self._wake.set()
            if self._keeper is not None:
                self._keeper.join()
            with self._lock:
                if "_connection" in self.__dict__:
                    self._connection.close()
            with self._durable_lock:
                if self._durable is not None:
                    self._durable.close()

    # --- reading

    def query(self, *, limit: int = 100, after: int | None = None, **filters: Any) -> list[CallRow]:
        """Return rows, newest first (oldest first with `after`, the `seq` to continue from); `filters` are those of
        `query.select`. `kind=None` returns intents too."""
        self.flush()
        return self._calls(select(after=after, order="seq" if after is not None else NEWEST, limit=limit, **filters))

    def count(self, by: str, **filters: Any) -> list[dict[str, Any]]:
        """Return counts and durations: one row for each value of the column `by`, the most frequent first."""
        self.flush()
        return self._read(select(by=by, **filters))

    def call(self, call_id: str) -> list[CallRow]:
        """Return all rows of one call, oldest first. An outcome is found by an index; an intent without one needs a
        search."""
        rows = self.query(call_id=call_id, limit=1000)
        if not rows:
            return self.query(call_id=call_id, kind=None, after=0, limit=1000)
        for seq in {row["intent"] for row in rows if row["intent"] is not None}:
            rows += self.query(kind="intent", after=seq - 1, upto=seq)
        return sorted(rows, key=lambda row: row["seq"])

    def unfinished(self, older_than: float = 0.0) -> list[CallRow]:
        """Return intents without an outcome: calls that were interrupted by the end of a process, or that are running
        now."""
        return self.query(until=time.time() - older_than, kind="intent", unfinished=True, limit=1000)

    def rows(self, **filters: Any) -> Iterator[CallRow]:
        """Yield all matching rows, oldest first, in constant memory, as they were when the first one was requested.

        Raises RecordError if the file cannot be used.
        """
        self.flush()
        with naming(self.path), contextlib.closing(connect(self.path)) as connection:
            for row in connection.execute(*select(order="seq", **filters)):
                yield cast("CallRow", dict(row))

    def approval(self, row: CallRow) -> ApprovalRow | None:
        """Return the stored approval request that a row's call made or used, if there is one."""
        rule = row["rule"] or ""
        named = row["approval"] or rule.removeprefix("approval:")
        wanted = ("SELECT * FROM approval WHERE id = ?1 OR call_id = ?2 ORDER BY id = ?1 DESC", [named, row["call_id"]])
        return next(iter(cast("list[ApprovalRow]", self._read(wanted))), None)

    def head(self) -> chain.Head:
        """Return the end of the chain."""
        self.flush()
        with self._lock:
            return chain.head(self._connection)

    def follow(self, poll: float = 0.2, after: int | None = None, **filters: Any) -> Iterator[CallRow]:
        """Yield rows after `after` (default: the last one) as this process or others write them, without end.

        Rows are numbered in the order of their commits, so no row can appear before the last one that was seen.
        """
        seen: int = self.head().seq if after is None else after
        while True:
            end = self.head().seq
            while seen < end:
                rows = self.query(after=seen, upto=end, limit=500, **filters)
                yield from rows
                seen = rows[-1]["seq"] if len(rows) == 500 else end
            time.sleep(poll)

    def _calls(self, wanted: Select) -> list[CallRow]:
        return cast("list[CallRow]", self._read(wanted))

    def _read(self, wanted: Select) -> list[dict[str, Any]]:
        with naming(self.path), self._lock:
            return [dict(row) for row in self._connection.execute(*wanted)]


_NO_INTENT: tuple[None, str] = (None, "")


def _when_free(write: Callable[[T], None], what: T) -> None:
    """Write, and again for LOCK_SECONDS while another process holds the lock. Raises sqlite3.Error."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return write(what)
        except sqlite3.Error as error:
            if time.monotonic() > deadline or not is_busy(error):
                raise
        time.sleep(0.003)


def _encoded(labels: Labels) -> str:
    return json.dumps(labels.wire, separators=(",", ":"))


_CATEGORIES: dict[str, str] = {category: category.value for category in ToolCategory}
"""The values as plain `str`: for any other subclass of `str`, sqlite3 takes long to look for an adapter."""

_LABELS = {id(labels): _encoded(labels) for labels in LABELS.values()}
"""By identity: nearly all labels are one of these four objects, which live for ever."""


def _writable(row: chain.Row) -> chain.Row:
    """Return the row with lone surrogates escaped: SQLite accepts UTF-8 only, and one bad row must not block others."""
    return tuple(
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value for value in row
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}… [{len(text):,} characters]"
