"""MCP over stdin and stdout. Only the protocol reaches stdout, whatever a tool, a library or a child process prints.

Both descriptors are replaced at the start: fd 0 reads nothing and fd 1 is stderr, for Python's `print` and for
child processes. The protocol uses private duplicates.

A separate thread blocks in `read`. So neither a slow terminal nor a signal blocks the event loop (the SDK's reader
cannot be interrupted). The flags of the descriptors stay unchanged, because the parent process may share them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic_core import from_json

from ..boundary.claimed_stdio import claimed_stdio
from ..boundary.lines import Lines, LineTooLong
from ..core.errors import ToolcribError
from ..core.registry import ToolRegistry
from ..sources.mcp.connecting import load_sdk
from ..sources.mcp.pipes import MessageStream, ReadStream, from_line, to_line
from .interface import served_tools
from .server_reloading import Reloader, reloading
from .signals import stop_signal
from .trimming import trimming

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    from ..config import Settings
    from ..toolbox import Toolbox

CHUNK = 64 * 1024
MAX_LINE = 64 * 2**20
"""The longest message in bytes. A longer one ends the connection: valid clients do not send such messages."""
MAX_AHEAD = 16
"""How many chunks are read ahead. Then reading stops until the server has caught up."""
MAX_UNREAD = 16 * 2**20
"""How many bytes may wait for a client that does not read. Then its own messages are not read either."""
EACH = 4096
"""How many more bytes a waiting message counts: its task needs them."""
AT_ONCE = 4096
"""A pipe that is writable accepts this many bytes without blocking (PIPE_BUF on Linux)."""


async def serve(box: Toolbox | ToolRegistry, reload: Callable[[], Settings] | None = None) -> None:
    """Serve MCP over stdio. See `toolcrib.serve.serve_stdio`."""
    reloader = None if reload is None or isinstance(box, ToolRegistry) else Reloader(box, reload)
    if sys.platform == "win32":  # Windows pipes support neither poll nor such duplicates: use the SDK's own transport
        from mcp.server.stdio import stdio_server

        from .mcp import McpServer

        server = McpServer(box)
        async with stdio_server() as (read, write):
            await server.sdk.run(read, write, server.sdk.create_initialization_options())
        return
    with claimed_stdio() as (read_fd, write_fd), stop_signal() as stopped, reloading(reloader, asyncio.Event()):
        read = MessageReader(read_fd)
        write = MessageWriter(write_fd, read.close)
        read.before = write.room
        read.start()
        streams = cast("tuple[Any, Any]", (read, write))  # the SDK's protocols name their own classes

        async def run() -> None:
            handshake, servers = await read.opens_with("initialize"), served_tools(box).servers()
            starting = None if servers is None else servers.begin(handshake)
            await load_sdk()
            from .mcp import McpServer

            server = McpServer(box, handshake=handshake, starting=starting)
            with trimming():
                await server.sdk.run(*streams, server.sdk.create_initialization_options())

        work = asyncio.create_task(run())
        stop = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            read.close()
            stop.cancel()
            work.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)
            await write.aclose()
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            raise error
        if read.too_long:
            raise ToolcribError(
                f"the client sent a message of more than {MAX_LINE >> 20} MiB, so the connection was ended"
            )


class MessageReader(ReadStream):
    """Reads the messages of a descriptor, in time linear in their length.

    Invalid messages are returned as exceptions.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._ahead: deque[list[bytes]] = deque()
        self._lines: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._room = threading.Semaphore(MAX_AHEAD)
        self.before: Callable[[], Awaitable[None]] | None = None
        """Waited for before each message is given out."""
        self.too_long = False
        """Whether the client sent a message that is longer than possible."""

    def start(self) -> None:
        """Start reading, in a daemon thread: a thread that blocks in `read` does not delay the end of the process."""
        threading.Thread(target=self._read, name="toolcrib-stdin", daemon=True).start()

    def close(self) -> None:
        """End the stream, even if the descriptor still has unread data."""
        self._ended = True
        self._wake()

    # --- the thread

    def _read(self) -> None:
        lines = Lines(MAX_LINE)
        with contextlib.suppress(OSError, RuntimeError):  # the descriptor or the loop is gone, so the thread ends
            try:
                while chunk := os.read(self._fd, CHUNK):
                    if found := lines.feed(chunk):
                        self._room.acquire()
                        self._loop.call_soon_threadsafe(self._put, found)
            except LineTooLong:
                self.too_long = True
            self._loop.call_soon_threadsafe(self.close)

    def _put(self, lines: list[bytes]) -> None:
        self._ahead.append(lines)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- the SDK's `ReadStream`

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream after the last one."""
        if self.before is not None:
            await self.before()
        await self._wait()
        return _message(self._lines.popleft())

    async def opens_with(self, method: str) -> bool:
        """Return whether the next message is a request of this method. It stays the next one."""
        with contextlib.suppress(anyio.EndOfStream, ValueError):
            await self._wait()
            first = from_json(self._lines[0].decode("utf-8", "replace"))
            return isinstance(first, dict) and cast("dict[str, Any]", first).get("method") == method
        return False

    async def _wait(self) -> None:
        while not self._lines:
            if self._ahead:
                self._lines.extend(self._ahead.popleft())
                self._room.release()
            elif self._ended:
                raise anyio.EndOfStream
            else:
                self._waiter = self._loop.create_future()
                await self._waiter


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return from_line(line)
    except ValueError as error:
        text = line.decode("utf-8", "replace")
        if "\ufffd" not in text:
            return error
    try:  # even with bytes that are not UTF-8, a request gets an answer
        return from_line(text)
    except ValueError as error:
        return error


class MessageWriter(MessageStream):
    """Writes messages to a descriptor, in order: small ones immediately if there is room, others in a thread.

    A started message is always written completely, even after a cancellation. `deaf()` is called when the reading
    end is closed.
    """

    def __init__(self, fd: int, deaf: Callable[[], None]) -> None:
        self._fd, self._deaf = fd, deaf
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._writing: asyncio.Task[None] | None = None
        self._unread = 0
        self._closed = False

    async def room(self) -> None:
        """Return when little waits for the client: at once, if it reads."""
        if self._writing is not None:
            await asyncio.sleep(0)  # the answers to its last message come to be counted
        while self._unread > MAX_UNREAD and self._writing is not None:
            await asyncio.wait({self._writing})

    async def send(self, item: SessionMessage) -> None:
        """Write a message. Raises ClosedResourceError, or BrokenResourceError if the reading end is closed."""
        if self._closed:
            raise anyio.ClosedResourceError
        data = to_line(item)
        try:
            if self._writing is None and len(data) <= AT_ONCE and self._has_room():
                _write_all(self._fd, data)
            else:
                self._unread += len(data) + EACH
                self._writing = asyncio.create_task(self._write_after(self._writing, data))
                await asyncio.shield(self._writing)
        except OSError:
            self._deaf()
            raise anyio.BrokenResourceError from None

    def _has_room(self) -> bool:
        return any(event & select.POLLOUT for _, event in self._poll.poll(0))

    async def _write_after(self, before: asyncio.Task[None] | None, data: bytes) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await asyncio.to_thread(_write_all, self._fd, data)
        finally:
            self._unread -= len(data) + EACH
            if self._writing is asyncio.current_task():
                self._writing = None

    async def aclose(self) -> None:
        """Accept no more messages, and return when all accepted ones are written."""
        self._closed = True
        if self._writing is not None:
            await asyncio.wait({self._writing})


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
