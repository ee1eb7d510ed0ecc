"""Find what leads version control elsewhere: links in a repository's own folder, which git writes through (the message
of a commit, a log); names in an index that git never puts there; files whose conflicts git records (rerere), by any
path; and addresses in `remotes` and `branches`, which git reads beside its settings."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Protocol

from ..descriptors import unreadable
from ..git_index import is_stray

OWN_FOLDERS = frozenset({".git", ".hg", ".sl", ".jj"})
_ADDRESSES = frozenset({"remotes", "branches"})
_OPEN = frozenset({"refs", "logs", "lfs"})  # in them every folder is searched: it may have any name
_PROTECTED = "hooks"  # by its name
_MAX_FOLDERS = 500_000


class Listed(Protocol):
    """The names of the folders and links in a folder."""

    @property
    def folders(self) -> tuple[str, ...]: ...
    @property
    def links(self) -> tuple[str, ...]: ...


def detours_in(folder: str, look: Callable[[str], Listed]) -> Iterator[str]:
    """Yield the paths of all that leads elsewhere in a repository's own folder. `look` lists a folder."""
    pending = [folder]
    for each in pending:  # it grows
        listed, above = look(each), each.removeprefix(folder).split("/")
        every = not _OPEN.isdisjoint(above)
        yield from (f"{each}/{name}" for name in listed.links if every or name != _PROTECTED)
        if every or above[-1] != "store":  # of Mercurial: very many folders
            loose = above[-1] == "objects"  # very many folders, named by two digits of a hash
            inner = (name for name in listed.folders if every or not (name == _PROTECTED or (loose and len(name) == 2)))
            pending += [f"{each}/{name}" for name in inner if len(pending) < _MAX_FOLDERS]
        with unreadable:
            if above[-1] in _ADDRESSES and os.path.lexists(f"{os.path.dirname(each)}/HEAD"):
                yield from (f"{each}/{name}" for name in os.listdir(each))
            elif os.path.lexists(f"{each}/HEAD"):
                yield from (path for name in os.listdir(each) if leads_elsewhere(path := f"{each}/{name}"))


def leads_elsewhere(path: str) -> bool:
    """Return whether a file of git makes it write and read elsewhere."""
    name = os.path.basename(path)
    if name == "MERGE_RR":
        return os.path.isfile(path) and os.path.getsize(path) > 0
    return (name == "index" or name.startswith("sharedindex.")) and is_stray(path)


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
