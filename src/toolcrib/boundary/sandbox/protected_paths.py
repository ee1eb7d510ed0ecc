"""Find protected names in a writable workspace: the paths to bind read-only, and the names that appeared during a
command.

A read-only bind of `.git/hooks` alone can be avoided by renaming `.git`. So each directory above a protected name is
bound onto itself, which makes it a mount point that cannot be renamed. A name that does not exist cannot be bound, so
we look for it again after the command. Links cannot be bound either, so they are compared.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from ...core.dataclass import dataclass
from ...core.text import lazy_regex
from ..hidden_entries import hidden_at, hidden_name, homes_in
from ..host_file import HostFile
from ..programs import beneath, links_followed, places_followed, within_any, within_known
from ..protected_names import REPOSITORY, ProtectedName, protected_by
from ..real_path import real_path
from .detours import OWN_FOLDERS, is_detour
from .protected_search import (
    DEPTH,
    MAX_FOLDERS,
    NAMES,
    PASSED_OVER,
    REPOSITORY_NAMES,
    Search,
    closed_above,
    is_generated,
    is_of_person,
    remember,
    remembered,
)

_MAKES_REPOSITORY = frozenset({"head", "objects", "commondir"})
_LAST = frozenset({
    *(name.rpartition("/")[2].casefold() for name in NAMES), *REPOSITORY_NAMES, ".git", *_MAKES_REPOSITORY,
})  # fmt: skip

_BETWEEN = frozenset(part.casefold() for name in NAMES for part in name.split("/")[:-1])
TICK_NS = 20_000_000  # ns: files are stamped with the time of the kernel's last tick, up to 10 ms ago

_PROTECTED = "it is protected: other programs run or trust it"


@dataclass
class ProtectedPaths:
    """The protected paths of one root: `pinned` and `read_only` paths, and the paths to compare after the command."""

    root: str
    allowed: frozenset[str]
    pinned: set[str] = field(default_factory=set[str])
    read_only: set[str] = field(default_factory=set[str])
    existing: dict[str, str] = field(default_factory=dict[str, str])  # path → its real path
    names: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])  # path → (folder, name in it)
    doubtful: set[str] = field(default_factory=set[str])  # made by others meanwhile (`doubt`): new if they change
    states: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])  # of `read_only`, before
    named: set[str] = field(default_factory=set[str])  # protected names that exist, under their own paths
    leads: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """What protected links lead to, and links on the way → the path of the first, and its protected name."""
    search: Search = field(default_factory=lambda: Search(""))
    detours: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict[str, tuple[str, tuple[int, ...]]])
    """What led version control elsewhere before the command (`Search.detours`)."""
    known: tuple[str, ...] = ()  # folders to look at again, however many others exist by then
    held: set[str] = field(default_factory=set[str])  # files that the host runs, whatever their names
    shared: dict[HostFile, None] = field(default_factory=dict[HostFile, None])  # for others, too (`running_commands`)
    many: list[HostFile] = field(default_factory=list[HostFile])  # the same, by a star in the name
    denied: Callable[[str, bool], bool] = lambda path, folder: False  # whether rules deny a file, or all in a folder
    absolute: bool = False  # how paths are written: for a root other than the workspace
    started: int = field(default_factory=lambda: time.time_ns() - TICK_NS)

    def mounts(self, *, pins: bool = True) -> list[tuple[str, bool]]:
        """Return the paths to bind onto themselves, outer folders first, each with whether it should be read-only."""
        pinned: set[str] = self.pinned if pins else set()
        return [
            (path, path in self.read_only)
            for path in sorted(pinned | self.read_only, key=lambda p: (p.count("/"), p))
            if not within_known(os.path.dirname(path), self.read_only)
        ]

    def arguments(self, *, pins: bool = True) -> list[str]:
        """Return bubblewrap's arguments, which come after the workspace's bind.

        Over a layer nothing is pinned: such a bind would write through the layer, and folders from below cannot be
        renamed.
        """
        arguments: list[str] = []
        for path, read_only in self.mounts(pins=pins):
            arguments += ["--ro-bind" if read_only else "--bind", path, path]
        return arguments

    def appeared(self, deep: Iterable[str] = (), others: Iterable[ProtectedPaths] = ()) -> list[str]:
        """Return the protected names that did not exist before, or that lead elsewhere now; relative to the root.
        `deep` are further folders to look at. `others` are commands that may hide what a path is."""
        found: dict[str, None] = {}

        def add(path: str) -> None:
            if found.keys().isdisjoint((path, *map(str, Path(path).parents))):
                found[path] = None

        deep, new = frozenset(deep), remembered(self.root, self.started)
        was, cut = self.search, len(self.search.seen) >= MAX_FOLDERS
        known, closed = (*self.known, *deep), was.closed.copy()
        search = Search(self.root, was.nearer, known, was.depth, homes=was.homes, free=was.free, closed=closed)
        theirs = dict.fromkeys(each for other in others for each in other.names.values())
        hidden = (each for each in theirs if _is_of_repository(each[1]) and not self.is_deep(each[0]))
        for base, name in dict.fromkeys((*search.names(), *hidden)):
            path = f"{base}/{name}"
            unsearched = (cut or base in deep) and base not in new and base not in search.linked
            mounted = within_known(os.path.dirname(path), self.read_only)  # by its text: a new link may lead there
            above = base.removeprefix(self.root).split("/")[1:]
            far = cut or len(above) > DEPTH or not PASSED_OVER.isdisjoint(above)  # whatever its marks now say
            entered = far and base in search.entered - was.entered and not is_of_person(self.root, base)
            if mounted or not self.is_made(base, name, unsearched, entered):
                continue
            if (path not in self.existing or path in self.doubtful or entered) and _is_harmless(path, name):
                continue
            add(self._movable(base, name))
        for path in self._new_detours(search):
            add(path)
        there = (path for path in sorted({*self.held, *self._new()}) if os.path.lexists(path))
        for path in there:
            if self.is_as_it_was(path):
                continue
            add(next((link for link in links_followed(path) if path.startswith(f"{link}/")), path))  # it is new
        return list(found) if self.absolute else [os.path.relpath(path, self.root) for path in found]

    def is_as_it_was(self, path: str) -> bool:
        """Return whether a path leads where it did before the command. What is doubtful must not have changed."""
        same = self.existing.get(path) == real_path(path)
        return same and not (path in self.doubtful and self._is_recent(path))

    def is_made(self, base: str, name: str, unsearched: bool, entered: bool = False) -> bool:
        """Return whether a protected name is there since the command began, or is another one. `unsearched`: the folder
        was only searched for it if it was seen. `entered`: git enters it from now on, and an earlier command may have
        made it."""
        path = f"{base}/{name}"
        if not os.path.lexists(path) or _is_granted(name, self.allowed) or (self.is_as_it_was(path) and not entered):
            return False
        return not unsearched or base in self.search.seen or self._is_recent(path)

    def is_deep(self, base: str) -> bool:
        """Return whether a folder was too deep to be searched, beyond too many others, or in one that a tool made."""
        if base in self.search.seen or not beneath(base, self.root):
            return base not in self.search.seen
        above = [base, *map(str, Path(base).parents)][: base.count("/") - self.root.count("/")]
        cut = len(self.search.seen) >= MAX_FOLDERS or len(above) > self.search.depth
        return cut or any(is_generated(os.path.basename(each), each) for each in above)

    def hold(self, file: HostFile, *, shared: bool = True) -> None:
        """Protect a file or folder that the host runs. If it does not exist, it must not appear. `shared`: other
        commands must not change it either while this one runs."""
        if _is_granted(file.name or os.path.relpath(file.path, self.root), self.allowed):
            return
        if file.many:
            self.many.append(file)
        elif shared and not file.place:
            self.shared[file] = None
        if (base := file.path.removesuffix(f"/{file.name}")) != file.path:
            self.names[file.path] = (base, file.name)
        for path in file.there():
            self.held.add(path)
            if file.place or (os.path.islink(path) and not file.many):
                self.hold_place(path)  # what it leads to is held itself (`both_names`)
            elif os.path.lexists(path):
                self._protect(*os.path.split(path))
            elif closed := closed_above(path, self.root):
                self._protect(*os.path.split(closed))

    def close_repositories(self) -> None:
        """Protect each `.git` as a whole. On the host, `git config` puts a new file in the place of the settings, and
        the kernel removes what is mounted on the old one (rename(2)). The folder stays mounted."""
        if not any(f"{each}/".startswith(".git/") for each in self.allowed):
            for base in (each for each in self.search.seen if os.path.isdir(f"{each}/.git")):
                self._protect(base, ".git")

    def keep(self, path: str) -> None:
        """Let the command not change a file or folder that is there (no link), whatever others put in its place."""
        self.read_only.add(path)
        self._pin(os.path.dirname(path))

    def hold_place(self, path: str) -> None:
        """Protect a link or folder on the way to what other programs run or trust, or a granted folder: it must stay
        there, and lead where it does."""
        self.existing[path] = real_path(path)
        self.held.add(path)
        if link := os.path.islink(path):
            self.named.add(path)
        self._pin(os.path.dirname(path) if link else path)

    def made(self, file: HostFile) -> list[str]:
        """Return what the host runs or loads of this, and that is there since the command began."""
        return [path for path in file.there() if os.path.lexists(path) and not self.is_as_it_was(path)]

    def _new(self) -> list[str]:
        return [path for file in self.many for path in file.there()]

    def _new_detours(self, search: Search) -> Iterator[str]:
        for path, (folder, mark) in search.detours().items():
            base = folder if os.path.basename(folder) not in OWN_FOLDERS else os.path.dirname(folder)
            seen = base in self.search.seen or self._is_recent(folder)  # else nobody knows since when it is there
            new = self.detours.get(path) != (folder, mark) if seen else self._is_recent(path)
            if new and not _is_granted(os.path.relpath(path, base), self.allowed):
                yield path

    def _is_recent(self, path: str) -> bool:
        try:
            return os.lstat(path).st_ctime_ns >= self.started
        except OSError:
            return False

    def _movable(self, base: str, name: str) -> str:
        """Return the path to remove so that a name is gone. Nothing is moved through a link: a new link is removed
        itself."""
        path = f"{base}/{name}"
        parts = name.split("/")
        for n in range(1, len(parts)):
            above = f"{base}/{(begin := '/'.join(parts[:n]))}"
            if os.path.islink(above):
                was = self.search.links.get((base, begin))
                return real_path(path) if was == os.readlink(above) else above
        return path

    def keeps(self, path: str) -> bool:
        """Return whether a path (absolute) was protected before the command: the command must not remove it either."""
        return path in self.named or path in self.read_only or path in self.pinned or self.denied(path, False)

    def forbids(self, path: str, kind: str) -> str:
        """Return why a command must not make or change a path (absolute), whatever its name; "" if it may. `kind` is
        the type that the path would have: a link also leads to what is below it."""
        if self.denied(path, kind != "file"):
            return "a rule denies it"
        above, name = os.path.split(path)
        linked = kind == "link" and name.startswith(".") and above in self.search.homes
        if (linked or hidden_at(self.root, path, whole=False)) and not within_any(path, self.search.free):
            return _PROTECTED
        below = f"{path}/" if kind == "link" else None
        if path in self.held or (below and any(each.startswith(below) for each in self.held)):
            return _PROTECTED
        modules = (path, f"{path}/__init__.py") if below else (path,)
        return _PROTECTED if any(file.covers(each) for file in self.many for each in modules) else ""

    def behind(self, path: str) -> ProtectedName | None:
        """Return the entry whose name is a link, or lies behind one, and leads to this path (absolute, without links on
        the way), to a folder around it or to something below it."""
        for target, (link, name) in self.leads.items():
            if beneath(target, path) or (beneath(path, target) and real_path(link) == target):
                shown = os.path.relpath(link, self.root) if beneath(path, self.root) else link
                return ProtectedName(shown, _entry(name).reason)
        return None

    def _protect(self, base: str, name: str, *, shared: bool = False) -> None:
        path = f"{base}/{name}"
        real = self.existing[path] = real_path(path)
        if _is_granted(name, self.allowed):
            return
        self.named.add(path)
        if real != path:
            self._pin(real_path(os.path.dirname(path)))  # a link must not move with its folder
            if not beneath(self.root, real):
                self.leads[real] = (path, name)
        for place in () if real == path else places_followed(path):  # it leads there in steps
            if not f"{path}/".startswith(f"{place}/"):
                self.leads.setdefault(place, (path, name))
                if place.startswith(f"{self.root}/"):
                    self.hold_place(place)
        if shared:
            self.names[path] = (base, name)
            self.shared[HostFile(real, _entry(name).reason, name=name)] = None
        if not real.startswith(self.root + "/"):
            return  # the link leads out of the workspace: another guard protects what is there
        if os.path.exists(real):
            self.read_only.add(real)
        elif real != path:  # a link that leads nowhere yet
            self.held.add(real)
        self._pin(os.path.dirname(real))

    def _pin(self, folder: str) -> None:
        while folder.startswith(f"{self.root}/") and folder not in self.pinned:
            if os.path.isdir(folder):  # else it must not appear (`held`)
                self.pinned.add(folder)
            folder = os.path.dirname(folder)


# What `git init` and `git clone` write into the settings of a new repository: nothing in it names a program or a file.
_PLAIN_SETTINGS = lazy_regex(
    r"""(?:
    \[core\] | \[extensions\] | \[(?:remote|branch)\ "[\w./-]{1,200}"\] |
    \t(?:repositoryformatversion\ =\ [01] | (?:objectformat|refstorage)\ =\ \w{1,20}) |
    \t(?:filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)\ =\ (?:true|false) |
    \turl\ =\ (?:(?:https?|ssh|git)://)?[\w./~@][\w./~@+-]{0,500}(?::[\w./~@+-]{0,500})? |
    \tfetch\ =\ \+refs/[\w./*-]{1,200}:refs/[\w./*-]{1,200} |
    \tremote\ =\ [\w.-]{1,200} | \tmerge\ =\ refs/[\w./-]{1,200}
    )\n""",
    re.ASCII | re.VERBOSE,
)
_MAX_PLAIN = 4096  # bytes


def _is_harmless(path: str, name: str) -> bool:
    """Return whether a new path is what git puts into every new repository: plain settings, and examples of hooks."""
    if real_path(path) != path:
        return False
    try:
        if name.endswith("hooks"):
            with os.scandir(path) as entries:
                return all(each.name.endswith(".sample") and each.is_file(follow_symlinks=False) for each in entries)
        if name.endswith("config"):
            with open(path, "rb", opener=_without_waiting) as file:
                known = os.fstat(file.fileno())
                text = file.read(_MAX_PLAIN + 1).decode("ascii")
            alone = stat.S_ISREG(known.st_mode) and known.st_nlink == 1  # nothing changes it under another name later
            lines = text.splitlines(keepends=True)
            return alone and len(text) <= _MAX_PLAIN and all(map(_PLAIN_SETTINGS.fullmatch, lines))
    except (OSError, ValueError):
        pass
    return False


def _entry(name: str) -> ProtectedName:
    return protected_by(name) or hidden_name(name.partition("/")[0]) or REPOSITORY


def _is_of_repository(name: str) -> bool:
    """Return whether a name counts only in a repository, which is a plain folder without HEAD."""
    return name in REPOSITORY_NAMES or name.startswith(".git/modules/")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _is_granted(name: str, allowed: frozenset[str]) -> bool:
    parts = (f".git/{name}" if name.partition("/")[0] in REPOSITORY_NAMES else name).split("/")
    return "*" in allowed or any("/".join(parts[:n]) in allowed for n in range(1, len(parts) + 1))


Beside = Callable[[str, bool], bool]
"""`beside(name, before)` returns whether a name is in the same folder as a path: before the command, or after it."""


def protected_end(
    path: str, kind: str, beside: Beside, generated: Callable[[str], bool], allowed: frozenset[str]
) -> str | None:
    """Return the protected name that a path ends with, if a command must not create or change it; else None.

    `kind` is the type that the path would have ("dir", "file" …). Folders that are `generated` are not searched for
    protected names, and skipped here, too.
    """
    if is_detour(path, kind) and not _is_granted(".git", allowed):
        return ".git"
    folded = path.rpartition("/")[2].casefold()
    if folded not in _LAST and not (kind == "link" and folded in _BETWEEN):
        return None
    parts, whole = path.casefold().split("/"), path.split("/")

    def searched(last: int) -> bool:
        above = (whole[:n] for n in range(1, len(whole) - last + 1))
        return not any(each[-1] in PASSED_OVER and generated("/".join(each)) for each in above)

    for each in NAMES:
        own = each.casefold().split("/")
        if parts[-len(own) :] == own and searched(len(own)):
            return None if _is_granted(each, allowed) else each
        leads = kind == "link" and any(parts[-n:] == own[:n] and searched(n) for n in range(1, len(own)))
        if leads and not _is_granted(each, allowed):  # what it leads to would get the protected name
            return each
    if folded == ".git" and kind != "dir" and searched(1):
        return None if _is_granted(".git", allowed) else ".git"
    if folded in _MAKES_REPOSITORY and not _repository(beside, True) and _repository(beside, False):
        there = [each for each in REPOSITORY_NAMES if beside(each, True) and not _is_granted(each, allowed)]
        return there[0] if there else None  # a plain file in this place would become a repository's setting
    if folded in REPOSITORY_NAMES and _repository(beside, False):
        return None if _is_granted(folded, allowed) else folded
    return None


def _repository(beside: Beside, before: bool) -> bool:
    return beside("HEAD", before) and (beside("objects", before) or beside("commondir", before))


def find_protected_paths(
    root: Path,
    cwd: Path,
    allowed: frozenset[str],
    known: Iterable[str] = (),
    depth: int = DEPTH,
    free: Collection[str] = (),
) -> ProtectedPaths:
    """Return the protected paths of a workspace before a command that starts in `cwd`.

    `known` are folders where protected names were found before: a command could create so many other folders that the
    search would not reach those. `free` are folders and files (absolute) that are not protected in a hidden folder.
    """
    nearer = tuple(p for p in (str(cwd), *map(str, cwd.parents)) if beneath(p, str(root)))
    bases = dict.fromkeys(known)
    homes = homes_in(str(root)) if depth else ()
    granted = (home if name == "*" else f"{home}/{name}" for home in homes for name in allowed)
    free, nearer = frozenset((*free, *granted)), (*nearer, *homes)
    search = Search(str(root), nearer, tuple(bases), depth, remembered=True, homes=homes, free=free)
    found = ProtectedPaths(str(root), allowed, search=search)
    for base, name in search.names():
        found._protect(base, name, shared=True)  # pyright: ignore[reportPrivateUsage]
        bases[base] = None
    for folder in search.closed - {str(root)}:  # what is in it is not known
        found._protect(*os.path.split(folder))  # pyright: ignore[reportPrivateUsage]
    for base, name in search.links:  # what would get a protected name because it lies behind a link
        for each in NAMES:
            path = f"{base}/{each}"
            real = real_path(path) if each.startswith(f"{name}/") else ""
            if real and not os.path.lexists(real) and not _is_granted(each, allowed):
                found.leads[real] = (path, each)
                if real.startswith(f"{root}/"):
                    found.held.add(real)
    found.known, found.detours = tuple(bases), search.detours()
    return found


_ANY_DEPTH = 100
_SMALL = 100  # folders of a workspace that is always searched
_KNOWN_SECONDS = 10.0  # how long the links of a larger one, and of the home, are remembered
_MAX_KEPT = 64
_kept: dict[tuple[str, str], tuple[float, ProtectedPaths]] = {}


def protected_behind(roots: Iterable[str], path: str) -> ProtectedName | None:
    """Return the entry whose name is a link in these folders or in the person's home, or lies behind one there, and
    leads to this path, to a folder around it or to something below it. Unlike before a command, all depths are
    searched, up to as many folders."""
    roots, near = tuple(roots), os.path.dirname(path)
    inside = (_kept_paths(root, near if beneath(path, root) else root, _ANY_DEPTH) for root in roots)
    return next(filter(None, (each.behind(path) for each in (*inside, *links_of_home(roots)))), None)


def links_of_home(roots: Iterable[str]) -> list[ProtectedPaths]:
    """Return the protected names directly in the person's home, whose shell and programs obey what links there lead
    to. If the home lies in one of these folders, they are found in that one."""
    home = real_path(os.path.expanduser("~"))
    return [] if within_any(home, roots) else [_kept_paths(home, home, 0)]


def links_now(roots: Iterable[str]) -> list[ProtectedPaths]:
    """Return the protected paths in these folders and in the person's home as they are now, at all depths: to see which
    appear."""
    roots = tuple(roots)
    forget_links({*roots, real_path(os.path.expanduser("~"))})
    return [*(_kept_paths(root, root, _ANY_DEPTH) for root in roots), *links_of_home(roots)]


def _kept_paths(root: str, near: str, depth: int) -> ProtectedPaths:
    until, found = _kept.get((root, near), (0.0, None))
    if found is None or time.monotonic() >= until:
        found = find_protected_paths(Path(root), Path(near), frozenset(), remembered(root) if depth else (), depth)
        if depth:
            remember(root, found.known)  # commands find them, too
        if not depth or len(found.search.seen) > _SMALL:
            if len(_kept) >= _MAX_KEPT:
                _kept.clear()
            _kept[root, near] = (time.monotonic() + _KNOWN_SECONDS, found)
    return found


def forget_links(roots: Collection[str]) -> None:
    """Search anew for links at the next change: a command may have made some in these folders."""
    for key in [key for key in list(_kept) if key[0] in roots]:
        _kept.pop(key, None)
