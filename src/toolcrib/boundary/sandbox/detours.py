"""Find what leads version control elsewhere: links in a repository's own folder, which git writes through (the message
of a commit, a log), and addresses in `remotes` and `branches`, which git reads beside its settings."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Protocol

from ..descriptors import unreadable

OWN_FOLDERS = frozenset({".git", ".hg", ".sl", ".jj"})
_ADDRESSES = frozenset({"remotes", "branches"})
_CONTENT = frozenset({"objects", "store"})  # very many folders, named by hashes
_PROTECTED = "hooks"  # by its name
_MAX_FOLDERS = 500_000


class Listed(Protocol):
    """The names of the folders and links in a folder."""

    @property
    def folders(self) -> tuple[str, ...]: ...
    @property
    def links(self) -> tuple[str, ...]: ...


def detours_in(folder: str, look: Callable[[str], Listed]) -> Iterator[str]:
    """Yield the paths of all links and addresses in a repository's own folder. `look` lists a folder."""
    pending = [folder]
    for each in pending:  # it grows
        listed, above = look(each), each.split("/")
        branches = not {"refs", "logs"}.isdisjoint(above)  # what is in it may have any name
        yield from (f"{each}/{name}" for name in listed.links if branches or name != _PROTECTED)
        if branches or above[-1] not in _CONTENT:
            inner = (name for name in listed.folders if branches or name != _PROTECTED)
            pending += [f"{each}/{name}" for name in inner if len(pending) < _MAX_FOLDERS]
        if above[-1] in _ADDRESSES and os.path.lexists(f"{os.path.dirname(each)}/HEAD"):
            with unreadable:
                yield from (f"{each}/{name}" for name in os.listdir(each))


def is_detour(path: str, kind: str) -> bool:
    """Return whether a command over a layer would make a link (`kind` "link") or address at a path."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts[:-1]) if part in OWN_FOLDERS), None)
    return at is not None and (kind == "link" or (kind == "file" and parts[at + 1] in _ADDRESSES))


def state_of(path: str) -> tuple[int, ...]:
    """Return what a file or link has no more when it is replaced. Numbers of inodes are used again; folders change."""
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_ino, 0 if stat.S_ISDIR(status.st_mode) else status.st_ctime_ns
