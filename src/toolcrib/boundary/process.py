"""Runs commands: bounded output, a time limit that holds, and nothing left behind.

There is no `preexec_fn`: it would force a fork of the whole host and is unsafe beside other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..core.errors import SandboxUnavailable
from .capture import Capture, OpenSpill
from .orphans import MARKER, new_marker, sweep
from .spawn import Spawn
from .spawner import BUFFER_BYTES, spawner

REAP_SECONDS = 5.0  # how long a killed command may take to vanish before we answer without it
_DRAIN_BYTES = 4 << 20  # what is still read after the command has ended
_CHATTY_BYTES = 1 << 20  # a command that printed more than this is read in larger pieces
_BREATH_SECONDS = 0.0002  # a pipe of 1 MiB takes longer to fill, so the command does not wait
_STDIN_BYTES = 1 << 20  # how much input may wait for a session that does not read

EndedBy = Literal["exit", "timeout", "cancelled", "killed"]
Wire = Callable[[int, int], object]
"""`wire(stdout, stdin)` takes over our ends of these two pipes, not blocking and its own to close. It is called in the
process thread as soon as the command runs; stderr is captured as ever."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended. `exit_code` is None when it did not end by itself; `signal` is one that was not ours."""

    exit_code: int | None
    signal: int | None
    ended_by: EndedBy
    stdout: Capture
    stderr: Capture
    duration: float
    reaped: bool = True

    @property
    def timed_out(self) -> bool:
        return self.ended_by == "timeout"


class Process:
    """A started command. Everything but the public methods happens in the process thread."""

    def __init__(
        self,
        spawn: Spawn,
        *,
        timeout: float | None,
        limit: int,
        open_spill: OpenSpill | None = None,
        interactive: bool = False,
        wire: Wire | None = None,
        input: bytes | None = None,  # noqa: A002
    ) -> None:
        self.result: ProcessResult | None = None
        self.error: BaseException | None = None
        self.started = time.monotonic()
        self._spawn = spawn
        self._timeout = timeout
        self._limit = limit
        self._open_spill = open_spill
        self._interactive = interactive  # takes input now; the last may come before the command begins
        self._has_stdin = interactive or input is not None
        self._wire = wire
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._captures = [Capture(limit, name, open_spill) for name in ("stdout", "stderr")]
        self._ended_by: EndedBy = "exit"
        self._deadline: float | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._streams: dict[int, int] = {}  # file descriptor → index of its capture
        self._exit_fd: int | None = None  # a pidfd of the child
        self._leader_fd: int | None = None  # a pidfd of pid 1 inside
        self._stdin: int | None = None
        self._pending = bytearray(input or b"")
        self._marker = ""
        self._killing = False

    # --- from any thread ---------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def kill(self, reason: EndedBy = "killed") -> None:
        """End the whole tree; the result follows within REAP_SECONDS."""
        spawner().call(lambda: self._kill(reason))

    def terminate(self) -> None:
        """Ask the process group to end itself (SIGTERM). Whoever asks waits, and kills what does not."""
        spawner().call(lambda: self._signal_group(signal.SIGTERM))

    @property
    def pid(self) -> int | None:
        """The pid of what was started; None before that."""
        return None if self._popen is None else self._popen.pid

    def errors(self) -> str:
        """What the command has printed to stderr so far, its two ends."""
        with self._lock:
            return self._captures[1].excerpt().text

    def extend(self, seconds: float) -> None:
        """Let it run for that long from now on, and no longer."""
        spawner().call(lambda: self._extend(seconds))

    @property
    def idle_output(self) -> bool:
        """Whether nothing was printed since the last `take`."""
        return not any(capture.total for capture in self._captures)

    def wait(self, timeout: float | None = None) -> ProcessResult | None:
        """Block until the command has ended. None if `timeout` came first."""
        if not self._done.wait(timeout):
            return None
        if self.error is not None:
            raise self.error
        return self.result

    def end(self, timeout: float) -> None:
        """Kill it and wait up to `timeout` seconds. For the end of the process."""
        self.kill()
        self._done.wait(timeout)

    async def settled(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end, without touching the command. Whether it came."""
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
            await self.settled(REAP_SECONDS + 1)
            raise
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

        self.when_done(wake)
        await future

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back, in the process thread, when the command has ended; at once if it has."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def take(self) -> tuple[Capture, Capture]:
        """What was printed since the last `take` (or the start), and begin anew."""
        fresh = [Capture(self._limit, name, self._open_spill) for name in ("stdout", "stderr")]
        with self._lock:
            taken, self._captures = self._captures, fresh
        for capture in taken:
            capture.close()
        return taken[0], taken[1]

    def write(self, data: bytes, *, end: bool = False) -> bool:
        """Queue input for an interactive command, perhaps the last. False if it takes none (any more)."""
        with self._lock:
            if not self._interactive or self.done or len(self._pending) + len(data) > _STDIN_BYTES:
                return False
            self._pending += data
            if end:
                self._interactive = False
        spawner().call(self._flush)
        return True

    # --- in the process thread ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Spawn. A failure to do so becomes the error that waiters get."""
        try:
            self._start()
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Something of ours went wrong: the error is the outcome, and nothing may be left running."""
        self.error = self.error or error
        if self._popen is not None:
            self._signal(gently=True)
            spawner().reap_later(self._popen)
        self._finish()

    def _start(self) -> None:
        spawn, thread = self._spawn, spawner()
        spawn.prepare()
        self._marker = new_marker()
        env = {**spawn.env, MARKER: self._marker}
        pipes = [_pipe(), _pipe()]
        stdin = subprocess.DEVNULL
        if self._has_stdin or self._wire is not None:
            stdin, self._stdin = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        try:
            self._popen = subprocess.Popen(
                spawn.argv,
                stdin=stdin,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                cwd=spawn.cwd,
                env=env,
                pass_fds=spawn.child_fds,
                start_new_session=True,
            )
        except BaseException:
            for read_end, _ in pipes:
                os.close(read_end)
            raise
        finally:
            for _, write_end in pipes:
                os.close(write_end)
            if stdin != subprocess.DEVNULL:
                os.close(stdin)
            spawn.close_child_fds()
        self.started = time.monotonic()
        if self._timeout is not None:
            self._deadline = self.started + self._timeout
        thread.running.add(self)
        if self._wire is not None:
            self._hand_over(self._wire, pipes[0][0])
        for index, (read_end, _) in enumerate(pipes):
            if index == 0 and self._wire is not None:
                continue
            os.set_blocking(read_end, False)
            self._streams[read_end] = index
            thread.watch(read_end, self._readable(read_end), self)
        if self._stdin is not None:
            os.set_blocking(self._stdin, False)
        if spawn.handshake is not None:
            os.set_blocking(spawn.handshake.fd, False)
            thread.watch(spawn.handshake.fd, self._news, self)
        self._watch_exit()
        if self._stdin is not None and (self._pending or not self._interactive):
            self._flush()
        if self._killing:  # cancelled before it began
            self._kill(self._ended_by)

    def _hand_over(self, wire: Wire, stdout: int) -> None:
        stdin, self._stdin = self._stdin, None
        assert stdin is not None
        for fd in (stdout, stdin):
            os.set_blocking(fd, False)
        wire(stdout, stdin)

    def _watch_exit(self) -> None:
        popen = self._popen
        assert popen is not None
        if hasattr(os, "pidfd_open"):
            self._exit_fd = os.pidfd_open(popen.pid)
            spawner().watch(self._exit_fd, self._exited, self)
            return

        def wait() -> None:  # no pidfd (macOS): one thread a command
            popen.wait()
            spawner().call(self._exited)

        threading.Thread(target=wait, name="toolcrib-wait", daemon=True).start()

    def _readable(self, fd: int) -> Callable[[], object]:
        return lambda: self._read_on(fd)

    def _read_on(self, fd: int) -> None:
        size = self._read(fd)
        if 0 < size < BUFFER_BYTES // 8 and self._captures[self._streams[fd]].total > _CHATTY_BYTES:
            # Let the pipe fill: reading every few kilobytes as they come costs three times the processor time.
            time.sleep(_BREATH_SECONDS)

    def _read(self, fd: int) -> int:
        """Read once. Bytes read; 0 at the end of the stream, -1 if there is nothing now."""
        thread = spawner()
        try:
            size = os.readv(fd, [thread.buffer])
        except BlockingIOError:
            return -1
        if size == 0:
            self._close_stream(fd)
            return 0
        with self._lock:
            self._captures[self._streams[fd]].feed(thread.view[:size])
        return size

    def _close_stream(self, fd: int) -> None:
        spawner().forget(fd)
        self._streams.pop(fd)
        os.close(fd)

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
        if leader is not None and self._leader_fd is None:
            with contextlib.suppress(ProcessLookupError):  # gone already
                self._leader_fd = os.pidfd_open(leader)
            if self._killing:
                self._signal(gently=True)

    def _flush(self) -> None:
        with self._lock:
            if self._stdin is None:
                return
            try:
                while self._pending:
                    del self._pending[: os.write(self._stdin, bytes(self._pending[:65536]))]
            except BlockingIOError:
                spawner().watch(self._stdin, self._flush, self, selectors.EVENT_WRITE)
                return
            except OSError:
                self._interactive = False
                self._pending.clear()
            spawner().forget(self._stdin)
            if not self._interactive:
                os.close(self._stdin)
                self._stdin = None

    def _kill(self, reason: EndedBy) -> None:
        if self.done:
            return
        if not self._killing:
            self._ended_by = reason
        self._killing = True
        if self._popen is not None:
            self._deadline = time.monotonic() + REAP_SECONDS
            self._signal(gently=True)

    def _extend(self, seconds: float) -> None:
        if not self._killing and not self.done:
            self._timeout, self._deadline = seconds, time.monotonic() + seconds

    def _signal(self, gently: bool = False) -> None:
        """SIGKILL to the process group, and to pid 1 of the sandbox, which takes everything inside with it.

        `gently` leaves it to a launcher that knows better how to end its command.
        """
        popen = self._popen
        assert popen is not None
        if gently and self._spawn.stop is not None:
            self._spawn.stop()
            return
        self._signal_group(signal.SIGKILL)
        if self._leader_fd is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._leader_fd, signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        popen = self._popen
        if popen is not None and popen.returncode is None:  # not reaped yet, so the number is still theirs
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(popen.pid, number)

    def expire(self, now: float) -> None:
        """Called when the deadline has passed: first of the command, then of its being reaped."""
        if self._deadline is None or now < self._deadline:
            return
        if self._killing:
            self._end(reaped=False)
        else:
            self._kill("timeout")

    @property
    def deadline(self) -> float | None:
        return self._deadline

    def _exited(self) -> None:
        """The child is gone. Inside a pid namespace the rest follows at once; wait for pid 1 to say so."""
        thread = spawner()
        if self._exit_fd is not None:
            thread.forget(self._exit_fd)
        if self._spawn.handshake is not None:
            self._news()
        if self._leader_fd is None:
            self._end()
            return
        if not self._killing:
            self._killing = True  # from here on only the reaping is waited for
            self._deadline = time.monotonic() + REAP_SECONDS
        thread.watch(self._leader_fd, self._leader_gone, self)

    def _leader_gone(self) -> None:
        assert self._leader_fd is not None
        spawner().forget(self._leader_fd)
        with contextlib.suppress(OSError):  # ours only if we are a subreaper or pid 1
            os.waitid(os.P_PIDFD, self._leader_fd, os.WEXITED | os.WNOHANG)
        self._end()

    def _end(self, reaped: bool = True) -> None:
        popen = self._popen
        assert popen is not None
        thread = spawner()
        self._signal()  # what the command left behind in its process group; before reaping frees the number
        if reaped:
            popen.wait()
        else:
            thread.reap_later(popen)
        if self._leader_fd is None:
            sweep(popen.pid, self._marker)
        left = _DRAIN_BYTES
        for fd in list(self._streams):
            while left > 0 and (size := self._read(fd)) > 0:
                left -= size
            if fd in self._streams:
                self._close_stream(fd)
        code = popen.returncode if self._ended_by == "exit" else None
        for capture in self._captures:
            capture.close()
        if self.error is None and self._spawn.handshake is not None and code is not None:
            self.error = self._spawn.handshake.failure(self._captures[1].excerpt().text, code)
        self.result = ProcessResult(
            exit_code=code if code is None or code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            ended_by=self._ended_by,
            stdout=self._captures[0],
            stderr=self._captures[1],
            duration=time.monotonic() - self.started,
            reaped=reaped,
        )
        self._finish()

    def _finish(self) -> None:
        if self.done:
            return
        thread = spawner()
        for fd in list(self._streams):
            self._close_stream(fd)
        thread.running.discard(self)
        with self._lock:
            self._interactive = False
            if self._stdin is not None:
                thread.forget(self._stdin)
                os.close(self._stdin)
                self._stdin = None
        if self._spawn.handshake is not None:
            thread.forget(self._spawn.handshake.fd)
        for fd in (self._exit_fd, self._leader_fd):
            if fd is not None:
                thread.forget(fd)
                os.close(fd)
        self._exit_fd = self._leader_fd = None
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
    """Start a command. Never blocks; a failure to spawn is raised by `wait` and `finished`. `input` is all that its
    stdin has, unless it is interactive."""
    if os.name != "posix":
        raise SandboxUnavailable("Commands can be run on Linux and macOS only in this version.")
    process = Process(
        spawn, timeout=timeout, limit=limit, open_spill=open_spill, interactive=interactive, wire=wire, input=input
    )
    spawner().call(process.begin)
    return process


async def run(
    spawn: Spawn, *, timeout: float | None, limit: int = 10_000, open_spill: OpenSpill | None = None
) -> ProcessResult:
    """Run a command to its end: `limit` characters of each stream are kept, the rest goes to the spill."""
    return await start(spawn, timeout=timeout, limit=limit, open_spill=open_spill).finished()


def _pipe() -> tuple[int, int]:
    read_end, write_end = os.pipe()
    with contextlib.suppress(OSError, AttributeError):  # over the user's pipe quota, or not Linux
        import fcntl

        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, BUFFER_BYTES)
    return read_end, write_end
