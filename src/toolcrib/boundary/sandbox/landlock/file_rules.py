"""Landlock's rules for files: rights for everything beneath some paths, except what is closed.

A rule for a folder holds for everything in it, without exceptions. So a folder in which a closed path lies gets no
rule, but each other entry in it does: what is made in such a folder later has no rule either. Links get none, because
Landlock judges what they lead to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ....core.errors import SandboxUnavailable
from ... import landlock_calls


class FileRules:
    """The rules of one kind in a ruleset. `listed` are the rights on a folder in which a closed path lies."""

    def __init__(
        self, ruleset: int, rights: int, closed: Iterable[str], pinned: Iterable[str] = (), listed: int = 0
    ) -> None:
        self._ruleset, self._rights, self._listed = ruleset, rights, listed
        self.entered = False
        """Whether a folder's entries have rules of their own, so that others are needed when it changes."""
        self._closed = frozenset(closed)
        self._above = frozenset(pinned).union(*map(_parents, (*self._closed, *pinned)))

    def allow(self, path: str, *, real: bool = False) -> None:
        """Give the rights on a file, or beneath a folder, unless it is closed or lies below something closed. Raises
        OSError if a rule is refused, and SandboxUnavailable for a `real` path (without links on the way) that is one no
        more."""
        if self._closed.isdisjoint((path, *_parents(path))):
            self._add(path, None, is_dir=path in self._above or os.path.isdir(path), real=real)

    def _add(self, path: str, parent: int | None, *, is_dir: bool, real: bool = False) -> None:
        """Add the rules of one entry; `parent` is the open folder in which it lies. An entry that cannot be opened gets
        none."""
        inside = is_dir and path in self._above
        kind = os.O_RDONLY | os.O_DIRECTORY if inside else os.O_PATH
        kind |= os.O_CLOEXEC if parent is None else os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            target = os.open(path if parent is None else os.path.basename(path), kind, dir_fd=parent)
        except OSError:
            return
        try:
            if real and (now := os.readlink(f"/proc/self/fd/{target}")) != path:
                raise SandboxUnavailable(f"{path} leads to {now} now, so commands cannot run there. Start again.")
            if not inside:
                landlock_calls.allow(self._ruleset, target, self._rights, is_dir)
                return
            self.entered = True
            if self._listed:
                landlock_calls.allow(self._ruleset, target, self._listed, True)
            with os.scandir(target) as entries:
                for entry in entries:
                    each = f"{path}/{entry.name}"
                    if each not in self._closed and not entry.is_symlink():
                        self._add(each, target, is_dir=entry.is_dir(follow_symlinks=False))
        finally:
            os.close(target)


def _parents(path: str) -> list[str]:
    """Return the folders above an absolute path, but not the root."""
    found: list[str] = []
    while (path := path.rpartition("/")[0]) != "":
        found.append(path)
    return found
