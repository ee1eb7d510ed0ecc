"""Read what is mounted where, as this process or another one sees it (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..core.text import lazy_regex
from .programs import beneath

_OCTAL = lazy_regex(r"\\([0-7]{3})")
_LOOKS, _PAUSE = 20, 0.001  # while a sandbox takes its last steps, some of its mounts are not listed


class Mount(NamedTuple):
    """A mounted file or folder: its numbers, its file system, its path there, and where it is mounted."""

    number: str
    above: str
    device: str
    path: str
    point: str


def mounts(pid: int | str = "self") -> list[Mount]:
    """Return what is mounted for a process, in the order of mounting; nothing if that cannot be read."""
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            lines = os.fsdecode(file.read()).split("\n")
    except OSError:
        return []
    found = (line.split(" ", 5)[:5] for line in lines if line)
    # The kernel writes spaces, tabs, line ends and backslashes in octal.
    return [Mount._make(map(_plain, each)) for each in found]


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), field) if "\\" in field else field


def not_bound(
    pid: int,
    ours: Iterable[Mount],
    paths: Iterable[str],
    base: str,
    *,
    whole: Collection[str] = (),
    over_layer: bool = False,
) -> str:
    """Return the first of these paths that is not bound onto itself as a process sees it; "" if all are. While the
    process prepares itself, `base` may come before its paths. `ours` is what is mounted for this process. `whole` are
    further paths, around which nothing of ours is there. `over_layer`: what lies below is another file system."""
    wanted, found = Counter(paths), ""
    around = [(each, each.point) for each in ours]
    holders = {path: _holder(path, around) for path in whole}
    for _ in range(_LOOKS if wanted or whole else 0):
        there = {each.number: (each, each.point.removeprefix(base) or "/") for each in mounts(pid)}
        right = Counter(
            point
            for each, point in there.values()
            if point in wanted
            and _is_itself(each, point, _holder(point, around) if over_layer else there.get(each.above))
        )
        found = next((path for path, count in wanted.items() if right[path] < count), "")
        shown = {
            point for each, point in there.values() if point in holders and _is_itself(each, point, holders[point])
        }
        found = found or next((path for path in whole if path not in shown), "")
        if not found:
            break
        time.sleep(_PAUSE)
    return found


def _holder(path: str, mounted: list[tuple[Mount, str]]) -> tuple[Mount, str] | None:
    """Return the mount in which a path lies, with its place."""
    found = (each for each in reversed(mounted) if beneath(path, each[1]))
    return max(found, key=lambda each: len(each[1]), default=None)


def _is_itself(mount: Mount, point: str, above: tuple[Mount, str] | None) -> bool:
    """Return whether a mount shows what would be there without it."""
    if above is None or above[0].device != mount.device:
        return False
    return os.path.normpath(os.path.join(above[0].path, os.path.relpath(point, above[1]))) == mount.path
