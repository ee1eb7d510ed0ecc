"""End a running command with all its processes, and notice its end: by its process group and by pid 1 of its sandbox.

An unsandboxed command can leave processes behind in other sessions. They are ended only after `claim_process`: then
orphans of our commands become our children and are found by the marker in their environment. Our command line and
server call it. A library must not, because it changes which process reaps the orphans of everything else in the host
application. Everything else happens in the process thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from .descriptors import closing_fd
from .group_watcher import group_watcher
from .per_process import PerProcess
from .spawner import Watched, spawner

log = logging.getLogger("toolcrib.boundary")

MARKER = "TOOLCRIB_COMMAND"  # a variable whose value no other command has: it begins with the process that started it
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36  # linux/prctl.h
_SWEEP_SECONDS = 2.0
_ENDING_MS = 500

_subreaper = False


def new_marker() -> str:
    """Return the marker of a new command."""
    return f"{_this_process()}.{secrets.token_hex(8)}"


_this_process = PerProcess(lambda: f"{os.getpid()}.{began(os.getpid())}")


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

    If it is `watched`, its process group is known to the watcher until it has ended.
    """

    def __init__(
        self, popen: subprocess.Popen[bytes], marker: str, stop: Callable[[], None] | None, watched: bool
    ) -> None:
        self.popen = popen
        self._watched = watched
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
        """Call back when the child itself has ended. `owner` is the command that fails if the callback fails; no
        reference to it is stored, so that it is freed in time."""
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
            _sweep(self.popen.pid, self._marker)

    def close(self) -> None:
        """Stop watching."""
        if self._watched:
            self._watched = False
            group_watcher().remove(self.popen.pid)
        for fd in (self._exit_fd, self._leader_fd):
            if fd is not None:
                spawner().forget(fd)
                os.close(fd)
        self._exit_fd = self._leader_fd = None


# --- what an unsandboxed command left behind


def claim_process() -> bool:
    """Take the whole process for ourselves: orphans of our commands become our children, so that `_sweep` finds them,
    and no other process of the same user can read our memory, environment and open files, in which tokens are (root
    can). Return False if the system cannot."""
    global _subreaper
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _subreaper = libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return _subreaper


def hide_argument(secret: str) -> None:
    """Overwrite a secret in our own command line, which every user of the machine can read in /proc (Linux)."""
    if sys.platform != "linux" or not secret:
        return
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    at = ctypes.string_at(start, end - start).find(os.fsencode(secret))
    if at >= 0:
        ctypes.memset(start + at, ord("*"), len(os.fsencode(secret)))


def _sweep(session: int, marker: str) -> None:
    """End every orphan of one command: in the session `session` or with `marker` in its environment."""
    if not _subreaper:
        return
    until = time.monotonic() + _SWEEP_SECONDS
    while time.monotonic() < until:
        ours = [pid for pid in _children() if pid != session and _belongs(pid, session, marker)]
        if not ours:
            break
        for pid in ours:
            _end(pid)  # its children become ours, and are found in the next round
    else:
        log.warning("a command started processes faster than they could be ended: some of them may still run")


def _children() -> list[int]:
    pids: list[int] = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                pids += [int(pid) for pid in file.read().split()]
        except OSError:
            continue
    return pids


def _belongs(pid: int, session: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if int(fields[3]) == session:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARKER}={marker}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def end_left_behind() -> None:
    """End the sandboxes that processes left behind that were killed before the command in them began: they wait for
    their release for ever. Blocks for some milliseconds."""
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit() and _is_left_behind(name):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)


def _is_left_behind(pid: str) -> bool:
    try:
        marked = re.search(rb"(?:^|\0)%s=(\d+)\.(\d+)\." % MARKER.encode(), Path(f"/proc/{pid}/environ").read_bytes())
        if marked is None or b"\0--block-fd\0" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    numbers = re.findall(r"^NSpid:\t(.*)", status, re.MULTILINE)[0].split()
    is_here = numbers[1:] in ([], ["1"])  # not in a container: there the numbers of processes mean others
    return is_here and began(int(marked[1])) != int(marked[2])


def began(pid: int) -> int:
    """Return when a process began, in ticks of the system; 0 if there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
