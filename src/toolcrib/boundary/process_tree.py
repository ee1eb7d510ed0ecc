"""End a running command and notice its end, by its process group and by pid 1 of its sandbox.

Everything happens in the process thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable

from .descriptors import closing_fd
from .orphans import sweep
from .spawner import Watched, spawner

_ENDING_MS = 500


def has_ended(pid: int) -> bool:
    """Return whether a process has ended or is about to end: it loses its namespaces before it counts as ended."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return True
    with closing_fd(fd):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(_ENDING_MS))


class ProcessTree:
    """The processes of one command. `stop` ends the command if its launcher has a better way than signals.

    `owner` is the command that fails if a callback fails; no reference to it is stored, so that it is freed in time.
    """

    def __init__(self, popen: subprocess.Popen[bytes], marker: str, stop: Callable[[], None] | None) -> None:
        self.popen = popen
        self._marker = marker
        self._stop = stop
        self._exit_fd: int | None = None  # a pidfd of the child
        self._leader_fd: int | None = None  # a pidfd of pid 1 inside

    @property
    def led(self) -> bool:
        """Return whether pid 1 of a sandbox is known. All other processes end with it."""
        return self._leader_fd is not None

    def lead(self, leader: int) -> None:
        """Set pid 1 of the sandbox."""
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._leader_fd = os.pidfd_open(leader)

    def watch_exit(self, exited: Callable[[], None], owner: Watched) -> None:
        """Call back when the child itself has ended."""
        if hasattr(os, "pidfd_open"):
            self._exit_fd = os.pidfd_open(self.popen.pid)
            spawner().watch(self._exit_fd, lambda: self._child_gone(exited), owner)
            return

        def wait() -> None:  # no pidfd (macOS): one thread a command
            self.popen.wait()
            spawner().call(exited)

        threading.Thread(target=wait, name="toolcrib-wait", daemon=True).start()

    def _child_gone(self, exited: Callable[[], None]) -> None:
        if self._exit_fd is not None:
            spawner().forget(self._exit_fd)
        exited()

    def watch_leader(self, gone: Callable[[], None], owner: Watched) -> None:
        """Call back when pid 1 of the sandbox has ended, and all processes inside with it."""
        assert self._leader_fd is not None
        spawner().watch(self._leader_fd, lambda: self._leader_gone(gone), owner)

    def _leader_gone(self, gone: Callable[[], None]) -> None:
        assert self._leader_fd is not None
        spawner().forget(self._leader_fd)
        with contextlib.suppress(OSError):  # ours only if we are a subreaper or pid 1
            os.waitid(os.P_PIDFD, self._leader_fd, os.WEXITED | os.WNOHANG)
        gone()

    def signal(self, gently: bool = False) -> None:
        """Send SIGKILL to the process group, and to pid 1 of the sandbox, which ends all processes inside.

        `gently` lets the launcher end its command instead, if it has a better way.
        """
        if gently and self._stop is not None:
            self._stop()
            return
        self.signal_group(signal.SIGKILL)
        if self._leader_fd is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._leader_fd, signal.SIGKILL)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process group of the child, if the child is not reaped yet."""
        if self.popen.returncode is None:  # so the number is still theirs
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.popen.pid, number)

    def reap(self, now: bool) -> None:
        """Kill the processes that the command left behind, and reap the child: `now`, or when it ends."""
        self.signal()  # the process group; before reaping frees the number
        if now:
            self.popen.wait()
        else:
            spawner().reap_later(self.popen)
        if self._leader_fd is None:
            sweep(self.popen.pid, self._marker)

    def close(self) -> None:
        """Stop watching."""
        for fd in (self._exit_fd, self._leader_fd):
            if fd is not None:
                spawner().forget(fd)
                os.close(fd)
        self._exit_fd = self._leader_fd = None
