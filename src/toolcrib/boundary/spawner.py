"""One thread spawns every command, reads the output of all of them and watches the clock.

It is a daemon thread that lives as long as the process, because bubblewrap's `--die-with-parent` takes effect when the
*thread* that spawned it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from .group_watcher import group_watcher
from .per_process import PerProcess

BUFFER_BYTES = 1 << 20  # the default pipe-max-size of Linux; fewer wake-ups for chatty commands
_EXIT_SECONDS = 1.0  # how long the end of the process waits for commands to end


class Watched(Protocol):
    """The thread's data about a command."""

    deadline: float | None

    def expire(self) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def end(self, timeout: float) -> None: ...


_Callback = Callable[[], object]


class Spawner:
    """An event loop: a poll over every pipe and pidfd, an inbox of callables, and deadlines. Use `spawner()`."""

    def __init__(self) -> None:
        self.running: set[Watched] = set()
        self.buffer = bytearray(BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self._poll = select.poll()  # it costs less than `selectors`
        self._watched: dict[int, tuple[_Callback, Watched | None]] = {}
        self._inbox: deque[_Callback] = deque()
        self._unreaped: list[subprocess.Popen[bytes]] = []
        self._wake_read, self._wake_write = os.pipe()
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        self._watched[self._wake_read] = (self._drain_wake, None)
        self._poll.register(self._wake_read, select.POLLIN)
        threading.Thread(target=self._run, name="toolcrib-processes", daemon=True).start()

    def call(self, fn: _Callback) -> None:
        """Run `fn` in the thread, soon. Any thread may call this; only this thread may call the methods below."""
        self._inbox.append(fn)
        with contextlib.suppress(BlockingIOError):  # it is full of wake-ups already
            os.write(self._wake_write, b"w")

    def watch(self, fd: int, fn: _Callback, owner: Watched, *, write: bool = False) -> None:
        """Call `fn` whenever `fd` is ready to be read, or written. If it raises, `owner` fails."""
        if fd not in self._watched:
            self._poll.register(fd, select.POLLOUT if write else select.POLLIN)
            self._watched[fd] = (fn, owner)

    def forget(self, fd: int) -> None:
        """Stop watching `fd`."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def reap_later(self, popen: subprocess.Popen[bytes]) -> None:
        """Check from time to time whether a child that did not end has ended."""
        self._unreaped.append(popen)

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _run(self) -> None:
        while True:
            patience = self._patience()
            ready = self._poll.poll(None if patience is None else patience * 1000)
            for fd, watched in [(fd, self._watched[fd]) for fd, _ in ready]:
                if self._watched.get(fd) is watched:  # an earlier callback of this round may have removed it
                    self._guarded(*watched)
            while self._inbox:
                self._inbox.popleft()()
            self._unreaped = [popen for popen in self._unreaped if popen.poll() is None]
            now = time.monotonic()
            for process in list(self.running):
                if process.deadline is not None and now >= process.deadline:
                    self._guarded(process.expire, process)

    def _patience(self) -> float | None:
        deadlines = [process.deadline for process in self.running if process.deadline is not None]
        if self._unreaped:
            deadlines.append(time.monotonic() + 1.0)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _guarded(self, fn: _Callback, owner: Watched | None) -> None:
        try:
            fn()
        except Exception as error:  # one broken command must not end the thread of all
            if owner is not None:
                owner.fail(error)


spawner = PerProcess(Spawner)
"""Return the spawner of this process; its thread starts at the first call."""


@atexit.register
def end_all() -> None:
    """End every command that still runs. This happens at the end of the process; sandboxed commands end anyway."""
    if spawner.made is not None:
        until = time.monotonic() + _EXIT_SECONDS
        for process in list(spawner.made.running):
            process.end(max(0.0, until - time.monotonic()))
    if group_watcher.made is not None:
        group_watcher.made.close()


def end_at_once_on_signals() -> None:
    """From now on a signal ends this process at once, and its commands and servers first. For a program that is about
    to end: without this, a second signal would leave them behind."""
    if os.name == "posix" and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _end_at_once)


def _end_at_once(number: int, _: object) -> None:
    end_all()
    os._exit(128 + number)
