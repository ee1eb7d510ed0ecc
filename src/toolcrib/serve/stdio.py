"""MCP over stdin and stdout. Only the protocol reaches stdout, whatever a tool, a library or a child process prints.

Both descriptors are replaced at the start: fd 0 reads nothing and fd 1 is stderr, for Python's `print` and for
child processes. The protocol uses private duplicates, which `wire` reads and writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

from .mcp import McpServer
from .signals import stop_signal
from .wire import MessageReader, MessageWriter

if TYPE_CHECKING:
    from ..core.registry import ToolRegistry
    from ..toolbox import Toolbox


async def serve(box: Toolbox | ToolRegistry) -> None:
    """Serve MCP over stdio. See `toolcrib.serve.serve_stdio`."""
    server = McpServer(box)
    if sys.platform == "win32":  # Windows pipes support neither poll nor such duplicates: use the SDK's own transport
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (read, write):
            await server.sdk.run(read, write, server.sdk.create_initialization_options())
        return
    with _claimed() as (read_fd, write_fd), stop_signal() as stopped:
        read = MessageReader(read_fd)
        write = MessageWriter(write_fd, read.close)
        read.start()
        streams = cast("tuple[Any, Any]", (read, write))  # the SDK's protocols name their own classes
        work = asyncio.create_task(server.sdk.run(*streams, server.sdk.create_initialization_options()))
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


@contextlib.contextmanager
def _claimed() -> Generator[tuple[int, int]]:
    """Yield private duplicates of stdin and stdout. Until the end, fd 0 reads nothing and fd 1 is stderr."""
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
        os.close(wire_out)  # wire_in stays open: the reading thread may still use it, and its number must not be reused
