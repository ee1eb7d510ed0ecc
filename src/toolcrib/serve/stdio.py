"""MCP over stdin and stdout. Only the protocol reaches stdout, whatever a tool, a library or a child prints.

The two descriptors are taken away at the start: fd 0 then reads nothing and fd 1 is stderr, for Python's `print` and
for children alike; the wire lives on private duplicates. Reading has a thread of its own that blocks in `read`, so
that neither a slow terminal nor a signal finds the loop stuck in it (the SDK's reader cannot be interrupted), and
the descriptors' flags stay as they are: they may be shared with whoever started us.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any, cast

from mcp.server.stdio import stdio_server

from .mcp import McpServer
from .signals import stop_signal

if TYPE_CHECKING:
    from ..core.registry import ToolRegistry
    from .served import Served

CHUNK = 64 * 1024
MAX_LINE = 64 * 2**20
"""A longer message ends the connection: nothing a client sends is meant to be that long."""
MAX_QUEUED = 1024
"""Lines read ahead; then reading stops until the server has caught up."""
AT_ONCE = 4096
"""A pipe that says it is writable takes this much without blocking (PIPE_BUF on Linux)."""


async def serve(box: Served | ToolRegistry) -> None:
    """See `toolcrib.serve.serve_stdio`."""
    server = McpServer(box)
    if sys.platform == "win32":  # its pipes know neither poll nor duplicates like these: the SDK's own transport
        async with stdio_server() as (read, write):
            await server.sdk.run(read, write, server.sdk.create_initialization_options())
        return
    with _claimed() as (read_fd, write_fd), stop_signal() as stopped:
        lines, output = LineReader(read_fd), LineWriter(write_fd)
        lines.start()
        # the SDK types these as files; it only iterates the one, and writes and flushes the other
        async with stdio_server(cast("Any", lines), cast("Any", output)) as (read, write):
            work = asyncio.create_task(server.sdk.run(read, write, server.sdk.create_initialization_options()))
            stop = asyncio.create_task(stopped.wait())
            try:
                await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lines.close()
                stop.cancel()
                work.cancel()
                await asyncio.gather(work, stop, return_exceptions=True)
                await read.aclose()  # where the server did not come up nobody else does, and its pumps wait for it
                await write.aclose()
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            raise error


class LineReader:
    """Lines of a descriptor as an async iterator, in time linear in their length."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lines: deque[str] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._room = threading.Semaphore(MAX_QUEUED)

    def start(self) -> None:
        """Begin to read, in a daemon thread: one that still blocks in `read` never holds up the end of the process."""
        threading.Thread(target=self._read, name="toolcrib-stdin", daemon=True).start()

    def close(self) -> None:
        """End the iteration, whatever is still unread."""
        self._end()

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            while self._lines:
                self._room.release()
                yield self._lines.popleft()
            if self._ended:
                return
            self._waiter = self._loop.create_future()
            await self._waiter

    def _read(self) -> None:
        parts: list[bytes] = []
        held = 0
        with contextlib.suppress(OSError, RuntimeError):  # the descriptor or the loop is gone: so are we
            while chunk := os.read(self._fd, CHUNK):
                *whole, rest = chunk.split(b"\n")
                for piece in whole:
                    line = b"".join((*parts, piece))
                    parts, held = [], 0
                    self._room.acquire()
                    self._loop.call_soon_threadsafe(self._put, line.decode("utf-8", "replace"))
                if rest:
                    parts.append(rest)
                    held += len(rest)
                    if held > MAX_LINE:
                        break
            self._loop.call_soon_threadsafe(self._end)

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._wake()

    def _end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class LineWriter:
    """Writes lines to a descriptor: small ones at once if there is room, others in a thread, in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Write all of it."""
        data = text.encode("utf-8", "replace")
        if len(data) <= AT_ONCE and any(event & select.POLLOUT for _, event in self._poll.poll(0)):
            _write_all(self._fd, data)
        else:
            await asyncio.to_thread(_write_all, self._fd, data)

    async def flush(self) -> None:
        """Nothing is held back."""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def _claimed() -> Generator[tuple[int, int]]:
    """Private duplicates of stdin and stdout; the standard ones lead to nothing and to stderr until the end."""
    import fcntl

    sys.stdout.flush()
    wire_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    wire_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        yield wire_in, wire_out
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        os.close(wire_out)  # wire_in stays: the reading thread may still be in it, and its number must not be reused
