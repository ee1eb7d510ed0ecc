"""Our own folders (settings and state): no tool reaches them, wherever they lie.

They may lie in the workspace (a home directory is one), in a granted folder, or behind a link. They are known by their
absolute paths. Every name on the way to them is known, too: who could move or replace one of these could put another
folder in place of ours.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable

from ..core.homes import config_home, state_home
from .programs import beneath, names_followed, within_any
from .real_path import real_path


def beyond_tools(writable: Iterable[str | os.PathLike[str]]) -> str | None:
    """Return where to make a temporary folder that no tool may change or replace meanwhile: the state folder if TMPDIR
    lies in one of these folders that tools may write, else None, the usual place. Raises OSError."""
    if not within_any(real_path(tempfile.gettempdir()), [real_path(each) for each in writable]):
        return None
    state_home().mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(state_home())


class PrivateFolders:
    """Folders that no tool may reach. The case of letters is ignored: some file systems ignore it."""

    def __init__(self, folders: Iterable[str | os.PathLike[str]]) -> None:
        given = [os.path.abspath(folder) for folder in folders]
        self.paths = tuple(dict.fromkeys(map(real_path, given)))
        self._folded = tuple(path.casefold() for path in self.paths)
        self._way = frozenset(name.casefold() for folder in given for name in names_followed(folder))

    @classmethod
    def ours(cls) -> PrivateFolders:
        """Return this user's own: settings and rules, trust, record, undo, tokens."""
        return cls((config_home(), state_home()))

    def holds(self, path: str) -> bool:
        """Return whether a path (absolute, links followed) is one of the folders, or lies in one."""
        folded = path.casefold()
        return within_any(folded, self._folded)

    def is_on_the_way(self, path: str) -> bool:
        """Return whether a path (absolute) is a folder above one of them, or a link that leads to one."""
        return path.casefold() in self._way

    def lie_in(self, folder: str) -> bool:
        """Return whether one of them, or a name on the way to one, lies in a folder (absolute, links followed)."""
        folded = folder.casefold()
        return any(name != folded and beneath(name, folded) for name in self._way)
