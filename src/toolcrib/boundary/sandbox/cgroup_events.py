"""Report which limits of its control group a command reached. The kernel counts; the output gets a sentence for each
limit.

Without these sentences, a command with many processes only sees that some of them fail. In version 1 all commands of
this process share a group, so another command that ran at the same time may be the cause.
"""

from __future__ import annotations

import threading

from .cgroup import CommandGroup, new_group, shared_folders
from .settings import CommandLimits

# controller: the file with its counts, and the name of the count that matters
_V1 = {"memory": ("memory.oom_control", "oom_kill"), "pids": ("pids.events", "max")}
_V2 = {"memory": ("memory.events", "oom_kill"), "pids": ("pids.events", "max")}

_lock = threading.Lock()
_running: set[CgroupEvents] = set()


class CgroupEvents:
    """The control group of one command, from its start to its end. Without a group nothing is counted."""

    def __init__(self, limits: CommandLimits) -> None:
        self._limits = limits
        self._group: CommandGroup | None = None
        self._before: dict[str, int] = {}
        self._hit: set[str] = set()
        self._alone = True

    def begin(self, pid: int) -> None:
        """Put the command's first process into a group, if one can be created, and begin to count."""
        self._group = new_group(self._limits)
        if self._group is not None:
            self._group.add(pid)
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
            self._group.remove()

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
            return {name: _count(f"{self._group.folder}/{file}", word) for name, (file, word) in _V2.items()}
        folders = shared_folders()
        return {name: _count(f"{folders[name]}/{file}", word) for name, (file, word) in _V1.items() if name in folders}


def _count(path: str, word: str) -> int:
    """Return the number after a name; 0 if the kernel does not count it."""
    try:
        with open(path) as file:
            counts = dict(line.split() for line in file)
        return int(counts.get(word, 0))
    except (OSError, ValueError):
        return 0
