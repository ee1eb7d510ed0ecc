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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from ...core.dataclass import dataclass
from ...core.text import lazy_regex
from ..git_index import linked_folders
from ..host_file import HostFile
from ..programs import links_followed
from ..protected_names import PROTECTED_NAMES

# Inside a .git these also redirect git to other settings and hooks: commondir names the folder they are read
# from, worktrees hold one each (gitrepository-layout(5)).
_GIT_NAMES = (".git/commondir", ".git/worktrees")
_NAMES: tuple[str, ...] = (*(p.name for p in PROTECTED_NAMES), *_GIT_NAMES)
# A folder with HEAD and objects is a repository, whatever its name: git uses it as the current folder, and a `.git`
# file can point to it.
_REPOSITORY_NAMES = ("config", "hooks", "config.worktree", "commondir", "worktrees")
_FIRST = frozenset(name.partition("/")[0] for name in _NAMES)

_MAKES_REPOSITORY = frozenset({"head", "objects", "commondir"})
_LAST = frozenset({
    *(name.rpartition("/")[2].casefold() for name in _NAMES), *_REPOSITORY_NAMES, ".git", *_MAKES_REPOSITORY,
})  # fmt: skip

_ABOVE = frozenset(p.name.partition("/")[0] for p in PROTECTED_NAMES if "/" in p.name)
_BETWEEN = frozenset(part.casefold() for name in _NAMES for part in name.split("/")[:-1])
TICK_NS = 20_000_000  # ns: files are stamped with the time of the kernel's last tick, up to 10 ms ago

_PROTECTED = "it is protected: other programs run or trust it"

# The depth of the search for nested repositories and projects. A deeper repository is not protected.
_DEPTH = 3
_MAX_FOLDERS = 1_000
_MAX_MODULES = 500
_PASSED_OVER = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"})

# What the tools that make such a folder leave in it. One without is somebody's own folder.
_MARKS: dict[str, tuple[str, ...]] = {
    "node_modules": (".package-lock.json", ".yarn-integrity", ".yarn-state.yml", ".modules.yaml"),
    ".venv": ("pyvenv.cfg",), "venv": ("pyvenv.cfg",), "target": ("CACHEDIR.TAG", ".rustc_info.json"),
    ".tox": (".tox-info.json", "CACHEDIR.TAG"), ".mypy_cache": ("CACHEDIR.TAG",),
}  # fmt: skip


@dataclass
class ProtectedPaths:
    """The protected paths of one root: `pinned` and `read_only` paths, and the paths to compare after the command."""

    root: str
    allowed: frozenset[str]
    pinned: set[str] = field(default_factory=set[str])
    read_only: set[str] = field(default_factory=set[str])
    existing: dict[str, str] = field(default_factory=dict[str, str])  # path → its real path
    named: set[str] = field(default_factory=set[str])  # protected names that exist, under their own paths
    links: dict[str, str] = field(default_factory=dict[str, str])  # link above a protected name → its target
    nearer: tuple[str, ...] = ()  # the folder where the command starts, and the folders above it
    known: tuple[str, ...] = ()  # folders to look at again, however many others exist by then
    seen: set[str] = field(default_factory=set[str])
    held: set[str] = field(default_factory=set[str])  # files that the host runs, whatever their names
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
            if not any(path.startswith(other + "/") for other in self.read_only)
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

    def appeared(self, deep: Iterable[str] = ()) -> list[str]:
        """Return the protected names that did not exist before, or that lead elsewhere now; relative to the root.
        `deep` are further folders to look at."""
        found: dict[str, None] = {}
        cut, deep = len(self.seen) >= _MAX_FOLDERS, frozenset(deep)
        linked: set[str] = set()
        for base, name in _candidates(self.root, self.nearer, (*self.known, *deep), linked=linked):
            path = f"{base}/{name}"
            if _is_granted(name, self.allowed) or self.existing.get(path) == os.path.realpath(path):
                continue
            unseen = (cut or base in deep) and base not in self.seen and base not in linked
            if unseen and not self._is_recent(path):
                continue  # earlier it was not looked for there
            if path not in self.existing and _is_harmless(path, name):
                continue
            path = self._movable(base, name)
            if path not in found and found.keys().isdisjoint(map(str, Path(path).parents)):
                found[path] = None
        there = (path for path in sorted({*self.held, *self._new()}) if os.path.lexists(path))
        found.update((path, None) for path in there if self.existing.get(path) != os.path.realpath(path))
        return list(found) if self.absolute else [os.path.relpath(path, self.root) for path in found]

    def hold(self, file: HostFile) -> None:
        """Protect a file or folder that the host runs. If it does not exist, it must not appear."""
        if _is_granted(os.path.relpath(file.path, self.root), self.allowed):
            return
        if file.many:
            self.many.append(file)
        for path in file.there():
            self.held.add(path)
            if os.path.lexists(path):
                self._protect(os.path.dirname(path), os.path.basename(path))

    def _new(self) -> list[str]:
        return [path for file in self.many for path in file.there()]

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
            above = f"{base}/{'/'.join(parts[:n])}"
            if os.path.islink(above):
                return os.path.realpath(path) if self.links.get(above) == os.readlink(above) else above
        return path

    def keeps(self, path: str) -> bool:
        """Return whether a path (absolute) was protected before the command: the command must not remove it either."""
        return path in self.named or path in self.read_only or path in self.pinned or self.denied(path, False)

    def forbids(self, path: str, kind: str) -> str:
        """Return why a command must not make or change a path (absolute), whatever its name; "" if it may. `kind` is
        the type that the path would have: a link also leads to what is below it."""
        if self.denied(path, kind != "file"):
            return "a rule denies it"
        below = f"{path}/" if kind == "link" else None
        if path in self.held or (below and any(each.startswith(below) for each in self.held)):
            return _PROTECTED
        modules = (path, f"{path}/__init__.py") if below else (path,)
        return _PROTECTED if any(file.covers(each) for file in self.many for each in modules) else ""

    def _protect(self, base: str, name: str) -> None:
        path = f"{base}/{name}"
        real = self.existing[path] = os.path.realpath(path)
        if _is_granted(name, self.allowed):
            return
        self.named.add(path)
        if not real.startswith(self.root + "/"):
            return  # the link leads out of the workspace: the command cannot write there
        if os.path.exists(real):
            self.read_only.add(real)
        elif real != path:  # a link that leads nowhere yet
            self.held.add(real)
        for link in () if real == path else links_followed(path):
            if link.startswith(f"{self.root}/") and not f"{path}/".startswith(f"{link}/"):  # it leads there in steps
                self.existing[link] = os.path.realpath(link)
                self.named.add(link)
                self.held.add(link)
        for parent in Path(real).parents:
            if str(parent) == self.root:
                break
            self.pinned.add(str(parent))


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
    if os.path.realpath(path) != path:
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


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _is_granted(name: str, allowed: frozenset[str]) -> bool:
    parts = (f".git/{name}" if name in _REPOSITORY_NAMES else name).split("/")
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
    folded = path.rpartition("/")[2].casefold()
    if folded not in _LAST and not (kind == "link" and folded in _BETWEEN):
        return None
    parts, whole = path.casefold().split("/"), path.split("/")

    def searched(last: int) -> bool:
        above = (whole[:n] for n in range(1, len(whole) - last + 1))
        return not any(each[-1] in _PASSED_OVER and generated("/".join(each)) for each in above)

    for each in _NAMES:
        own = each.casefold().split("/")
        if parts[-len(own) :] == own and searched(len(own)):
            return None if _is_granted(each, allowed) else each
        leads = kind == "link" and any(parts[-n:] == own[:n] and searched(n) for n in range(1, len(own)))
        if leads and not _is_granted(each, allowed):  # what it leads to would get the protected name
            return each
    if folded == ".git" and kind != "dir" and searched(1):
        return None if _is_granted(".git", allowed) else ".git"
    if folded in _MAKES_REPOSITORY and not _repository(beside, True) and _repository(beside, False):
        there = [each for each in _REPOSITORY_NAMES if beside(each, True) and not _is_granted(each, allowed)]
        return there[0] if there else None  # a plain file in this place would become a repository's setting
    if folded in _REPOSITORY_NAMES and _repository(beside, False):
        return None if _is_granted(folded, allowed) else folded
    return None


def _repository(beside: Beside, before: bool) -> bool:
    return beside("HEAD", before) and (beside("objects", before) or beside("commondir", before))


def find_protected_paths(root: Path, cwd: Path, allowed: frozenset[str], known: Iterable[str] = ()) -> ProtectedPaths:
    """Return the protected paths of a workspace before a command that starts in `cwd`.

    `known` are folders where protected names were found before: a command could create so many other folders that the
    search would not reach those.
    """
    found = ProtectedPaths(str(root), allowed)
    nearer = [str(p) for p in (cwd, *cwd.parents) if p.is_relative_to(root)]
    bases = dict.fromkeys(known)
    for base, name in _candidates(str(root), nearer, tuple(bases), found):
        found._protect(base, name)  # pyright: ignore[reportPrivateUsage]
        bases[base] = None
    for link in found.links:  # what would get a protected name because it lies behind a link
        base, name = os.path.split(link)
        for each in _NAMES:
            real = os.path.realpath(f"{base}/{each}") if each.startswith(f"{name}/") else ""
            if real.startswith(f"{root}/") and not os.path.lexists(real) and not _is_granted(each, allowed):
                found.held.add(real)
    found.nearer, found.known = tuple(nearer), tuple(bases)
    return found


def may_hold_names(entries: Iterable[str]) -> bool:
    """Return whether a folder with these entries may have protected names, or be a repository."""
    return any(name == "HEAD" or name in _FIRST for name in entries)


def _candidates(
    root: str, nearer: Iterable[str], known: Iterable[str], note: ProtectedPaths | None = None,
    linked: set[str] | None = None,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield every protected name that exists, as (folder, name). `note` records the folders and links that were
    seen, `linked` the folders that git enters because its index names them."""
    seen: set[str] = set()
    for base, entries in _folders(root, nearer, known, set() if linked is None else linked):
        if base in seen:
            continue
        seen.add(base)
        if note is not None:
            note.seen.add(base)
            for name in entries & _ABOVE:
                if os.path.islink(f"{base}/{name}"):
                    note.links[f"{base}/{name}"] = os.readlink(f"{base}/{name}")
        if _is_repository(base, entries):
            for name in _REPOSITORY_NAMES:
                if name in entries:
                    yield base, name
        first = entries & _FIRST
        if not first:
            continue
        for name in _NAMES:
            if name.partition("/")[0] in first and os.path.lexists(f"{base}/{name}"):
                yield base, name
        if ".git" in first:
            yield from ((base, name) for name in _git_names(base))


def is_generated(name: str, *places: str) -> bool:
    """Return whether a tool made a folder, not only whether it has a name that tools use. `places` are the paths where
    its entries are: under a layer there are two."""
    if name not in _PASSED_OVER:
        return False
    if name == ".git":
        return True

    def has(names: Iterable[str]) -> bool:
        return any(os.path.lexists(f"{place}/{each}") for place in places for each in names)

    marks = _MARKS.get(name)
    return (marks is None or has(marks)) and not has((".git", "HEAD"))


def _is_repository(base: str, entries: set[str]) -> bool:
    """Return whether git may take a folder for a repository. HEAD may be a link to a file that is not there yet."""
    return "HEAD" in entries and ("objects" in entries or "commondir" in entries) and not os.path.isdir(f"{base}/HEAD")


def _git_names(base: str) -> Iterator[str]:
    """Yield more names of a repository: `.git` itself if it only points elsewhere, and the settings of its
    submodules."""
    try:
        mode = os.lstat(f"{base}/.git").st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        yield ".git"
        return
    pending = [".git/modules"]
    for folder in pending:
        if len(pending) > _MAX_MODULES:
            yield ".git/modules"  # too many to look at: then protect all of them
            return
        try:
            with os.scandir(f"{base}/{folder}") as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for name in names:
            module = f"{folder}/{name}"
            if os.path.lexists(f"{base}/{module}/HEAD"):
                for guarded in _REPOSITORY_NAMES:
                    if os.path.lexists(f"{base}/{module}/{guarded}"):
                        yield f"{module}/{guarded}"
                pending.append(f"{module}/modules")
            else:
                pending.append(module)  # a submodule's name may have slashes


def _folders(
    root: str, nearer: Iterable[str], known: Iterable[str], linked: set[str]
) -> Iterator[tuple[str, set[str]]]:
    """Yield folders of the workspace, breadth first, and the names in each. Folders in `known` are not searched
    further down, nor those that git enters, wherever they lie: `linked` gets these."""
    pending = [(folder, 0) for folder in dict.fromkeys((root, *nearer))]
    pending += [(folder, _DEPTH) for folder in known]
    most = len(pending) + _MAX_FOLDERS
    for visited, (folder, depth) in enumerate(pending):
        if visited >= most:
            return
        names: set[str] = set()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    names.add(entry.name)
                    if (
                        depth < _DEPTH
                        and entry.is_dir(follow_symlinks=False)
                        and not is_generated(entry.name, entry.path)
                    ):
                        pending.append((entry.path, depth + 1))
        except OSError:
            continue
        if ".git" in names:
            inner = [each for each in linked_folders(folder) if each not in linked]
            linked.update(inner)
            pending += [(each, _DEPTH) for each in inner]
            most += len(inner)
        yield folder, names
