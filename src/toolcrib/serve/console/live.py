"""Says to open pages that a record has changed, by server-sent events. A page then loads itself again."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

from ...boundary.own_files import signature
from ...core.errors import ToolcribError
from ...core.threads import shared_threads
from ...record.approvals import Approvals
from ...record.audit import Audit
from ...record.connection import Where

log = logging.getLogger("toolcrib.serve")

_Signature = tuple[int, int, int] | None

POLL_SECONDS = 0.5
MAX_PAGES = 100
"""How many pages are told of changes at once."""
BEAT_SECONDS = 15.0
"""How often a page hears something: this finds pages that have gone."""


class RecordWatch:
    """Looks for changes in records while a page is open."""

    def __init__(self, records: Callable[[], Iterable[Where]], poll: float = POLL_SECONDS) -> None:
        self._records, self._poll = records, poll
        self._changed, self._pages = asyncio.Event(), 0
        self._looking: asyncio.Task[None] | None = None
        self._shared: dict[str, tuple[Audit, Approvals]] = {}
        self._files: dict[Path, _RecordFile] = {}
        self._lock = threading.Lock()  # held while one of these two is used
        self._closed = False

    @property
    def is_full(self) -> bool:
        """Whether no further page is told of changes."""
        return self._pages >= MAX_PAGES

    async def events(self) -> AsyncGenerator[str]:
        """Yield the stream for one page."""
        self._pages += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        changed = self._changed
        try:
            yield "retry: 1000\ndata: connected\n\n"
            while not self._closed:
                if await _is_set(changed):
                    changed = self._changed
                    yield "data: changed\n\n"
                else:
                    yield ": still here\n\n"
        finally:
            self._pages -= 1
            if self._pages == 0:
                self._looking.cancel()
                self._looking = None

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._changed.set()
        with self._lock:
            for file in self._files.values():
                file.close()
            for readers in self._shared.values():
                for reader in readers:
                    reader.close()

    async def _look(self) -> None:
        seen: list[object] | None = None  # the first look counts as a change: since a page was made, there may be one
        while True:
            now = await shared_threads.run(self._state)
            if now != seen:
                seen, changed, self._changed = now, self._changed, asyncio.Event()
                changed.set()
            await asyncio.sleep(self._poll)

    def _state(self) -> list[object]:
        """Return something that is different after each change. Blocks."""
        with self._lock:
            records = list(self._records())
            for gone in self._files.keys() - set(records):
                self._files.pop(gone).close()
            return [self._state_of(record) for record in records]

    def _state_of(self, record: Where) -> object:
        if isinstance(record, Path):
            if record not in self._files:
                self._files[record] = _RecordFile(record)
            return self._files[record].state()
        try:
            if record not in self._shared:
                self._shared[record] = Audit(record), Approvals(record)
            audit, approvals = self._shared[record]
            return record, audit.heads(), [row["id"] for row in approvals.pending()]
        except ToolcribError as error:
            log.debug("a record cannot be watched", exc_info=True)
            return record, str(error)


class _RecordFile:
    """A record in an SQLite file. It is opened when it has changed for the first time: there may be hundreds."""

    def __init__(self, path: Path) -> None:
        self._path, self._first = path, _files_of(path)
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None

    def state(self) -> object:
        """Return something that is different after each transaction that can be seen now. The log of SQLite grows
        earlier, and a page that is made then would miss it."""
        now = _files_of(self._path)
        found = now[0]
        if self._connection is None and now == self._first:
            return self._path, now
        try:
            if self._connection is None or found is None or found[2] != self._inode:  # another file has its name
                self.close()
                self._connection = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
                self._inode = found and found[2]
            return self._path, self._inode, self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            self.close()
            return self._path, now, str(error)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _files_of(path: Path) -> tuple[_Signature, _Signature]:
    """Return what changes when a record or its log does. Opening a record makes an empty log, which does not count."""
    log = signature(f"{path}-wal")
    return signature(path), log if log and log[1] else None


async def _is_set(changed: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            await changed.wait()
    except TimeoutError:
        return False
    return True
