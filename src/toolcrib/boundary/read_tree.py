"""Go through everything below a directory, at any depth, and never through a link. `os.walk` and `os.fwalk` recurse in
Python 3.11."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from .descriptors import LISTED, unreadable


def all_below(top: int) -> Iterator[tuple[int, str, os.stat_result]]:
    """Yield each entry below a directory: a hash of the path to the directory it is in, its name, its status.

    What is gone or cannot be read is left out. It ends early if a directory is moved while it is in there. A stranger
    chooses how deep directories are nested, so this neither recurses nor builds paths, and has one descriptor open.
    """
    here = os.open(".", LISTED, dir_fd=top)
    try:
        path, at, names = 0, os.fstat(here), os.listdir(here)
        above: list[tuple[int, os.stat_result, list[str]]] = []
        while names or above:
            if not names:
                here = _instead(here, "..")
                path, at, names = above.pop()
                if not os.path.samestat(at, os.fstat(here)):
                    return
                continue
            name, st = names.pop(), None
            with unreadable:
                st = os.lstat(name, dir_fd=here)
            if st is None:
                continue
            yield path, name, st
            if stat.S_ISDIR(st.st_mode):
                with unreadable:
                    here = _instead(here, name)
                    above.append((path, at, names))
                    path, at, names = hash((path, name)), os.fstat(here), []
                    names = os.listdir(here)
    finally:
        os.close(here)


def folders_below(top: str | os.PathLike[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory, from the top down, with the names of the directories (and links to some) and of the other
    entries in it. Names that are taken from the first list are passed over. What cannot be read is left out."""
    pending = [os.fspath(top)]
    while pending:
        at = pending.pop()
        folders: dict[str, bool] = {}
        names: list[str] = []
        with unreadable, os.scandir(at) as entries:
            for entry in entries:
                is_folder = False
                with unreadable:  # a link in a circle
                    is_folder = entry.is_dir()
                if is_folder:
                    folders[entry.name] = entry.is_symlink()
                else:
                    names.append(entry.name)
        yield at, (listed := list(folders)), names
        pending += [os.path.join(at, name) for name in reversed(listed) if not folders[name]]


def _instead(fd: int, name: str) -> int:
    """Open a directory in an open one, which is closed."""
    found = os.open(name, LISTED, dir_fd=fd)
    os.close(fd)
    return found
