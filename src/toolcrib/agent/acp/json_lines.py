"""The protocol's messages over two descriptors: one line of JSON each. Wrong lines get an error, and reading goes on.

A thread blocks in `read` and another one in `write`: so a slow editor never blocks the agent, and the flags of the
descriptors, which the editor may share, stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import threading
from typing import Any, cast

from ...boundary.lines import Lines, LineTooLong

CHUNK = 64 * 1024
MAX_LINE = 64 * 2**20
"""The longest message in bytes. A longer one ends the connection."""
MAX_AHEAD = 16
"""How many chunks are read ahead."""
CLOSE_SECONDS = 2.0
"""How long the last messages may take to write."""

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class LineTransport:
    """Reads and writes messages. A `Transport` of the protocol's library."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._loop = asyncio.get_running_loop()
        self._ahead: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
        self._lines: list[bytes] = []
        self._room = threading.Semaphore(MAX_AHEAD)
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._closed = False
        threading.Thread(target=self._read, name="toolcrib-acp-in", daemon=True).start()
        self._writer = threading.Thread(target=self._write, name="toolcrib-acp-out", daemon=True)
        self._writer.start()

    # --- the library's transport

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        while True:
            while not self._lines:
                lines = None if self._closed else await self._ahead.get()
                if lines is None:
                    await asyncio.sleep(0)  # what was asked just before the end begins, and may be answered
                    return None
                self._room.release()
                self._lines = lines[::-1]
            message = self._message(self._lines.pop())
            if message is not None:
                return message

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message after those before it, without waiting."""
        self.put(message)

    async def close(self) -> None:
        """End both directions, after what was sent is written."""
        if not self._closed:
            self._closed = True
            self._out.put(None)
            self.end()
            await asyncio.to_thread(self._writer.join, CLOSE_SECONDS)

    # --- any thread

    def put(self, message: dict[str, Any]) -> None:
        """Write a message after those before it; any thread may do that. After the end it does nothing."""
        if not self._closed:
            self._out.put(json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n")

    def end(self) -> None:
        """End the reading."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ahead.put_nowait, None)

    def _read(self) -> None:
        lines = Lines(MAX_LINE)
        with contextlib.suppress(OSError, RuntimeError):
            with contextlib.suppress(LineTooLong):
                while chunk := os.read(self._read_fd, CHUNK):
                    if found := lines.feed(chunk):
                        self._room.acquire()
                        self._loop.call_soon_threadsafe(self._ahead.put_nowait, found)
            self.end()

    def _write(self) -> None:
        while (data := self._out.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._write_fd, view) :]
            except OSError:  # the editor has gone
                self.end()
                return

    # --- one line

    def _message(self, line: bytes) -> dict[str, Any] | None:
        """Return the message of a line; None for an empty or a wrong one, which is answered with an error."""
        if not line.strip():
            return None
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse(PARSE_ERROR, f"this line is not JSON: {error}")
            return None
        if not isinstance(value, dict):
            self._refuse(INVALID_REQUEST, "a message is a JSON object")
            return None
        message = cast("dict[str, Any]", value)
        given = message.get("id")
        if not isinstance(given, int | str | None) or not isinstance(message.get("method"), str | None):
            self._refuse(INVALID_REQUEST, "`method` is a string, and `id` a string or a number")
            return None
        if "method" not in message and not isinstance(message.get("error"), dict | None):
            message["error"] = {"message": str(message["error"])}
        return message

    def _refuse(self, code: int, text: str) -> None:
        self.put({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})
