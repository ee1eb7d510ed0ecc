"""Which notifications still wait for a client? A client that does not read holds up no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable

log = logging.getLogger("toolcrib.serve")

MAX_WAITING = 1_000
"""How many notifications may wait at once. Further ones are dropped."""
PAUSE_SECONDS = 0.02
"""The pause between two rounds. A notification that is repeated during the pause is sent once."""


class Outbox:
    """A bounded queue of notifications for one session, or for the streams of one transport: in order, each once.

    If a server sends without end, or a client does not read, the memory use stays limited and other clients are not
    affected. Used on one event loop.
    """

    def __init__(self, spawn: Callable[[Awaitable[None]], object]) -> None:
        self._spawn = spawn
        self._waiting: dict[Hashable, Callable[[], Awaitable[object]]] = {}
        self._running = False
        self._left_out = 0

    def put(self, key: Hashable, send: Callable[[], Awaitable[object]]) -> None:
        """Send this when it is its turn, unless the same key is already waiting. None never counts as the same key."""
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
                    except Exception:  # the session is gone
                        log.debug("a message did not reach a client", exc_info=True)
                if self._left_out:
                    log.warning("%d messages of servers were left out: they came too fast", self._left_out)
                    self._left_out = 0
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._running = False
