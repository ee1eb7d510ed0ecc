"""A bounded queue of notifications for one client: in order, and each of them once.

A server that talks without end, and a client that does not read, cost a fixed amount of memory and no other client
anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable

log = logging.getLogger("toolcrib.serve")

MAX_WAITING = 1_000
"""What may wait at once; what comes when there is no room is left out."""
PAUSE_SECONDS = 0.02
"""Between two rounds. A notification that comes again meanwhile is sent once."""

Send = Callable[[], Awaitable[object]]


class Outbox:
    """For one session, or one transport's streams. Used on one event loop."""

    def __init__(self, spawn: Callable[[Awaitable[None]], object]) -> None:
        self._spawn = spawn
        self._waiting: dict[Hashable, Send] = {}
        self._running = False
        self._left_out = 0

    def put(self, key: Hashable, send: Send) -> None:
        """Tell this once it is its turn, unless the same key waits already; None is a key of its own each time."""
        key = object() if key is None else key
        if key in self._waiting:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._left_out += 1
            return
        self._waiting[key] = send
        if not self._running:
            self._running = True
            self._spawn(self._drain())

    async def _drain(self) -> None:
        try:
            while self._waiting:
                for key in tuple(self._waiting):
                    send = self._waiting.pop(key)
                    try:
                        await send()
                    except Exception:  # a session that has gone
                        log.debug("a message did not reach a client", exc_info=True)
                if self._left_out:
                    log.warning("%d messages of servers were left out: they came too fast", self._left_out)
                    self._left_out = 0
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._running = False
