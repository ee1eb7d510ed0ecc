"""Run commands with bounded output and a strict time limit, and leave no processes behind.

`preexec_fn` is not used: it would force a fork of the whole host and is unsafe with other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal

from ..core.dataclass import dataclass
from ..core.errors import SandboxUnavailable
from .capture import Capture, OpenSpill
from .group_watcher import group_watcher
from .process_tree import MARKER, ProcessTree, new_marker
from .spawn import Spawn
from .spawner import spawner
from .streams import Streams, Wire

REAP_SECONDS = 5.0  # how long a killed command may take to end before we answer without it

EndedBy = Literal["exit", "timeout", "cancelled", "killed"]


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a command. `exit_code` is None if the command did not end by itself; `signal` is a signal that
    we did not send."""

    exit_code: int | None
    signal: int | None
    ended_by: EndedBy
    stdout: Capture
    stderr: Capture
    duration: float
    reaped: bool = True


class Process:
    """A started command. Only the process thread uses it, except for the public methods and, for some spawns,
    `launch`."""

    def __init__(self, spawn: Spawn, timeout: float | None, streams: Streams) -> None:
        self.result: ProcessResult | None = None
        self.error: BaseException | None = None
        self.started = time.monotonic()
        self._spawn = spawn
        self._marker = new_marker()
        self._timeout = timeout
        self._streams = streams
        # Without a time limit it may outlive us if we are killed. What is in bubblewrap does not.
        self._is_watched = timeout is None and spawn.handshake is None
        self._tree: ProcessTree | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._launched = False
        self._child: Future[subprocess.Popen[bytes]] | None = None
        self._ended_by: EndedBy = "exit"
        self.deadline: float | None = None  # of the command, then of its being reaped
        self._killing = False

    # --- from any thread ---------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def kill(self, reason: EndedBy = "killed") -> None:
        """End the whole tree; the result follows within REAP_SECONDS."""
        spawner().call(lambda: self._kill(reason))

    def terminate(self) -> None:
        """Ask the process group to end itself (SIGTERM). The caller waits, and kills it if it does not end."""
        spawner().call(lambda: self._tree and self._tree.signal_group(signal.SIGTERM))

    @property
    def pid(self) -> int | None:
        """Return the pid of the started process; None before the start."""
        return None if self._tree is None else self._tree.popen.pid

    def errors(self) -> str:
        """Return the command's stderr so far, its head and tail."""
        return self._streams.errors()

    def since(self, positions: tuple[int, int]) -> tuple[tuple[bytes, bytes], tuple[int, int]]:
        """Return stdout and stderr after these positions, as far as they are kept, and the positions after them."""
        return self._streams.since(positions)

    def extend(self, seconds: float) -> None:
        """Let the command run for that long from now on, and no longer."""
        spawner().call(lambda: self._extend(seconds))

    @property
    def idle_output(self) -> bool:
        """Return whether nothing was printed since the last `take`."""
        return self._streams.idle

    def wait(self, timeout: float | None = None) -> ProcessResult | None:
        """Block until the command has ended. Return None if `timeout` came first."""
        if not self._done.wait(timeout):
            return None
        if self.error is not None:
            raise self.error
        return self.result

    def end(self, timeout: float) -> None:
        """Kill the command and wait up to `timeout` seconds. Used at the end of our process."""
        self.kill()
        self._done.wait(timeout)

    async def ended_within(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end, without touching the command. Return whether it ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ended()
        return self.done

    async def finished(self) -> ProcessResult:
        """Wait for the result without blocking the loop. Cancelling ends the command, and returns when it is gone."""
        try:
            await self._ended()
        except asyncio.CancelledError:
            self.kill("cancelled")
            await self.ended_within(REAP_SECONDS + 1)
            raise
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nothing waits
                loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

        self.when_done(wake)
        await future

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back in the process thread when the command has ended; at once if it has."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def take(self) -> tuple[Capture, Capture]:
        """Return the output since the last `take` (or the start), and begin anew."""
        return self._streams.take()

    def write(self, data: bytes, *, end: bool = False) -> bool:
        """Queue input for an interactive command; it may be the last input. Return False if the command takes none
        (any more)."""
        return not self.done and self._streams.write(data, end, self)

    def launch(self) -> None:
        """Spawn, once, before any other code has this object. A failure becomes the error that waiters get."""
        self._launched = True
        try:
            self._child = self._spawned()
        except Exception as error:
            self.error = error

    def begin_soon(self) -> None:
        """Call `begin` in the process thread, when it has been spawned if that is under way."""
        thread = spawner()  # not in the callback: it would begin in a thread that is confined
        if self._child is None:
            thread.call(self.begin)
        else:
            self._child.add_done_callback(lambda _: thread.call(self.begin))

    # --- in the process thread ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Spawn if that has not happened yet, and watch the command from here on."""
        if not self._launched:
            self.launch()
        child, self._child = self._child, None  # its callbacks have this object
        if child is None:
            self.fail(self.error or RuntimeError("the command was interrupted while it was started"))
            return
        try:
            self._attend(self._started(child.result()))
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Handle an error of our own: the error is the outcome, and all processes must end."""
        self.error = self.error or error
        if self._tree is not None:
            self._tree.signal(gently=True)
            spawner().reap_later(self._tree.popen)
        self._finish()

    def _spawned(self) -> Future[subprocess.Popen[bytes]]:
        spawn = self._spawn
        spawn.prepare()
        ends = self._streams.open(spawn.nothing)
        watcher = group_watcher() if self._is_watched else None

        def start() -> subprocess.Popen[bytes]:
            popen = subprocess.Popen(
                spawn.argv,
                stdin=ends.stdin,
                stdout=ends.stdout,
                stderr=ends.stderr,
                cwd=spawn.cwd,
                env={**spawn.env, MARKER: self._marker},
                pass_fds=spawn.child_fds,
                start_new_session=True,
            )
            if watcher is not None:  # at once: this process may be killed
                watcher.add(popen.pid)
            return popen

        def release(child: Future[subprocess.Popen[bytes]]) -> None:
            ends.close()
            spawn.close_child_fds()
            if child.exception() is not None:
                self._streams.abandon()

        child: Future[subprocess.Popen[bytes]] = Future()
        child.add_done_callback(release)
        if spawn.confined is not None:
            spawn.confined(start, child)
            return child
        try:
            child.set_result(start())
        except BaseException as error:
            child.set_exception(error)
            raise
        return child

    def _started(self, popen: subprocess.Popen[bytes]) -> ProcessTree:
        self._tree = ProcessTree(popen, self._marker, self._spawn.stop, self._is_watched)
        self.started = time.monotonic()
        try:
            self._spawn.started(popen.pid)
        except BaseException:
            self._tree.signal()
            raise
        return self._tree

    def _attend(self, tree: ProcessTree) -> None:
        spawn = self._spawn
        if self._timeout is not None:
            self.deadline = self.started + self._timeout
        spawner().running.add(self)
        self._streams.attach(self)
        if spawn.handshake is not None:
            os.set_blocking(spawn.handshake.fd, False)
            spawner().watch(spawn.handshake.fd, self._news, self)
            spawner().watch(spawn.handshake.ready, self._prepared, self)
        tree.watch_exit(self._exited, self)
        self._streams.feed(self)
        if self._killing:  # cancelled before it began
            self._kill(self._ended_by)

    def _news(self) -> None:
        handshake = self._spawn.handshake
        assert handshake is not None
        try:
            data = os.read(handshake.fd, 65536)
        except BlockingIOError:
            return
        if not data:
            spawner().forget(handshake.fd)
            return
        leader = handshake.feed(data)  # raises if limits could not be set: then it must not run
        assert self._tree is not None
        if leader is not None and not self._tree.led:
            self._tree.lead(leader)
            if self._killing:
                self._tree.signal(gently=True)

    def _prepared(self) -> None:
        handshake = self._spawn.handshake
        assert handshake is not None
        self._news()  # it came before
        spawner().forget(handshake.ready)
        handshake.release()

    def _kill(self, reason: EndedBy) -> None:
        if self.done:
            return
        if not self._killing:
            self._ended_by = reason
        self._killing = True
        if self._tree is not None:
            self.deadline = time.monotonic() + REAP_SECONDS
            self._tree.signal(gently=True)

    def _extend(self, seconds: float) -> None:
        if not self._killing and not self.done:
            self._timeout, self.deadline = seconds, time.monotonic() + seconds

    def expire(self) -> None:
        """Handle a passed deadline."""
        if self._killing:
            self._end(reaped=False)
        else:
            self._kill("timeout")

    def _exited(self) -> None:
        """Handle the child's end. Inside a pid namespace all other processes end at once; wait until pid 1 has
        ended."""
        assert self._tree is not None
        if self._spawn.handshake is not None:
            self._news()
        if not self._tree.led:
            self._end()
            return
        if not self._killing:
            self._killing = True  # from here on only the reaping is waited for
            self.deadline = time.monotonic() + REAP_SECONDS
        self._tree.watch_leader(self._end, self)

    def _end(self, reaped: bool = True) -> None:
        tree = self._tree
        assert tree is not None
        tree.reap(now=reaped)
        stdout, stderr = self._streams.drain()
        code = tree.popen.returncode if self._ended_by == "exit" else None
        if self.error is None and code is not None:
            self.error = self._spawn.failure(stderr.excerpt().text, code)
        self.result = ProcessResult(
            exit_code=code if code is None or code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            ended_by=self._ended_by,
            stdout=stdout,
            stderr=stderr,
            duration=time.monotonic() - self.started,
            reaped=reaped,
        )
        self._finish()

    def _finish(self) -> None:
        if self.done:
            return
        self._streams.close()
        spawner().running.discard(self)
        if self._spawn.handshake is not None:
            for fd in (self._spawn.handshake.fd, self._spawn.handshake.ready):
                spawner().forget(fd)
        if self._tree is not None:
            self._tree.close()
        self._spawn.discard()
        with self._lock:
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def start(
    spawn: Spawn,
    *,
    timeout: float | None,
    limit: int = 10_000,
    open_spill: OpenSpill | None = None,
    interactive: bool = False,
    wire: Wire | None = None,
    input: bytes | None = None,  # noqa: A002
) -> Process:
    """Start a command. Never blocks; `wait` and `finished` raise a failure to spawn. `input` is all of its stdin,
    unless it is interactive. Raises SandboxUnavailable on Windows."""
    if os.name != "posix":
        raise SandboxUnavailable("Commands can be run on Linux and macOS only in this version.")
    process = Process(spawn, timeout, Streams(limit, open_spill, interactive, wire, input))
    try:
        # In this thread, one thread fewer has to be woken first. Nothing is lost: Python holds its lock until exec.
        if spawn.outlives_thread:
            process.launch()
    finally:
        process.begin_soon()
    return process


async def run(
    spawn: Spawn, *, timeout: float | None, limit: int = 10_000, open_spill: OpenSpill | None = None
) -> ProcessResult:
    """Run a command to its end. `limit` characters of each stream are returned, the rest goes to the spill."""
    return await start(spawn, timeout=timeout, limit=limit, open_spill=open_spill).finished()
