"""The two streams that the SDK's session reads from and writes to, directly on the pipes of a server's process.

One message is one line of JSON. The streams replace memory streams with a task at each end: those take a quarter of
our own time per call. This module is imported without the SDK: a server's process starts before that is loaded.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

import anyio

from ...boundary.lines import Lines, LineTooLong
from ...core.text import lazy_regex

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_LINE = 64 * 2**20
"""The longest message in bytes. A longer one ends the connection."""
LONG = 2**20
"""A longer line is parsed first, and only what is left of it is checked. The SDK would take six times as long."""
MAX_HELD = 2**19
"""How many bytes of messages may wait to be read. Then reading from the pipe pauses until half of them are read."""
LINE = 64
"""About the bytes that a waiting line needs besides its text."""
MAX_ASKED = 16 * 2**20
"""How many characters and values the requests of a server that have no answer yet may have. More end the connection."""
ASKING = 16 * 2**10
"""What each of them counts for besides."""
ASKED = f"it did not take our answers to {MAX_ASKED // ASKING:,} requests, or to {MAX_ASKED >> 20} MiB of them"
UNREADABLE = (
    "its answer is not valid JSON-RPC, or has too many values, and was not read; the call may have had its effect"
)
TURNS = 16
"""After this many lines without a pause, other tasks on the loop get their turn."""


class MessageStream(ABC):
    """A stream that a session of the SDK enters and closes."""

    @abstractmethod
    async def aclose(self) -> None:
        """Accept no more messages, or stop reading."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ReadStream(MessageStream):
    """A stream that a session of the SDK reads from. A subclass defines `receive` and `close`."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream after the last one, ClosedResourceError once this is closed."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading."""

    async def aclose(self) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def from_line(line: bytes | str) -> SessionMessage:
    """Return the message in a line. Raises ValueError if the line is not a message."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))


def to_line(item: SessionMessage) -> bytes:
    """Return a message as a line, with its newline."""
    return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace") + b"\n"


def _parsed(line: bytes) -> SessionMessage | None:
    """Return the message in a line; None if it is too much. Raises ValueError or RecursionError.

    JSON can write halves of characters (`\\ud83d`), as a server does that cuts a text. The SDK reads none, so they are
    replaced."""
    from .many_values import of_long_line

    parse = from_line if len(line) < LONG else of_long_line
    try:
        return parse(line)
    except ValueError:
        if b"\\u" not in line or len(line) >= LONG:  # a long one would hold up everything for seconds
            raise
        return parse(json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace"))


_BEGINS = lazy_regex(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"\s*:')
_BEGINS_LATE = lazy_regex(rb'\s*\{\s*"(?:result|error)"\s*:')
_ENDS = lazy_regex(rb',\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')
_END = 200
"""The bytes at the end of a line in which the number of a request may be."""


def _failure(line: bytes) -> SessionMessage | None:
    """Return an error instead of an answer that cannot be read; None if the line is not clearly an answer. The call
    would wait for its whole time limit."""
    found = _BEGINS.match(line) or (_BEGINS_LATE.match(line) and _ENDS.search(line[-_END:]))
    if not found:
        return None
    from mcp.shared.message import SessionMessage
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

    error = ErrorData(code=INTERNAL_ERROR, message=UNREADABLE)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))


class IncomingMessages(ReadStream, asyncio.Protocol):
    """Messages from a pipe, as the SDK's `ReadStream`. `answered` is True after the first message.

    `rubbish` gets lines that are not messages. `too_long` gets the beginning of a message that is longer than
    MAX_LINE.
    """

    def __init__(self, rubbish: Callable[[bytes], None], too_long: Callable[[bytes], None]) -> None:
        self._rubbish, self._too_long = rubbish, too_long
        self._lines = Lines(MAX_LINE)
        self._waiting: deque[bytes] = deque()
        self._held = self._turn = 0
        self._wanted: asyncio.Future[None] | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._ended = self._closed = False
        self.answered = False

    # --- the pipe side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        if self._ended:  # still read, so that a server that prints can end
            return
        try:
            lines = self._lines.feed(data)
        except LineTooLong:
            line, self._lines = self._lines.rest(), Lines(MAX_LINE)  # the rest of this stream lives on for a while
            self._too_long(line)
            self.end()
            return
        lines = [line for line in lines if line.strip()]
        self._waiting.extend(lines)
        self._hold(sum(map(len, lines)) + LINE * len(lines))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def end(self) -> None:
        """Mark the end of the stream. Messages that already came can still be read."""
        self._ended = True
        self._wake()

    def _hold(self, more: int) -> None:
        """Count the bytes that wait to be read, and pause or resume reading from the pipe."""
        self._held += more
        if self._transport is not None:
            if self._held > MAX_HELD:
                self._transport.pause_reading()
            elif self._held < MAX_HELD // 2:
                self._transport.resume_reading()

    def _wake(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    # --- the session side

    async def receive(self) -> SessionMessage:
        """Return the next message. Raises EndOfStream after the last one, ClosedResourceError once this is closed."""
        while not self._closed:
            if self._waiting:
                line = self._waiting.popleft()
                self._hold(-len(line) - LINE)
                self._turn = (self._turn + 1) % TURNS
                if not self._turn:
                    await asyncio.sleep(0)
                try:
                    message = _parsed(line)
                except (ValueError, RecursionError):
                    message = None
                if message is None:
                    self._rubbish(line)
                    message = _failure(line)
                if message is None:
                    continue
                self.answered = True
                return message
            if self._ended:
                raise anyio.EndOfStream
            self._turn = 0
            self._wanted = asyncio.get_running_loop().create_future()
            await self._wanted
        raise anyio.ClosedResourceError

    def close(self) -> None:
        """Stop reading: later messages are discarded."""
        self._closed = self._ended = True
        self._waiting.clear()
        self._hold(-self._held)
        self._wake()


class Answers(MessageStream):
    """Messages to a server. It counts the server's requests that have no answer yet, and calls `too_many()` for one too
    many: a server that asks on and on and takes no answer would fill the memory."""

    def __init__(self, inner: Any, too_many: Callable[[], None]) -> None:
        self._inner, self._too_many = inner, too_many  # the SDK has no public name for what both are
        self._sizes: dict[int | str, int] = {}
        self._waiting = 0

    def asked(self, number: int | str, size: int) -> None:
        """Count a request of the server."""
        self._sizes[number] = size + ASKING
        self._waiting += size + ASKING
        if self._waiting > MAX_ASKED:
            self._too_many()

    def withdrawn(self, number: object) -> None:
        """Count a request no longer that the server withdrew, unless its answer is on its way: then that waits."""
        self._waiting -= self._taken(number)

    def _taken(self, number: object) -> int:
        return self._sizes.pop(number, 0) if isinstance(number, int | str) else 0

    async def send(self, item: SessionMessage) -> None:
        """Write a message as the inner stream does."""
        answered = 0 if hasattr(item.message, "method") else self._taken(getattr(item.message, "id", None))
        try:
            await self._inner.send(item)
        finally:
            self._waiting -= answered

    async def aclose(self) -> None:
        await self._inner.aclose()


class OutgoingMessages(MessageStream, asyncio.Protocol):
    """Messages to a pipe, as the SDK's `MessageStream`.

    `deaf()` is called when a write shows that the reading end is closed.
    """

    def __init__(self, deaf: Callable[[], None]) -> None:
        self._deaf = deaf
        self._free = asyncio.Event()
        self._free.set()
        self._transport: asyncio.WriteTransport | None = None
        self._closed = self.lost = False

    # --- the pipe side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._free.set()

    # --- the session side

    async def send(self, item: SessionMessage) -> None:
        """Write a message. Raises ClosedResourceError, or BrokenResourceError if the reading end is closed."""
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
        """Accept no more messages."""
        self._closed = True
