"""Find and end the processes that an unsandboxed command left behind in other sessions.

This works only after `become_subreaper`: then orphans of our commands become our children and are found by the marker
in their environment. Our command line and server call it. A library must not, because it changes which process reaps
the orphans of everything else in the host application.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

MARKER = "TOOLCRIB_COMMAND"  # a variable whose value no other command has
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_SWEEP_SECONDS = 2.0

_subreaper = False


def become_subreaper() -> bool:
    """Make orphans of our commands our children, so that `sweep` finds them. Return False if the system cannot."""
    global _subreaper
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    _subreaper = libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return _subreaper


def sweep(session: int, marker: str) -> int:
    """End every orphan of one command: in the session `session` or with `marker` in its environment. Return their
    number."""
    if not _subreaper:
        return 0
    ended = 0
    until = time.monotonic() + _SWEEP_SECONDS
    while time.monotonic() < until:
        ours = [pid for pid in _children() if pid != session and _belongs(pid, session, marker)]
        if not ours:
            break
        for pid in ours:
            ended += _end(pid)  # its children become ours, and are found in the next round
    return ended


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


def _end(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return 0
    return 1
