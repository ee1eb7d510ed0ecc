"""A control group around one command, where we may make one: memory and process count of the whole tree.

Version 2: a sibling of our own group, if the parent is delegated to us with the controllers switched on (the usual
case in a systemd user session). Version 1: a child of our own group in the memory and pids hierarchies (root).
Anywhere else there is none, and the limits of each process have to do.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import deque
from dataclasses import dataclass

from .spec import Limits

_ROOT = "/sys/fs/cgroup"
_counter = itertools.count(1)
_leftovers: deque[str] = deque(maxlen=1000)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where groups can be made, and the files that hold their limits: (file, which limit)."""

    folder: str
    files: tuple[tuple[str, str], ...]


class Cgroup:
    """The folders of one command's groups (one in version 2, one a hierarchy in version 1)."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders

    def add(self, pid: int) -> None:
        """Move a process in; its later children follow."""
        for folder in self.folders:
            with contextlib.suppress(OSError):  # gone, or not delegated after all
                _write(f"{folder}/cgroup.procs", str(pid))

    def remove(self) -> None:
        """Remove the groups; one that the kernel is not done with yet, after a later command."""
        _leftovers.extend(self.folders)
        for folder in [_leftovers.popleft() for _ in range(len(_leftovers))]:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                _leftovers.append(folder)


def new_cgroup(limits: Limits) -> Cgroup | None:
    """Groups with these limits; None where none can be made."""
    places = _places()
    if not places:
        return None
    values = {"memory": limits.memory or _most_memory(), "processes": limits.processes}
    name = f"toolcrib-{os.getpid()}-{next(_counter)}"
    made: list[str] = []
    for place in places:
        folder = f"{place.folder}/{name}"
        try:
            os.mkdir(folder)
            made.append(folder)
            for file, field in place.files:
                _write(f"{folder}/{file}", str(values[field]))
        except OSError:
            continue
    return Cgroup(made) if made else None


@functools.cache
def _places() -> tuple[_Place, ...]:
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ()
    places: list[_Place] = []
    for _, controllers, path in lines:
        if not controllers and os.path.exists(f"{_ROOT}/cgroup.controllers"):
            parent = os.path.dirname(_ROOT + path.rstrip("/"))
            if path != "/" and _has_controllers(parent) and os.access(f"{parent}/cgroup.procs", os.W_OK):
                places.append(_Place(parent, (("memory.max", "memory"), ("pids.max", "processes"))))
        for controller, file, field in (
            ("memory", "memory.limit_in_bytes", "memory"),
            ("pids", "pids.max", "processes"),
        ):
            folder = f"{_ROOT}/{controller}{path}".rstrip("/")
            if controller in controllers.split(",") and os.access(folder, os.W_OK) and os.path.isdir(folder):
                places.append(_Place(folder, ((file, field),)))
    return tuple(places)


def _most_memory() -> int:
    """Three quarters of this machine's memory: what is left keeps us and the rest alive."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


def _has_controllers(folder: str) -> bool:
    try:
        with open(f"{folder}/cgroup.subtree_control") as file:
            enabled = file.read().split()
    except OSError:
        return False
    return {"memory", "pids"} <= set(enabled) and os.access(folder, os.W_OK)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
