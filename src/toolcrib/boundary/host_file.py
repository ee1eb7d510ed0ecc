"""A file that is run or loaded outside the sandbox: whether a change of a path would change it.

`host_files.py` says which there are.
"""

from __future__ import annotations

import functools
import glob
import os
import re
from collections.abc import Iterable

from ..core.dataclass import dataclass
from .descriptors import unreadable
from .programs import beneath, links_followed
from .real_path import real_path

STARRED = (".*.so", ".*.pyc")
_MODULES = ("*.py", "*.so", "*.pyc", "*/__init__.*")  # what Python imports from a folder by name


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file, or a folder with all in it, by its absolute path, and what a change of it means. `many`: it has a star,
    and means every such file except those that are `known`; of modules of Python `only` those with these names.
    `place`: only that it stays there, whatever is in it. `name`: the protected name that it is."""

    path: str
    reason: str
    many: bool = False
    known: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    place: bool = False
    name: str = ""

    def covers(self, path: str) -> bool:
        """Return whether a path (absolute, no links in it) is the file, or in the folder, also a new one."""
        if not self.many:
            return path == self.path or (not self.place and beneath(path, self.path))
        return path not in self.known and _starred(self.path).fullmatch(path) is not None and self._counts(path)

    def _counts(self, path: str) -> bool:
        return not self.only or path[self.path.index("*") :].split("/")[0].split(".")[0] in self.only

    def is_touched_by(self, path: str) -> bool:
        """Return whether a change of this path (absolute, no links in it) would change the file, or what is above. Case
        is folded everywhere, as for protected names."""
        own, changed = self.path.casefold(), path.casefold()
        return (
            self.covers(path) or beneath(own, changed) or (not self.many and not self.place and beneath(changed, own))
        )

    def there(self) -> list[str]:
        """Return the paths that it means: of several files those that exist, and links that lead to them."""
        if not self.many:
            return [self.path]
        folder = os.path.dirname(self.path[: self.path.index("*")])
        found = set(glob.iglob(glob.escape(self.path).replace("[*]", "*")))
        if os.path.dirname(self.path) != folder:  # a link to a folder: later there may be something in it
            found = {path for path in found if not os.path.islink(os.path.dirname(path))} | _links_in(folder)
        return sorted(filter(self._counts, found - self.known))


def new_modules_of(folder: str, reason: str) -> tuple[HostFile, ...]:
    """Return what Python would import from a folder by a name that is not there yet. It would come before the standard
    library and packages, for everything that these import, too."""
    every = modules_named(folder, reason)
    return tuple(HostFile(each.path, reason, True, frozenset(each.there())) for each in every)


def modules_in(folder: str) -> list[str]:
    """Return what Python can import from a folder by name."""
    return [path for each in modules_named(folder, "") for path in each.there()]


def modules_named(folder: str, reason: str, only: frozenset[str] = frozenset()) -> tuple[HostFile, ...]:
    """Return what Python would import from a folder by any name, or by one of these."""
    return tuple(HostFile(f"{folder}/{name}", reason, True, only=only) for name in _MODULES)


@functools.cache
def _starred(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(map(re.escape, pattern.split("*"))) + "(?:/.*)?", re.DOTALL)


def _links_in(folder: str) -> set[str]:
    with unreadable, os.scandir(folder) as entries:
        return {each.path for each in entries if each.is_symlink() and not each.is_file()}
    return set()


def shadows_of(module: str) -> tuple[str, ...]:
    """Return what Python would load in the place of a module's file: a package, extension modules, compiled code. Those
    that end with STARRED have a star (`HostFile.many`)."""
    stem = module.removesuffix(".py")
    folder, name = os.path.split(stem)
    return stem, f"{stem}.so", f"{stem}.*.so", f"{folder}/__pycache__/{name}.*.pyc"


def both_names(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real paths, and the links that lead to them, each in the folder where it really is."""
    found: dict[str, None] = {}
    for path in filter(None, paths):
        whole, (folder, name) = os.path.abspath(path), os.path.split(path)
        links = links_followed(whole)
        if not links and path == whole:
            found[path] = None
            continue
        at = os.path.join(real_path(folder), name)
        if name in ("", ".", "..") or os.path.islink(at):
            found[real_path(at)] = None
        found[at] = None
        found.update(dict.fromkeys(links))
    return tuple(found)
