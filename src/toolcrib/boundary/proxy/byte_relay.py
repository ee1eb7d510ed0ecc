"""Relay bytes both ways between two connections, until both end or no data moves any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .request_head import PIECE, Inbox

Read = Callable[[], Awaitable[bytes]]


class _IdleClock:
    """A clock that records when data last moved, in either direction."""

    def __init__(self, idle: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self.moved()

    def moved(self) -> None:
        self._last = self._loop.time()

    @property
    def left(self) -> float:
        """Return the seconds that the connection may still be idle."""
        return self._last + self._idle - self._loop.time()


async def relay_bytes(
    inbox: Inbox,
    client: asyncio.StreamWriter,
    reader: asyncio.StreamReader,
    server: asyncio.StreamWriter,
    idle: float,
) -> None:
    """Relay bytes from the client to the server and back. End when both sides have closed, or after `idle` seconds
    without a byte in either direction."""
    clock = _IdleClock(idle)

    async def both() -> None:
        await asyncio.gather(
            _one_way(inbox.some, server, clock),
            _one_way(lambda: reader.read(PIECE), client, clock),
        )

    task = asyncio.ensure_future(both())
    try:
        while not task.done() and clock.left > 0:
            await asyncio.wait([task], timeout=clock.left)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _one_way(read: Read, writer: asyncio.StreamWriter, clock: _IdleClock) -> None:
    """Relay one direction. A failure of one side ends this direction, like a normal end: the other side may still
    send."""
    try:
        while data := await read():
            clock.moved()
            writer.write(data)
            await writer.drain()
            clock.moved()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()
