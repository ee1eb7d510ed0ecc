"""The audit log: one row for every call, and a committed row of intent before every call with effects.

Intent rows are committed on the caller's thread before the call runs (one autocommit INSERT, about 25 µs); if another
process holds the lock, the call waits for it. Outcomes are written in groups, at most GROUP_SECONDS late. WAL with
`synchronous=NORMAL`: rows survive the end of the process, but the last ones may be lost in a power failure. Every row
is chained to the one before by a hash (chain.py), whichever process wrote it. On Postgres every commit is synced and
waits for a network, so intents are committed by a thread; each process that writes has a chain of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Self, cast

from ..core.bound import clean_id, start_of
from ..core.call import Call
from ..core.errors import ToolExecutionDenied
from ..core.events import CallFinished
from ..core.interfaces import Grant
from ..core.output import LABELS, Labels
from ..core.threads import shared_threads
from ..core.tool import ToolCategory
from . import chain, retention
from .approvals import use_up
from .audit_reader import AuditReader
from .connection import (
    LOCK_SECONDS,
    Database,
    RecordError,
    Where,
    is_busy,
    is_full,
    naming,
    transaction,
    unusable,
    when_free,
)
from .database import connect
from .forks import keep_fork_safe
from .rows import TRACEBACK
from .settings import RecordSettings

log = logging.getLogger("toolcrib.record")

GROUP_SECONDS = 0.04
GROUP_ROWS = 250
"""Rows that are written in one transaction: an intent may have to wait for it, about 3 ms."""
MAX_BEHIND = 4 * GROUP_ROWS
"""Outcomes that wait for the writer thread. Above this number who adds one writes a group: while calls never wait for
anything, the thread gets too little time, and memory would grow."""
MAX_ARGUMENTS = 20_000
MAX_ERROR = 500
MAX_WAITING = 50_000
"""Outcomes that wait while the file cannot be written. Above this number the oldest are lost, and the record says so
later."""
_MAX_RUNNING = 1_000
_SOON = 0.05
"""Seconds that the event loop may wait for a group of rows to be written, and after which it looks again."""
_CALL_ID, _ARGUMENTS = (chain.COLUMNS.index(name) - 1 for name in ("call_id", "arguments"))

WITHHELD = "(withheld)"
"""Replaces a text that could not be redacted."""


class Audit(AuditReader):
    """Writes and reads the audit log in the record database. Several processes may share it.

    The file is opened by `open`, or else by the first row that is written or read. `redact` removes secrets from
    intents; the pipeline has already removed them from outcomes.
    """

    redact: Callable[[str], str] = str

    def __init__(self, path: Where, keep: RecordSettings | None = None) -> None:
        super().__init__(path)
        self._keep = keep
        self._rows: deque[chain.Row] = deque()
        self._lost = 0
        self._told = ""  # why rows could not be written, as it was logged last
        self._running: dict[str, tuple[int, str | None]] = {}  # call id → its intent's seq and arguments
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._durable: Database | None = None  # syncs every commit; opened for the first stored approval
        self._durable_lock = threading.Lock()
        keep_fork_safe(self, self._lock, self._durable_lock)
        self._intents: deque[_Waiting] = deque()  # on Postgres: whoever gets the lock first writes all of them
        self._keeper: threading.Thread | None = None
        self._head: chain.Head | None = None
        self._tried: chain.Head | None = None  # the end after a transaction whose commit has not returned
        self._unsure: tuple[chain.Head, int, int] | None = None  # the same for outcomes: how many, how many lost ones

    def open(self) -> Self:
        """Open the file now, and delete rows that are too old. Raises RecordError if the file cannot be used.

        A full disk is only reported: calls that read run, the others are refused until a row can be written.
        """
        keep = self._keep
        try:
            with self._lock, naming(self.path):
                connection = self._connection
                due = keep is not None and retention.is_due(connection, keep)
        except RecordError as error:
            if not is_full(self.path):
                raise
            self._told = str(error)
            log.warning("%s. Until then what changes something is refused, and what reads is not recorded", error)
            return self
        if due:
            self._keeper = threading.Thread(target=self._retain, args=[keep], name="toolcrib-retention", daemon=True)
            self._keeper.start()
        return self

    @functools.cached_property
    def _cursor(self) -> Any:
        """The cursor for intents; sets the head."""
        cursor = self._connection.cursor()
        self._head = chain.head(self._connection, self._connection.chain())
        return cursor

    # --- forks

    def before_fork(self) -> None:
        """Close the connections to a file; they are opened again when needed, but not after `close`."""
        if self._shared or self._closed:
            return
        super().before_fork()
        self.__dict__.pop("_cursor", None)
        if self._durable is not None:
            self._durable.close()
            self._durable = None

    def in_child(self) -> None:
        """Forget what the parent writes, and on Postgres to which chain."""
        self.__dict__.pop("_cursor", None)
        self._thread = self._keeper = self._tried = self._unsure = None
        self._wake, self._lost = threading.Event(), 0
        for waiting in (self._rows, self._running, self._intents):
            waiting.clear()

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
        session = None if ctx.session_id is None else clean_id(ctx.session_id, self.redact)
        row = (  # in the order of chain.COLUMNS
            "intent", time.time(), request.call_id, tool.name, _CATEGORIES.get(category) or str(category), "allow",
            session, ctx.channel, text, rule, None, None, None, None, None, grant.approver, None,
            grant.approval_id,
        )  # fmt: skip
        if grant.approval_id is not None:
            return shared_threads.run(self._use_up, _writable(row), grant.approval_id)
        if self._shared:
            return shared_threads.run(self._commit_together, _Waiting(_writable(row)))
        try:
            if self._append_soon(row):
                return None
        except UnicodeEncodeError:  # invalid Unicode can only come from a host's own strings
            pass
        return self._insist(_writable(row))

    def _clean(self, text: str) -> str:
        try:
            return start_of(text, self.redact)
        except Exception:
            log.exception("a text could not be redacted for the record")
            return WITHHELD

    def _append_soon(self, row: chain.Row) -> bool:
        """Append an intent now. Returns whether it is there: another process may be in the way, or a thread that waits
        for one."""
        if not self._lock.acquire(timeout=_SOON):
            return False
        try:
            self._append_one(row)
            self._remember(row, cast("chain.Head", self._head)[0])
        except sqlite3.Error as error:
            if not is_busy(error):
                raise unusable(self.path, error) from error
            return False
        finally:
            self._lock.release()
        return True

    async def _insist(self, row: chain.Row) -> None:
        """Append an intent as soon as nobody is in the way. No thread waits for that: other calls need them."""
        deadline = time.monotonic() + LOCK_SECONDS
        while self._lock.locked() or not self._append_soon(row):
            if time.monotonic() > deadline:
                raise unusable(self.path, sqlite3.OperationalError("locked"))
            await asyncio.sleep(_SOON)

    def note(self, kind: str, said: dict[str, Any]) -> None:
        """Commit a row that is not about a call, such as what a person did. Raises RecordError if that cannot be."""
        with self._lock, naming(self.path):
            when_free(functools.partial(self._append, [_writable(chain.note(kind, said))]))

    def _append_one(self, row: chain.Row) -> None:
        """Append a row in one statement, if nobody else has appended since the last one."""
        try:
            cursor = self._cursor  # opens the record, which sets the head
            head: Any = self._head
            self._head = chain.append_next(cursor, head, row, head[0] // chain.WIDTH)
        except sqlite3.IntegrityError:  # another process, or another connection of ours, has appended
            self._append([row])

    def _remember(self, row: chain.Row, seq: int) -> None:
        """Remember an intent, so that its outcome can refer to it and need not repeat the arguments."""
        if len(self._running) >= _MAX_RUNNING:  # nothing receives the outcomes; forgotten arguments are stored twice
            self._running.clear()
        self._running[row[_CALL_ID]] = (seq, row[_ARGUMENTS])

    def _append(self, rows: list[chain.Row]) -> None:
        connection, self._tried = self._connection, None
        number = connection.chain()
        with transaction(connection):
            self._tried = chain.append(connection, rows, number)
        self._head, self._tried = self._tried, None

    def _commit_together(self, waiting: _Waiting) -> None:
        """Commit an intent with all others that wait at the same time: one commit takes as long as one of many."""
        self._intents.append(waiting)
        with self._lock, naming(self.path):
            while waiting.seq is None and waiting.error is None:
                together = [self._intents.popleft() for _ in range(min(GROUP_ROWS, len(self._intents)))]
                try:
                    if len(together) == 1:
                        when_free(functools.partial(self._append_one, together[0].row))
                    else:
                        when_free(functools.partial(self._append, [each.row for each in together]))
                except BaseException as error:
                    for each in together:
                        each.error = error
                else:
                    last = cast("chain.Head", self._head).seq
                    for seq, each in enumerate(together, last - len(together) + 1):
                        each.seq = seq
                        self._remember(each.row, seq)
            if waiting.error is not None:
                raise waiting.error

    def _use_up(self, row: chain.Row, approval_id: str) -> None:
        """Write the intent and use up its approval in one transaction: both are on record, or neither."""
        with self._lock if self._shared else self._durable_lock, naming(self.path):
            if self._shared:
                self._durable = self._connection  # every connection to Postgres syncs
            elif self._durable is None:
                self._durable = connect(self.path, durable=True, timeout=LOCK_SECONDS)
                weakref.finalize(self, self._durable.close)
            head = when_free(functools.partial(_use_up, self._durable, row, approval_id))
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
        if error is not None and output.traceback is not None:
            error = f"{error}{TRACEBACK}{self._clean(output.traceback)}"
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
        if len(self._rows) > MAX_BEHIND and not self._shared and not self._told:
            self._catch_up()

    def _catch_up(self) -> None:
        """Write one group now, if neither the thread nor another process is in the way for long."""
        if self._lock.acquire(timeout=_SOON):
            try:
                with contextlib.suppress(RecordError):  # the thread says so
                    self._flush_some(_at_once)
            finally:
                self._lock.release()

    def _write(self) -> None:
        while not self._closed:
            self._wake.wait()
            time.sleep(GROUP_SECONDS)
            self._wake.clear()
            try:
                self.flush()
                self._told = ""
            except Exception as error:
                if self._told != str(error):
                    log.error("the record misses outcomes for now: %s", error)
                self._told = str(error)
                time.sleep(1)
                self._wake.set()

    def flush(self) -> None:
        """Write all waiting rows now. Raises RecordError if that is impossible; the rows then stay in the queue."""
        while self._rows:
            with self._lock:
                self._flush_some()

    def _flush_some(self, how: Callable[[Callable[[], None]], None] = when_free) -> None:
        """Write one transaction. Waiting rows are removed from the queue after the commit, so that no failure loses
        them."""
        lost = self._lost
        rows = [self._rows[i] for i in range(min(GROUP_ROWS, len(self._rows)))]
        if not rows:
            return
        if lost:
            rows.insert(0, chain.note("lost", {"outcomes": lost}))
        try:
            if self._was_stored():
                return
            try:
                how(functools.partial(self._append, rows))
            except UnicodeEncodeError:
                how(functools.partial(self._append, [_writable(row) for row in rows]))
        except sqlite3.Error as error:
            if self._tried is not None:
                self._unsure = self._tried, len(rows) - bool(lost), lost
            while len(self._rows) > MAX_WAITING:
                self._rows.popleft()
                self._lost += 1
            raise unusable(self.path, error) from error
        self._written(len(rows) - bool(lost), lost)

    def _was_stored(self) -> bool:
        """Return whether the last outcomes are on record, though the answer to their commit was lost with the
        connection."""
        if self._unsure is None:
            return False
        head, rows, lost = self._unsure
        found = self._connection.execute("SELECT 1 FROM record WHERE seq = ? AND hash = ?", [head.seq, head.hash])
        stored, self._unsure = bool(found.fetchall()), None
        if stored:
            self._written(rows, lost)
        return stored

    def _written(self, rows: int, lost: int) -> None:
        self._lost -= lost
        for _ in range(rows):
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
            why = "" if self._told == str(error) else f": {error}"
            log.error("outcomes that are not in the record: %d%s", len(self._rows), why)
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


class _Waiting:
    """An intent that waits for its commit, and what became of it."""

    __slots__ = ("error", "row", "seq")

    def __init__(self, row: chain.Row) -> None:
        self.row = row
        self.seq: int | None = None
        self.error: BaseException | None = None


_NO_INTENT: tuple[None, str] = (None, "")


def _use_up(connection: Database, row: chain.Row, approval_id: str) -> chain.Head:
    number = connection.chain()
    with transaction(connection):
        if use_up(connection, approval_id, str(row[_CALL_ID])) is None:
            raise ToolExecutionDenied(f"the approval {approval_id} was used up or expired; ask again")
        return chain.append(connection, [row], number)


def _at_once(write: Callable[[], None]) -> None:
    write()


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
