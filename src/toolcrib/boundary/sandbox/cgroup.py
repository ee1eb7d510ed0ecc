"""Control groups around commands, where we may create them: they limit memory and process count of whole process trees.

Version 2: one group per command, a sibling of our group, if the parent is delegated to us with the controllers enabled
(the usual case in a systemd user session). Version 1 (root): one group for all commands of this process. The thread
that spawns the commands joins it, because moving a process into a group costs 5 ms per command, and starting in it
costs nothing (measured on Linux 6.18). Anywhere else there are no groups, and only the limits of each process apply.

The kernel counts which limits a command reached, and the output gets a sentence for each: without it, a command with
many processes only sees that some of them fail. In version 1 another command that ran at the same time may be the
cause.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import glob
import itertools
import os
import threading
import time
from collections import deque

from ...core.dataclass import dataclass
from ..descriptors import closing_fd
from ..spawner import end_all
from .settings import CommandLimits, most_memory

_ROOT = "/sys/fs/cgroup"
_PREFIX = "toolcrib-"
_FILES = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
# controller: the file with its counts, and the name of the count that matters
_V1 = {"memory": ("memory.oom_control", "oom_kill"), "pids": ("pids.events", "max")}
_V2 = {"memory": ("memory.events", "oom_kill"), "pids": ("pids.events", "max")}
_counter = itertools.count(1)
_leftovers: deque[str] = deque(maxlen=1000)


@dataclass(frozen=True, slots=True)
class Places:
    """The places for groups: a folder of version 2, or a folder for each controller of version 1."""

    unified: str | None = None
    controllers: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return self.unified is not None or bool(self.controllers)


@functools.cache
def places() -> Places:
    """Return where this process may create groups. Looking does not create anything."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return Places()
    found: list[tuple[str, str]] = []
    for _, controllers, path in lines:
        if not controllers:
            parent = os.path.dirname(_ROOT + path.rstrip("/"))
            if path != "/" and _is_delegated(parent):
                return Places(unified=parent)
        for controller in _FILES:
            folder = f"{_ROOT}/{controller}{path}".rstrip("/")
            if controller in controllers.split(",") and os.access(f"{folder}/tasks", os.W_OK):
                found.append((controller, folder))
    return Places(controllers=tuple(found))


def new_group(limits: CommandLimits) -> str | None:
    """Create a group for one command, if version 2 is available. Return its folder."""
    parent = places().unified
    if parent is None:
        return None
    folder = f"{parent}/{_PREFIX}{os.getpid()}-{next(_counter)}"
    try:
        os.mkdir(folder)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        _write(f"{folder}/memory.max", str(limits.memory or most_memory()))
        _write(f"{folder}/pids.max", str(limits.processes))
        _write(f"{folder}/memory.oom.group", "1")
    return folder


_here = threading.local()  # the limits with which a thread has joined
_leaving: set[int] = set()  # the processes that will leave at exit


def join_group(limits: CommandLimits) -> None:
    """Put the calling thread, and the processes and threads that it will start, into this process's group of version
    1."""
    joined: set[CommandLimits] = _here.__dict__.setdefault("joined", set())
    if limits in joined or not places().controllers:
        return
    first = os.getpid() not in _leaving
    joined.add(limits)
    for controller, parent in places().controllers:
        folder = shared_folders()[controller]
        value = limits.processes if controller == "pids" else limits.memory or most_memory()
        with contextlib.suppress(OSError):
            if first:
                _remove_stale(parent)
            os.makedirs(folder, exist_ok=True)
            _write(f"{folder}/{_FILES[controller]}", str(value))
            _write(f"{folder}/tasks", str(threading.get_native_id()))
    if first:
        _leaving.add(os.getpid())
        atexit.register(_leave, os.getpid())


def shared_folders() -> dict[str, str]:
    """Return the groups of version 1 that the commands of this process share, by controller."""
    return {controller: f"{parent}/{_PREFIX}{os.getpid()}" for controller, parent in places().controllers}


def _leave(pid: int) -> None:
    """At exit, move our threads out and remove the groups, once the commands in them have ended."""
    if os.getpid() != pid:
        return
    end_all()
    for _, parent in places().controllers:
        with contextlib.suppress(OSError), open(f"{parent}/{_PREFIX}{pid}/tasks") as file:
            for thread in {*file.read().split()} & {*os.listdir("/proc/self/task")}:
                _write(f"{parent}/tasks", thread)
        for pause in (0, 0.001, 0.01, 0.05):
            time.sleep(pause)
            if _remove(f"{parent}/{_PREFIX}{pid}"):
                break


def _remove_stale(parent: str) -> None:
    """Remove groups of processes that were killed before they could remove them."""
    for folder in glob.glob(f"{parent}/{_PREFIX}*"):
        owner = folder.rpartition(_PREFIX)[2].partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            _remove(folder)


def _remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _is_delegated(folder: str) -> bool:
    try:
        with open(f"{folder}/cgroup.subtree_control") as file:
            enabled = file.read().split()
    except OSError:
        return False
    writable = os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK)
    return {"memory", "pids"} <= set(enabled) and writable


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


_lock = threading.Lock()
_running: set[CgroupEvents] = set()


class CgroupEvents:
    """The control group of one command, from its start to its end. Without a group nothing is counted."""

    def __init__(self, limits: CommandLimits) -> None:
        self._limits = limits
        self._group: str | None = None  # the folder of version 2
        self._before: dict[str, int] = {}
        self._hit: set[str] = set()
        self._alone = True

    def begin(self, pid: int) -> None:
        """Put the command's first process into a group, if one can be created, and begin to count."""
        self._group = new_group(self._limits)
        if self._group is not None:
            with contextlib.suppress(OSError):  # gone, or not delegated after all
                _write(f"{self._group}/cgroup.procs", str(pid))
        with _lock:
            for other in _running:
                other._alone = self._alone = False
            _running.add(self)
        self._before = self._counts()

    def end(self) -> None:
        """Read the counts for the last time, and release the group."""
        with _lock:
            _running.discard(self)
        after = self._counts()
        self._hit = {name for name, before in self._before.items() if after.get(name, 0) > before}
        if self._group is not None:
            _leftovers.append(self._group)  # if the kernel still uses it, it is removed after a later command
            for folder in [_leftovers.popleft() for _ in range(len(_leftovers))]:
                if not _remove(folder):
                    _leftovers.append(folder)

    def notes(self) -> list[str]:
        """Return notes for the reader of the command's output. Call it after the command's end."""
        who = "it" if self._alone or self._group is not None else "it, or a command that ran at the same time,"
        found: list[str] = []
        if "pids" in self._hit:
            found.append(
                f"[{who} reached the limit of {self._limits.processes:,} processes (sandbox.limits.processes); "
                "starting more failed]"
            )
        if "memory" in self._hit:
            found.append(
                f"[{who} reached the limit of memory for all its processes (sandbox.limits.memory); some were killed]"
            )
        return found

    def _counts(self) -> dict[str, int]:
        if self._group is not None:
            return {name: _count(f"{self._group}/{file}", word) for name, (file, word) in _V2.items()}
        folders = shared_folders()
        return {name: _count(f"{folders[name]}/{file}", word) for name, (file, word) in _V1.items() if name in folders}


def _count(path: str, word: str) -> int:
    """Return the number after a name; 0 if the kernel does not count it."""
    try:
        with closing_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
            words = os.read(fd, 4096).decode().split()
        return int(words[words.index(word) + 1])
    except (OSError, ValueError, IndexError):
        return 0
