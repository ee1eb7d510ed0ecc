"""Find the protected names that exist in a workspace, and the links in protected folders, in a bounded search: the
nearest folders first."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field

from ...core.dataclass import dataclass
from ..descriptors import unreadable
from ..git_index import SETTLED_NS, is_too_large, links_from, names_anything
from ..hidden_entries import hidden_name
from ..programs import beneath, within_any
from ..protected_names import PROTECTED_NAMES, WITHIN_REPOSITORY
from ..real_path import real_path
from .detours import OWN_FOLDERS, detours_in, state_of

# Inside a .git these also redirect git to other settings and hooks: commondir names the folder they are read
# from, worktrees hold one each (gitrepository-layout(5)).
_GIT_NAMES = (".git/commondir", ".git/worktrees")
NAMES: tuple[str, ...] = (*(p.name for p in PROTECTED_NAMES), *_GIT_NAMES)
# A folder with HEAD and objects is a repository, whatever its name: git uses it as the current folder, and a `.git`
# file can point to it.
REPOSITORY_NAMES = ("config", "hooks", "config.worktree", "commondir", "worktrees", "lazygit.yml")
_BY_FIRST: dict[str, list[str]] = {}
for _name in NAMES:
    _BY_FIRST.setdefault(_name.partition("/")[0], []).append(_name)
_FIRST = frozenset(_BY_FIRST)
_ABOVE = frozenset(first for first, names in _BY_FIRST.items() if first not in names)
_BETWEEN = {  # the folders that names begin with, by the first
    first: sorted({name[:at] for name in _BY_FIRST[first] for at, sign in enumerate(name) if sign == "/"})
    for first in _ABOVE
}
_LOOKED_AT = {name.casefold(): name for name in (*_FIRST, *REPOSITORY_NAMES, "HEAD", "objects")}

# The depth of the search for nested repositories and projects before a command. A deeper repository is not protected.
DEPTH = 3
MAX_DEPTH = 100
MAX_FOLDERS = 1_000
_MAX_INNER = 100  # folders of one protected folder that are searched for links
_MAX_HIDDEN = 500  # the same, of all hidden folders of a home, and of the folders in them
_MAX_MODULES = 500
# What git runs in `.git` has names of its own. A link among programs is to one of a project, which a person runs.
_WITHOUT_LINKS = frozenset({".git", ".local/bin"})
PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"})

# What the tools that make such a folder leave in it. One without is somebody's own folder.
_MARKS: dict[str, tuple[str, ...]] = {
    "node_modules": (".package-lock.json", ".yarn-integrity", ".yarn-state.yml", ".modules.yaml"),
    ".venv": ("pyvenv.cfg",), "venv": ("pyvenv.cfg",), "target": ("CACHEDIR.TAG", ".rustc_info.json"),
    ".tox": (".tox-info.json", "CACHEDIR.TAG"), ".mypy_cache": ("CACHEDIR.TAG",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Listed:
    """What matters here of the entries of a folder."""

    names: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    closed: bool = False
    """Whether its owner, who is this user, may not list or enter it: what is in it is not known, but can be used."""


_MAX_KEPT = 60_000
_kept: dict[str, tuple[tuple[int, ...], _Listed]] = {}


def _list(folder: str) -> _Listed:
    """Return the entries of a folder; none if it cannot be read."""
    names: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    hidden: list[str] = []
    with unreadable, os.scandir(folder) as entries:
        for entry in entries:
            name = _LOOKED_AT.get(entry.name.casefold())
            if name is not None and (name == entry.name or os.path.lexists(f"{folder}/{name}")):
                names.append(name)  # where case does not count, `.ENVRC` is `.envrc`
            if entry.name[0] == ".":
                hidden.append(entry.name)
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    closed = not os.access(folder, os.R_OK | os.X_OK) and _is_own(folder)
    return _Listed(frozenset(names), tuple(folders), tuple(links), tuple(hidden), closed)


def _is_own(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def _may_enter(folder: str) -> bool:
    return os.access(folder, os.X_OK) or not os.path.isdir(folder)


def closed_above(path: str, root: str) -> str:
    """Return the folder around a path, in a root, that may not be entered, so that nobody knows what is there; "" if
    there is none."""
    while (path := os.path.dirname(path)).startswith(f"{root}/"):
        if os.access(path, os.X_OK):
            return ""
        if os.path.isdir(path):
            return path
    return ""


def _list_once(folder: str) -> _Listed:
    """Do the same, and remember it until the folder changes."""
    try:
        status, now = os.stat(folder), time.time_ns()
    except OSError:
        return _Listed()
    mark = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns)
    known, listed = _kept.get(folder, ((), _Listed()))
    if known != mark:
        listed = _list(folder)
        if status.st_ctime_ns < now - SETTLED_NS:
            if len(_kept) >= _MAX_KEPT:
                _kept.clear()
            _kept[folder] = (mark, listed)
    return listed


@dataclass
class Search:
    """A search below a root. `nearer` are further folders to begin in, `known` some that are only looked at themselves.
    What was there before a command may be `remembered`; what it made is read anew, for it could set times."""

    root: str
    nearer: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    depth: int = DEPTH
    remembered: bool = False
    homes: tuple[str, ...] = ()
    free: frozenset[str] = frozenset()
    """What is not protected in hidden folders of the `homes`, by its absolute path."""
    seen: dict[str, None] = field(default_factory=dict[str, None])
    links: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The folder and name of a link that protected names begin with → its target."""
    linked: set[str] = field(default_factory=set[str])  # folders that git or an editor enters: an index, `.gitmodules`
    entered: set[str] = field(default_factory=set[str])
    """Those of them that `git status` enters from a repository that is not far down."""
    repositories: set[str] = field(default_factory=set[str])  # the own folders of those that were seen
    closed: set[str] = field(default_factory=set[str])
    """Folders that their owner may not list or enter. After a command those count that were closed before; others are
    opened."""

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield every protected name that exists, links in protected folders that lead out of them, and folders that
        are too far down to be searched, as (folder, name)."""
        look = _list_once if self.remembered else self._list_after
        for base, entries in self._folders(look):
            if is_last(self.root, base):
                yield from ((base, inner) for inner in look(base).folders)
            for name in self._names_in(base, entries, look):
                yield base, name
                yield from ((base, link) for link in self._links_below(base, [name], look))
            if base in self.homes:
                listed = look(base)  # who writes plain data would write what a link leads to
                hidden = (name for name in listed.hidden if hidden_name(name) or name in listed.links)
                names = [each for name in hidden for each in self._not_free(base, name)]
                yield from ((base, name) for name in names)
                if self.remembered:  # afterwards the links are the same: the folders were read-only
                    yield from ((base, link) for link in self._links_below(base, names, look, _MAX_HIDDEN, depth=1))

    def detours(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the links and addresses in the own folders of the repositories that were seen, each with the folder
        and what changes with it."""
        found = [(path, folder) for folder in self.repositories for path in detours_in(folder, _list_once)]
        return {path: (folder, state_of(path)) for path, folder in found}

    def _not_free(self, base: str, name: str) -> Iterator[str]:
        """Yield a name in a folder; if something in it is free, the names in it instead."""
        path = f"{base}/{name}"
        if not any(beneath(each, path) for each in self.free):
            yield name
        elif path not in self.free and os.path.isdir(path):
            inner: list[str] = []
            with unreadable:
                inner = os.listdir(path)
            for each in inner:
                yield from self._not_free(base, f"{name}/{each}")

    def _list_after(self, folder: str) -> _Listed:
        """Return the entries of a folder. If a command has closed it, open it: not through a link that leads out."""
        listed = _list(folder)
        if listed.closed and folder not in self.closed and beneath(real_path(folder), self.root):
            with contextlib.suppress(OSError):
                os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)
            listed = _list(folder)
        return listed

    def _links_below(
        self,
        base: str,
        names: Iterable[str],
        look: Callable[[str], _Listed],
        most: int = _MAX_INNER,
        depth: int = MAX_DEPTH,
    ) -> Iterator[str]:
        """Yield the links in protected folders that lead out of them, and those in the folders behind them: what they
        lead to is run or trusted, too."""
        pending = [name for name in names if name not in _WITHOUT_LINKS and os.path.isdir(f"{base}/{name}")]
        inside = [real_path(f"{base}/{name}") for name in pending]
        for folder in pending:
            listed = look(f"{base}/{folder}")
            inner = list(listed.folders)
            for link in listed.links:
                real = real_path(f"{base}/{folder}/{link}")
                if not within_any(real, inside) and not beneath(self.root, real):  # not the whole workspace
                    yield f"{folder}/{link}"
                    inside.append(real)
                    inner.append(link)
            if folder.count("/") < depth:
                new = (f"{folder}/{each}" for each in inner[: max(0, most - len(pending))])
                pending += [each for each in new if each not in _WITHOUT_LINKS]

    def _names_in(self, base: str, entries: frozenset[str], look: Callable[[str], _Listed]) -> Iterator[str]:
        for name in (each for first in entries & _ABOVE for each in _BETWEEN[first]):
            if os.path.islink(f"{base}/{name}"):
                self.links[base, name] = os.readlink(f"{base}/{name}")
        self.repositories.update(f"{base}/{each}" for each in entries & OWN_FOLDERS)
        if _is_repository(base, entries):
            self.repositories.add(base)
            yield from (name for name in REPOSITORY_NAMES if name in entries)
        for first in _BY_FIRST if (firsts := entries & _FIRST) else ():
            if first in firsts:
                yield from (name for name in _BY_FIRST[first] if os.path.lexists(f"{base}/{name}"))
        if ".git" in firsts:
            yield from _git_names(base, look)

    def _folders(self, look: Callable[[str], _Listed]) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield folders of the workspace once, breadth first, and the names in each. Known folders are not searched
        further down, nor those that git enters, wherever they lie."""
        pending = [(folder, 0) for folder in dict.fromkeys((self.root, *self.nearer))]
        pending += [(folder, self.depth) for folder in self.known]
        most, everywhere = len(pending) + MAX_FOLDERS, False
        begun: dict[str, int] = {}  # the depth of each folder that was looked at
        for folder, depth in pending:  # it grows
            if begun.get(folder, depth + 1) <= depth:
                continue
            if most <= 0:
                return
            most -= 1
            begun[folder] = depth
            listed = look(folder)
            if listed.closed:
                self.closed.add(folder)
            between = [f"{folder}/{each}" for first in listed.names & _ABOVE for each in _BETWEEN[first]]
            self.closed.update(each for each in between if not _may_enter(each) and look(each).closed)
            if not everywhere and ".git" in listed.names and names_anything(folder):
                self.depth, everywhere = MAX_FOLDERS, True
                begun.clear()
            if depth < self.depth and not is_last(self.root, folder):
                inner = (name for name in listed.folders if everywhere or not is_generated(name, f"{folder}/{name}"))
                pending += [(f"{folder}/{name}", depth + 1) for name in inner]
            if ".git" in listed.names:
                links = {_nearest(self.root, each): named for each, named in links_from(folder).items()}
                entered = [each for each in links if each not in self.linked and beneath(each, self.root)]
                self.linked.update(entered)
                if folder in self.entered or folder.count("/") - self.root.count("/") <= DEPTH:
                    fresh = {each for each in links if links[each] and beneath(each, self.root)} - self.entered
                    self.entered |= fresh
                    entered = [*{*entered, *fresh}]
                for each in entered:
                    begun.pop(each, None)
                    pending.append((each, self.depth))
                most += len(entered)
            if folder not in self.seen:
                self.seen[folder] = None
                yield folder, listed.names


_found: dict[str, dict[str, int]] = {}  # folders with names that somebody else found → when they were new (ns), or 0
_MAX_FOUND = 20_000  # of each root: as many as a walk by others finds
_of_person: dict[str, set[str]] = {}  # those of them that no command can have made unseen
_doubtful: set[str] = set()  # roots of which a search has not seen the whole
_MAX_ENTRIES = 20_000  # of folders, in a search at any depth
_MAX_IN_TOOLS = 50_000  # folders, in a search for repositories alone
MAX_LENGTH = 3_500  # bytes of the path of a folder: with a protected name it is still a path for the kernel (4,096)
NOT_SEARCHED = frozenset({
    "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache",
})  # fmt: skip
"""Folders that tools make again; they are large. Every search at any depth leaves the same ones out."""
_lock = threading.Lock()


def is_last(root: str, folder: str) -> bool:
    """Return whether the folders in a folder are too far down to be searched: git, for one, still reaches what has no
    path for us. So commands can neither make nor change them."""
    is_long = len(folder) > MAX_LENGTH // 4 and len(os.fsencode(folder)) > MAX_LENGTH  # a character has up to 4 bytes
    return is_long or folder.count("/") - root.count("/") >= MAX_DEPTH


def _nearest(root: str, folder: str) -> str:
    """Return a folder, or the one on the way to it, from the root, that is the last to be searched."""
    parts = folder.removeprefix(f"{root}/").split("/")
    ways = (f"{root}/{'/'.join(parts[:n])}" for n in range(1, len(parts)))
    return next((way for way in ways if is_last(root, way)), folder) if beneath(folder, root) else folder


def remember(root: str, folders: Iterable[str], new: Iterable[str] = ()) -> None:
    """Remember folders of a root that may have protected names: they are looked at, however deep they are. `new` are
    those that had none before a command."""
    with _lock:
        kept = _found.setdefault(root, {})
        kept.update({folder: kept.get(folder, 0) for folder in folders})
        kept.update(dict.fromkeys(new, time.time_ns()))
        for folder in list(kept)[:-_MAX_FOUND]:
            del kept[folder]


def remembered(root: str, since: int = 0) -> tuple[str, ...]:
    """Return the folders of a root that were remembered, or only those that were new since a time (ns)."""
    with _lock:
        return tuple(folder for folder, new in _found.get(root, {}).items() if new >= since)


def search_all(root: str, before: frozenset[str] | None = None) -> frozenset[str] | None:
    """Look for all folders of a root that may have protected names, and return them; None if too much lies there.
    `before`: what was found before a command, after which more is looked at. The others are new."""
    found, pending, most = dict[str, None](), [root], _MAX_ENTRIES if before is None else 25 * _MAX_ENTRIES
    for folder in pending:  # it grows
        names: list[str] = []
        last = is_last(root, folder)
        with unreadable, os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                inner = entry.name not in NOT_SEARCHED and entry.name != ".git"
                if inner and not last and entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
        if last or may_hold_names(names):
            found[folder] = None
        most -= len(names)
        if most < 0:
            looked(root, (), before, whole=False)
            return None
    looked(root, found, before)
    return frozenset(found)


def repositories_after(root: str, since: int) -> list[str]:
    """Return the repositories in a root after a command that began at a time (ns), also those in folders that tools
    make, where no other search looks: `git add` of a person makes git enter one. Folders that it closed there are
    opened."""
    found, pending = list[str](), [root]
    for folder in pending:  # it grows
        listed = _list_once(folder)
        if listed.closed and not (NOT_SEARCHED | PASSED_OVER).isdisjoint(folder.removeprefix(root).split("/")):
            with contextlib.suppress(OSError):
                status = os.stat(folder)
                if status.st_ctime_ns >= since:
                    os.chmod(folder, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
            listed = _list(folder)
        if not listed.names.isdisjoint((".git", "HEAD")):
            found.append(folder)
        if len(pending) < _MAX_IN_TOOLS and not is_last(root, folder):
            pending += [f"{folder}/{name}" for name in listed.folders if name != ".git"]
    return found


def looked(root: str, found: Iterable[str], before: Iterable[str] | None = None, *, whole: bool = True) -> None:
    """Remember what a search at any depth found before a command, or after it: then what was not there `before` is new.
    All that is there before a command is the person's, if no search yet has ended before it had looked at the `whole`:
    what a command made was new after it."""
    with _lock:
        if not whole:
            _doubtful.add(root)
        elif before is None and root not in _doubtful:
            _of_person.setdefault(root, set()).update(each for each in found if "/.git/" not in each)
    if whole or before is None:
        remember(root, found, [] if before is None else set(found).difference(before))


def entered_before(root: str, folders: Iterable[str]) -> None:
    """Remember what git enters before a command, while no other runs: no command left it there unseen."""
    with _lock:
        _of_person.setdefault(root, set()).update(folders)


def is_of_person(root: str, folder: str) -> bool:
    """Return whether a folder with protected names was there before all commands, or is what one may make."""
    return folder in _of_person.get(root, ())


def may_hold_names(entries: Iterable[str]) -> bool:
    """Return whether a folder with these entries may have protected names, or be a repository."""
    return any(name == "HEAD" or name in _FIRST for name in entries)


def is_generated(name: str, *places: str) -> bool:
    """Return whether a tool made a folder, not only whether it has a name that tools use. `places` are the paths where
    its entries are: under a layer there are two."""
    if name not in PASSED_OVER:
        return False
    if name == ".git":
        return True

    def has(names: Iterable[str]) -> bool:
        return any(os.path.lexists(f"{place}/{each}") for place in places for each in names)

    marks = _MARKS.get(name)
    return (marks is None or has(marks)) and not has((".git", "HEAD"))


def _is_repository(base: str, entries: frozenset[str]) -> bool:
    """Return whether git may take a folder for a repository. HEAD may be a link `refs/…`, wherever that leads."""
    head = f"{base}/HEAD"
    there = "HEAD" in entries and ("objects" in entries or "commondir" in entries)
    return there and (os.path.islink(head) or not os.path.isdir(head))


def _git_names(base: str, look: Callable[[str], _Listed]) -> Iterator[str]:
    """Yield more names of a repository: `.git` itself if it only points elsewhere, and the settings of its
    submodules."""
    try:
        mode = os.lstat(f"{base}/.git").st_mode
    except OSError:
        return
    if names_anything(base):
        yield ".gitmodules"
    if not stat.S_ISDIR(mode):
        yield ".git"
        return
    if is_too_large(f"{base}/.git"):  # for us, but not for git
        yield ".git/index"
    pending = [".git/modules"]
    for folder in pending:
        if len(pending) > _MAX_MODULES:
            yield ".git/modules"  # too many to look at: then protect all of them
            return
        listed = look(f"{base}/{folder}")
        if listed.closed:
            yield folder  # what is in it is not known
            continue
        passed = WITHIN_REPOSITORY if os.path.lexists(f"{base}/{folder}/HEAD") else ()
        for module in (f"{folder}/{name}" for name in listed.folders if name not in passed):
            pending.append(module)  # a submodule's name may have slashes
            if os.path.lexists(f"{base}/{module}/HEAD"):
                for guarded in REPOSITORY_NAMES:
                    if os.path.lexists(f"{base}/{module}/{guarded}"):
                        yield f"{module}/{guarded}"
                if is_too_large(f"{base}/{module}"):
                    yield f"{module}/index"
