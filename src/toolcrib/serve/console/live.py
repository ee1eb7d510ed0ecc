"""Says to open pages that a record has changed, by server-sent events. A page then loads itself again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

from ...boundary.own_files import signature
from ...core.errors import ToolcribError
from ...core.threads import shared_threads
from ...record.approvals import Approvals
from ...record.audit import Audit
from ...record.connection import Where

log = logging.getLogger("toolcrib.serve")

POLL_SECONDS = 0.5
_HEADER, _FRAMES = 48, slice(16, 20)
"""The size of that header, and where it has the number of frames in the log (https://sqlite.org/walformat.html)."""
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
        return [self._state_of(record) for record in self._records()]

    def _state_of(self, record: Where) -> object:
        if isinstance(record, Path):
            return record, signature(record), _committed(record.with_name(f"{record.name}-shm"))
        try:
            if record not in self._shared:
                self._shared[record] = Audit(record), Approvals(record)
            audit, approvals = self._shared[record]
            return record, audit.heads(), [row["id"] for row in approvals.pending()]
        except ToolcribError as error:
            log.debug("a record cannot be watched", exc_info=True)
            return record, str(error)


async def _is_set(changed: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            await changed.wait()
    except TimeoutError:
        return False
    return True


def _committed(path: Path) -> bytes | None:
    """Return the header of the index of SQLite's log. It changes when a transaction can be seen; the log itself grows
    earlier, and a page that is made then would miss it. None if the log is empty, because opening a record makes an
    empty one and closing it removes that."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except OSError:
        return None
    return header if len(header) == _HEADER and any(header[_FRAMES]) else None
