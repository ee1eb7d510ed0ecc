"""MCP over the stdin and stdout of a child process in its own process group, which ends completely with it.

`boundary.process` starts the process, so that it can run inside a sandbox. A limited part of its stderr is stored.
The streams for the SDK are in `pipes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable

from ...boundary.process import REAP_SECONDS, Process, start
from ...boundary.spawn import Spawn
from ...core.bound import safe
from ...core.errors import ToolError
from ...core.text import lazy_regex
from ...core.threads import shared_threads
from . import pipes

STDERR_CHARACTERS = 8_000
TAIL_LINES, TAIL_CHARACTERS = 8, 1_000
RUBBISH_LINES, RUBBISH_CHARACTERS = 5, 200
_FIRST_WORD, _LAST_WORD = lazy_regex(r"\A\S+"), lazy_regex(r"(?<!\S)\S+\Z")  # half a secret is known to nobody
CLOSE_SECONDS, TERMINATE_SECONDS = 0.8, 0.6
"""Seconds for a server to end.

The first after its stdin is closed, the second after SIGTERM (the order of the specification). Together less than the
two seconds that the official SDKs give to us, from the end of our stdin to their SIGTERM.
"""
SILENT_SECONDS = 0.2
"""The first of these limits, for a server that has never sent a message."""


class StdioTransport:
    """One run of a server. It starts at once. Enter `streams` once, or `kill` it. `account` describes the run.

    `appeared` gets the protected names that were made while a server ran in a sandbox where it may write.
    """

    def __init__(self, spawn: Callable[[], Spawn], appeared: Callable[[list[str]], None]) -> None:
        self._spawn, self._appeared = spawn, appeared
        self._spawned: Spawn | None = None
        self._process: Process | None = None
        self._rubbish: deque[str] = deque(maxlen=RUBBISH_LINES)
        self._read = pipes.IncomingMessages(self._note, self._too_long)
        self._written = pipes.OutgoingMessages(self._read.end)  # it reads no more, so no answer will come either
        self.refusal = None
        """A process refuses no request, unlike a server over HTTP."""
        self.fault: str | None = None
        """Why reading from it stopped, if it was not the end of its output."""
        self._loop = asyncio.get_running_loop()
        # an empty context: a later message does not belong to the call that happened to connect
        self._starting = self._loop.create_task(self._start(), context=contextvars.Context())
        self._starting.add_done_callback(lambda task: None if task.cancelled() else task.exception())

    # --- a report of the run

    @property
    def pid(self) -> int | None:
        """The pid of the started process."""
        return self._process.pid if self._process is not None else None

    @property
    def error(self) -> BaseException | None:
        """Why it could not be run, if the cause was on our side or in the sandbox."""
        return self._process.error if self._process is not None else None

    @property
    def ended(self) -> str | None:
        """How the process ended, in words; None while it runs."""
        result = self._process.result if self._process is not None else None
        if result is None:
            return None
        if result.ended_by != "exit":
            return "it was ended by us"
        return f"it was ended by signal {result.signal}" if result.signal else f"it exited with {result.exit_code}"

    def account(self) -> str:
        """Return how it ended, its stderr, and the lines on stdout that were not messages."""
        said = [self.fault or self.ended or ""]
        if self._rubbish:
            said.append(f"on stdout it printed something that is not a message: {' | '.join(self._rubbish)}")
        if errors := self._process.errors().strip() if self._process is not None else "":
            said.append(f"its stderr ends: {_tail(errors)}")
        return "; ".join(part for part in said if part)

    def kill(self) -> None:
        """End the process group immediately. May be called from any thread."""
        _in_loop(self._loop, self._starting.cancel)
        if self._process is not None:
            self._process.kill()

    # --- the transport

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[pipes.IncomingMessages, pipes.Answers]]:
        """Run the server, and end it afterwards. Yields the two streams of the SDK's session."""
        await self._starting
        try:
            yield self._read, pipes.Answers(self._written, self._asks_too_much)
        finally:
            stopping = asyncio.ensure_future(self._stop())
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:  # cancelled again: end quickly now
                self.kill()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({stopping}, timeout=REAP_SECONDS)
                raise

    async def _start(self) -> None:
        loop = self._loop
        handed: asyncio.Future[tuple[int, int] | None] = loop.create_future()

        def give(ends: tuple[int, int] | None) -> None:
            if not handed.done():
                handed.set_result(ends)
            elif ends is not None:  # the waiter has gone
                for fd in ends:
                    os.close(fd)

        # a sandbox checks the folder first, which takes time
        spawn = await shared_threads.make(self._spawn, Spawn.discard)

        def wire(stdout: int, stdin: int) -> None:
            _in_loop(loop, lambda: give((stdout, stdin)))

        self._spawned = spawn
        self._process = process = start(spawn, timeout=None, limit=STDERR_CHARACTERS, wire=wire)
        process.when_done(lambda: _in_loop(loop, lambda: give(None)))
        try:
            ends = await handed
        except asyncio.CancelledError:
            process.kill()
            if handed.done() and not handed.cancelled() and (ends := handed.result()) is not None:
                for fd in ends:
                    os.close(fd)
            raise
        if ends is None:
            raise process.error or ToolError("it ended before it could be talked to")
        try:
            await self._connect(loop, process, *ends)
        except BaseException:
            process.kill()
            raise

    async def _connect(self, loop: asyncio.AbstractEventLoop, process: Process, stdout: int, stdin: int) -> None:
        reading, writing = os.fdopen(stdout, "rb", buffering=0), os.fdopen(stdin, "wb", buffering=0)
        try:
            self._incoming, _ = await loop.connect_read_pipe(lambda: self._read, reading)
            try:
                self._outgoing, _ = await loop.connect_write_pipe(lambda: self._written, writing)
            except BaseException:
                self._incoming.close()
                raise
        except BaseException:
            reading.close()
            writing.close()
            raise
        # a child process may hold its stdout open; the end of the process is the end of the stream anyway
        process.when_done(lambda: _in_loop(loop, lambda: loop.call_later(1.0, self._read.end)))

    async def _stop(self) -> None:
        process = self._process
        assert process is not None
        await self._written.aclose()
        self._outgoing.close()
        if not await process.ended_within(CLOSE_SECONDS if self._read.answered else SILENT_SECONDS):
            process.terminate()
            if not await process.ended_within(TERMINATE_SECONDS):
                process.kill()
                await process.ended_within(REAP_SECONDS + 1)
        self._incoming.close()
        await asyncio.sleep(0)  # a pipe that broke is lost only now, and may not be aborted twice
        if not self._written.lost:
            self._outgoing.abort()
        self._read.close()
        if self._spawned is not None:
            made = await shared_threads.run(self._spawned.appeared)
            self._spawned.appeared = list
            if made:
                self._appeared(made)
        await asyncio.sleep(0)  # let the pipes' transports close

    def _too_long(self, line: bytes) -> None:
        self.fault = f"it sent a message of more than {pipes.MAX_LINE >> 20} MiB"
        self._note(line)
        self.kill()

    def _asks_too_much(self) -> None:
        self.fault = pipes.ASKED
        self.kill()
        self._read.close()

    def _note(self, line: bytes) -> None:
        if line.strip():
            said = safe(line[:RUBBISH_CHARACTERS].decode("utf-8", "replace"))
            self._rubbish.append((said if len(line) <= RUBBISH_CHARACTERS else _LAST_WORD.sub("…", said)).strip())


def _tail(text: str) -> str:
    lines = [line for line in safe(text).splitlines() if line.strip()]
    said = "\n".join(lines[-TAIL_LINES:])
    return said if len(said) <= TAIL_CHARACTERS else _FIRST_WORD.sub("…", said[-TAIL_CHARACTERS:])


def _in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, so no waiter is left
        loop.call_soon_threadsafe(work)
