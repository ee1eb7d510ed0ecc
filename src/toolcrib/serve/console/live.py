"""Says to open pages that a record has changed, by server-sent events. A page then loads itself again."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

from ...core.errors import ToolcribError
from ...core.threads import shared_threads
from ...record.approvals import Approvals
from ...record.audit import Audit
from ...record.connection import Where

log = logging.getLogger("toolcrib.serve")

POLL_SECONDS = 0.5
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
            return record, _stamp(record), _stamp(record.with_name(f"{record.name}-wal"))
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


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return the time and size of a file; None if it is empty or missing, because opening a record makes an empty log
    and closing it removes that."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found.st_size else None
