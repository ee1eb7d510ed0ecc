"""Read from git's index which folders are repositories of their own, and which names lead out of its work tree.

`git status` runs git, with their settings, in the folders of the first kind that have a `.git`, also without a
`.gitmodules` (gitformat-index(5)).
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from .own_files import beginning_of

_LINK = (0o160000).to_bytes(4)  # the mode of such an entry
_MAX_BYTES = 1 << 28
SETTLED_NS = 5_000_000_000
"""What changed less long ago may change again and have the same time (ns)."""


def linked_folders(folder: str, git: str = "") -> list[str]:
    """Return the folders below a work tree that git takes for repositories of their own, without links on the way."""
    git = git or f"{folder}/.git"
    try:
        if os.path.isfile(git):  # of a submodule or another worktree
            with open(git, "rb") as file:
                named = os.fsdecode(file.read(4096).partition(b"\0")[0]).removeprefix("gitdir: ").rstrip("\r\n")
            git = os.path.join(folder, named)
        names = _files(git)
    except OSError:
        return []
    found: dict[str, None] = {}
    for name in names:
        try:
            inside = _read(_repositories, f"{git}/{name}", len(names) > 1)
        except OSError:
            continue
        for path in inside:
            inner = f"{folder}/{path}"
            if inner not in found and os.path.lexists(f"{inner}/.git"):
                found[inner] = None
    return [inner for inner in found if os.path.realpath(inner) == os.path.realpath(folder) + inner[len(folder) :]]


def _files(git: str) -> list[str]:
    """Return the names of an index and of those that a split index shares entries with. Raises OSError."""
    return ["index", *(name for name in os.listdir(git) if name.startswith("sharedindex."))]


def _read(reading: Any, path: str, *how: bool) -> Any:
    """Return what `reading` finds in an index, which is read again when it has changed. Raises OSError."""
    status = os.stat(path)
    mark = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    settled = status.st_ctime_ns < time.time_ns() - SETTLED_NS
    return (reading if settled else reading.__wrapped__)(path, *how, *mark)


@functools.lru_cache(100)
def _repositories(path: str, shared: bool, *_state: int) -> tuple[str, ...]:
    """Return the names in an index that may be repositories."""
    return tuple(os.fsdecode(name) for name, link in _entries(beginning_of(path, _MAX_BYTES), shared) if link or shared)


@functools.lru_cache(100)
def _outline(path: str, *_state: int) -> tuple[str | None, dict[str, str]]:
    """Return a name in an index with `..` or from `/`, and each folder with its first name. Raises ValueError."""
    index = beginning_of(path, _MAX_BYTES)
    folders: dict[bytes, bytes] = {b"": b""}
    for name, _ in _whole(index) if index[:4] == b"DIRC" else ():
        if name[:1] == b"/" or (b".." in name and b".." in name.split(b"/")):
            return os.fsdecode(name), {}
        above = name.rpartition(b"/")[0]
        while above not in folders:
            folders[above] = name
            above = above.rpartition(b"/")[0]
    return None, {os.fsdecode(above): os.fsdecode(name) for above, name in folders.items() if above}


def leading_out(tree: str, git: str, inside: Callable[[str], bool]) -> str | None:
    """Return what in an index makes git read a file outside its work tree: a name with `..` or from `/`, which git
    takes as it is, or one behind a link (`git grep` follows it). None if nothing does."""
    try:
        found = [_read(_outline, f"{git}/{name}") for name in _files(git)]
    except OSError:
        return None
    except ValueError:
        return "index"
    for leads, folders in found:
        if leads is not None:
            return leads
        for above, name in folders.items():
            if os.path.islink(path := f"{tree}/{above}") and not inside(os.path.realpath(path)):
                return name
    return None


def _whole(index: bytes) -> list[tuple[bytes, bool]]:
    """Return all entries of an index. Raises ValueError if they cannot be read."""
    try:
        return list(_parsed(index, 20))  # of a hash: SHA-1
    except ValueError:
        return list(_parsed(index, 32))


def _entries(index: bytes, shared: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield the names in an index, and whether each is a repository. A split index (`shared`) has entries without a
    name, for those of its other file: then all names count."""
    if index[:4] != b"DIRC" or not (shared or _LINK in index):
        return
    for size in (20, 32):  # of a hash: SHA-1, SHA-256
        found: list[tuple[bytes, bool]] = []
        try:
            found.extend(_parsed(index, size))
        except ValueError:
            if not found:
                continue
        yield from found
        return


def _parsed(index: bytes, size: int) -> Iterator[tuple[bytes, bool]]:
    version, at, name, head, total = int.from_bytes(index[4:8]), 12, b"", 42 + size, 0
    most = 8 * len(index) + (1 << 20)  # in version 4 each name may have all of the one before
    for _ in range(int.from_bytes(index[8:12])):
        begins = at + head
        flags = int.from_bytes(index[begins - 2 : begins])
        begins += 2 if version > 2 and flags & 0x4000 else 0
        if version == 4:  # the name of the entry before, without some bytes at its end
            less, begins = _number(index, begins)
            name = name[: len(name) - less]
        ends = index.index(0, begins)
        name = (name if version == 4 else b"") + index[begins:ends]
        total += len(name)
        if flags & 0xFFF not in (len(name), 0xFFF) or total > most:
            raise ValueError
        yield name, index[at + 24 : at + 28] == _LINK
        at = ends + 1 if version == 4 else at + ((ends - at) // 8 + 1) * 8


def _number(index: bytes, at: int) -> tuple[int, int]:
    """Return a number as git packs it, and where the next byte is."""
    value = -1
    while at < len(index):
        byte, at = index[at], at + 1
        value = (value + 1 << 7) | byte & 127
        if byte < 128:
            return value, at
    raise ValueError
