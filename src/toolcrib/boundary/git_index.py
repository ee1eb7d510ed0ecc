"""Read from git's index which folders are repositories of their own, and which names lead out of its work tree.

`git status` runs git, with their settings, in the folders of the first kind that have a `.git`, also without a
`.gitmodules` (gitformat-index(5)); editors do so in those that it names.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..core.text import lazy_regex
from .descriptors import unreadable
from .own_files import beginning_of
from .real_path import real_path

MAX_BYTES = 1 << 28
_MAX_NAMES, _MAX_SHARED = 1 << 20, 1 << 23  # bytes of names, each of which is looked for; where all names count
_MODULES = ".gitmodules"  # editors run git in the folders that it names, too
_MAX_MODULES = 1 << 18  # bytes: some thousands of names, each of which is looked for
_MAX_BLOCKS = 1_000
_MAX_PATH = 4096  # bytes: a longer name leads nowhere
_STRAY_INSIDE = lazy_regex(rb"/\.(\.|[gG][iI][tT])[/\0]")  # as the bytes of names are, except in version 4
_STRAY = lazy_regex(rb"^/|(^|/)(\.\.|\.git)(/|$)", re.IGNORECASE)
SETTLED_NS = 5_000_000_000
"""What changed less long ago may change again and have the same time (ns)."""


def linked_folders(folder: str, git: str = "") -> list[str]:
    """Return the folders below a work tree that git takes for repositories of their own, without links on the way."""
    return list(links_from(folder, git))


def links_from(folder: str, git: str = "") -> dict[str, bool]:
    """Return the same, each with whether the index names it: `git status` enters only these."""
    git = git or f"{folder}/.git"
    names: list[str] = []
    with unreadable:
        if os.path.isfile(git):  # of a submodule or another worktree
            with open(git, "rb") as file:
                named = os.fsdecode(file.read(4096).partition(b"\0")[0]).removeprefix("gitdir: ").rstrip("\r\n")
            git = os.path.join(folder, named)
        names = [_MODULES, *_files(git)]
    found: dict[str, bool] = {}
    split = len(names) > 2
    for name in names:
        inside: Iterable[str] = ()
        with unreadable:
            if name == _MODULES:
                inside = read_while_same(_named_in, f"{folder}/{name}")
            else:
                inside = read_while_same(_repositories, f"{git}/{name}", split) or ()
        for path in inside:
            inner = os.path.normpath(os.path.join(folder, path))  # git takes `x/../y` and `/y` as they are
            if path and (os.path.lexists(f"{inner}/.git") or len(os.fsencode(inner)) > _MAX_PATH - len("/.git")):
                found[inner] = name != _MODULES
    real = real_path(folder) if found else ""
    places = {inner: os.path.normpath(f"{real}/{os.path.relpath(inner, folder)}") for inner in found}
    return {inner: found[inner] for inner, place in places.items() if real_path(inner) == place != real}


def is_too_large(git: str) -> bool:
    """Return whether the index of a repository is too long to be read, or names too many repositories for each to be
    looked for: it counts as an index without any, and must not be used."""
    with unreadable:
        names = _files(git)
        if any(os.stat(f"{git}/{name}").st_size > MAX_BYTES for name in names):
            return True
        return any(read_while_same(_repositories, f"{git}/{name}", len(names) > 1) is None for name in names)
    return False


def names_anything(folder: str) -> bool:
    """Return whether a work tree has a `.gitmodules` that is too long to be read as a whole."""
    try:
        return os.stat(f"{folder}/{_MODULES}").st_size > _MAX_MODULES
    except OSError:
        return False


def _files(git: str) -> list[str]:
    """Return the names of an index and of those that a split index shares entries with. Raises OSError."""
    return ["index", *(name for name in os.listdir(git) if name.startswith("sharedindex."))]


def read_while_same(reading: Any, path: str, *how: bool) -> Any:
    """Return what `reading` finds in an index, which is read again when it has changed. Raises OSError."""
    status = os.stat(path)
    mark = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    settled = status.st_ctime_ns < time.time_ns() - SETTLED_NS
    return (reading if settled else reading.__wrapped__)(path, *how, *mark)


@functools.lru_cache(100)
def _named_in(path: str, *_state: int) -> tuple[str, ...]:
    """Return the folders that a `.gitmodules` names."""
    settings = (line.partition(b"=") for line in beginning_of(path, _MAX_MODULES).splitlines())
    values = (
        value.strip().removeprefix(b'"').partition(b'"')[0].rstrip()
        for key, _, value in settings
        if key.strip().lower() == b"path"
    )
    return tuple(map(os.fsdecode, dict.fromkeys(value for value in values if len(value) < _MAX_PATH)))


@functools.lru_cache(1_000)  # as many as a search before a command may look at
def _repositories(path: str, shared: bool, *_state: int) -> tuple[str, ...] | None:
    """Return the names in an index that may be repositories; None if they are too many."""
    names, total = dict[bytes, None](), 0
    for name in _entries(beginning_of(path, MAX_BYTES), shared):
        names[name], total = None, total + len(name)
        if total > (_MAX_SHARED if shared else _MAX_NAMES):
            return None
    return tuple(map(os.fsdecode, names))


@functools.lru_cache(100)
def _outline(path: str, *_state: int) -> tuple[str | None, dict[str, str]]:
    """Return a name in an index with `..` or from `/`, and each folder with its first name. Raises ValueError."""
    index = beginning_of(path, MAX_BYTES)
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
        found = [read_while_same(_outline, f"{git}/{name}") for name in _files(git)]
    except OSError:
        return None
    except ValueError:
        return "index"
    for leads, folders in found:
        if leads is not None:
            return leads
        for above, name in folders.items():
            if os.path.islink(path := f"{tree}/{above}") and not inside(real_path(path)):
                return name
    return None


def is_stray(path: str) -> bool:
    """Return whether a file of an index has a name that git never puts there, but would write and read as it is
    (`git checkout .`, `git add -u`): one from `/`, or with `..` or `.git`. So has one that cannot be read."""
    with unreadable:
        return read_while_same(_is_stray, path)
    return False


@functools.lru_cache(1_000)
def _is_stray(path: str, *_state: int) -> bool:
    index = beginning_of(path, MAX_BYTES)
    starts = [(12, int.from_bytes(index[8:12])), *_blocks(index)]
    every = int.from_bytes(index[4:8]) == 4 or _STRAY_INSIDE.search(index) is not None
    for size in (20, 32) if index[:4] == b"DIRC" else ():
        with contextlib.suppress(ValueError):
            found = [each for start, count in starts for each in _parsed(index, size, start, count, every=every)]
            return any(_STRAY.search(name) for name, _ in found)
    return index[:4] == b"DIRC"


def _whole(index: bytes) -> list[tuple[bytes, bool]]:
    """Return all entries of an index. Raises ValueError if they cannot be read."""
    try:
        return list(_parsed(index, 20, every=True))  # of a hash: SHA-1
    except ValueError:
        return list(_parsed(index, 32, every=True))


def _entries(index: bytes, shared: bool) -> Iterator[bytes]:
    """Yield the names of repositories in an index, and whatever it gives git in another form. A split index (`shared`)
    has entries without a name, for those of its other file: then all names count."""
    starts = [(12, int.from_bytes(index[8:12])), *_blocks(index)]
    for size in (20, 32) if index[:4] == b"DIRC" else ():  # of a hash: SHA-1, SHA-256
        for start, count in starts:
            with contextlib.suppress(ValueError):  # git does not read it either, or has read it as the other
                yield from (name for name, link in _parsed(index, size, start, count, every=shared) if link or shared)


def _blocks(index: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the parts begin that several threads of git read, and their entries. They may be others than those
    that one thread reads."""
    at = index.find(b"IEOT")
    while at >= 0:
        for entry in range(at + 12, min(at + 8 + int.from_bytes(index[at + 4 : at + 8]), at + 12 + 8 * _MAX_BLOCKS), 8):
            yield int.from_bytes(index[entry : entry + 4]), int.from_bytes(index[entry + 4 : entry + 8])
        at = index.find(b"IEOT", at + 1)


def _parsed(
    index: bytes, size: int, at: int = 12, count: int | None = None, *, every: bool
) -> Iterator[tuple[bytes, bool]]:
    """Yield the names that repositories, or all entries, have for git (read-cache.c), and whether each is a repository;
    of others, except in version 4, also those that begin with `/` or a dot. A name has the length that its entry says.
    Raises ValueError where it cannot be read."""
    version, name, total = int.from_bytes(index[4:8]), bytearray(), 0
    most = 8 * len(index) + (1 << 20)  # in version 4 each name may have all of the one before
    try:
        for _ in range(int.from_bytes(index[8:12]) if count is None else count):
            begins = at + 42 + size
            flags = index[begins - 2] << 8 | index[begins - 1]
            link = index[at + 26] & 0xF0 == 0xE0  # only these bits of the mode count
            begins += 2 if flags & 0x4000 else 0
            length, wanted = flags & 0xFFF, link or every
            if version == 4:  # the name of the entry before, without some bytes at its end
                less, begins = _number(index, begins)
                kept = len(name) - less
                ends = index.index(0, begins) if length == 0xFFF else begins + length - kept
                if kept < 0 or ends < begins:
                    raise ValueError
                del name[kept:]
                name += index[begins:ends]
                at = ends + 1
            else:
                ends = index.index(0, begins) if length == 0xFFF else begins + length
                at += (ends - at + 8) & ~7
                wanted = wanted or index[begins] in b"/."
                if wanted:
                    name = bytearray(index[begins:ends])
            if wanted and len(name) < _MAX_PATH:
                total += len(name)
                if every and total > most:
                    raise ValueError
                yield bytes(name).partition(b"\0")[0], link
    except IndexError:
        raise ValueError from None


def _number(index: bytes, at: int) -> tuple[int, int]:
    """Return a number as git packs it, and where the next byte is."""
    value = -1
    while at < len(index):
        byte, at = index[at], at + 1
        value = (value + 1 << 7) | byte & 127
        if byte < 128:
            return value, at
    raise ValueError
