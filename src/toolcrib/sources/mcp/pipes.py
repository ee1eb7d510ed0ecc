"""The two streams that the SDK's session reads from and writes to, straight on the pipes of a server's process.

In the place of memory streams with a task at the other end of each: those cost a quarter of what is ours of a call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import anyio
from mcp.shared.message import SessionMessage

from ...boundary.lines import Lines, LineTooLong
from .streams import ReadStream, from_line, to_line

MAX_LINE = 64 * 2**20
"""A longer message ends the connection, in bytes."""
MAX_HELD = 2**19
"""So many bytes of messages wait to be read; then the pipe is left alone until half of them were."""
TURNS = 16
"""After so many messages without a pause others on the loop get their turn."""


class IncomingMessages(ReadStream, asyncio.Protocol):
    """Messages of a pipe, as the SDK's `ReadStream`. `answered` once there was one.

    `rubbish` gets lines that are none, `too_long` the beginning of a message that is longer than MAX_LINE.
    """

    def __init__(self, rubbish: Callable[[bytes], None], too_long: Callable[[bytes], None]) -> None:
        self._rubbish, self._too_long = rubbish, too_long
        self._lines = Lines(MAX_LINE)
        self._waiting: deque[bytes] = deque()
        self._held = self._turn = 0
        self._wanted: asyncio.Future[None] | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._paused = self._ended = self._closed = False
        self.answered = False

    # --- the pipe's end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        if self._ended or self._closed:  # still read, so that a server that prints can end
            return
        try:
            lines = self._lines.feed(data)
        except LineTooLong:
            self._too_long(self._lines.rest())
            self.end()
            return
        self._waiting.extend(lines)
        self._held += sum(map(len, lines))
        if self._held > MAX_HELD and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if lines:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._paused = True  # it cannot be read on
        self.end()

    def end(self) -> None:
        """Nothing more will come; what came can still be read."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    # --- the session's end

    async def receive(self) -> SessionMessage:
        """The next message. Raises EndOfStream after the last, ClosedResourceError once this is closed."""
        while True:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._waiting:
                message = self._next()
                if message is None:
                    continue
                self._turn = (self._turn + 1) % TURNS
                if not self._turn:
                    await asyncio.sleep(0)
                return message
            if self._ended:
                raise anyio.EndOfStream
            self._turn = 0
            self._wanted = asyncio.get_running_loop().create_future()
            await self._wanted

    def _next(self) -> SessionMessage | None:
        line = self._waiting.popleft()
        self._held -= len(line)
        if self._paused and self._held < MAX_HELD // 2 and not self._ended and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        try:
            message = from_line(line)
        except ValueError:
            self._rubbish(line)
            return None
        self.answered = True
        return message

    def close(self) -> None:
        """Whoever read has gone: what still comes is thrown away."""
        self._closed = True
        self._waiting.clear()
        self._held = 0
        if self._paused and not self._ended and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        self._wake()


class OutgoingMessages(asyncio.Protocol):
    """Messages to a pipe, as the SDK's `WriteStream`. `deaf()` is called where it turns out that nobody reads them."""

    def __init__(self, deaf: Callable[[], None]) -> None:
        self._deaf = deaf
        self._free = asyncio.Event()
        self._free.set()
        self._transport: asyncio.WriteTransport | None = None
        self._closed = self.lost = False

    # --- the pipe's end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._free.set()

    # --- the session's end

    async def send(self, item: SessionMessage) -> None:
        """Write a message. Raises ClosedResourceError, or BrokenResourceError where nobody reads any more."""
        if self._closed:
            raise anyio.ClosedResourceError
        if not self.lost and self._transport is not None:
            self._transport.write(to_line(item))
            if not self._free.is_set():
                await self._free.wait()
        if self.lost:
            self._deaf()
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Take no more messages."""
        self._closed = True

    async def __aenter__(self) -> OutgoingMessages:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._closed = True
