"""Find the files that commands may not read or change: secrets by their names, and what rules deny.

A sandbox can only leave out what it knows by name, so the folder is searched before a command starts. The result is
remembered for a short time: a search may take a twentieth of the time at most.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from ..descriptors import unreadable
from ..git_settings import holds_password
from ..real_path import real_path
from ..sensitive_names import sensitive_among
from ..workspace_paths import WHOLE_MACHINE
from .protected_search import MAX_LENGTH, closed_above
from .settings import SandboxSettings

MAX_FOLDERS = 20_000  # folders that are searched, the nearest first
_SHARE = 20.0  # a search is remembered for this many times as long as it took
_MAX_SECONDS = 10.0  # but no longer
# They hold many files, and none of the user's secrets. What rules deny is looked for in them, too.
_PASSED_OVER = frozenset({
    ".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".mypy_cache", ".ruff_cache",
})  # fmt: skip


# Two names of no file: what a rule says about both, it says about any file of their folder.
_ANY_NAMES = ("k3v9x2q7", "7Q_x.~m")


class FoundFiles:
    """The files below some folders for which `matches()` returns a function that is true, or whose names mean secrets.

    Without such a function only secrets are searched for. `behind`: of a link, find what it leads to below the folders.
    """

    def __init__(
        self,
        roots: Sequence[str],
        matches: Callable[[], Callable[[str], bool] | None],
        *,
        secrets: bool = False,
        behind: bool = False,
    ) -> None:
        self._roots, self._matches, self._secrets, self._behind = roots, matches, secrets, behind
        self._lock = threading.Lock()
        self._last: tuple[float, Callable[[str], bool] | None, tuple[str, ...]] = (0.0, None, ())

    def paths(self) -> tuple[str, ...]:
        """Return the files and folders that exist; no path below another one."""
        matches = self._matches()
        if matches is None and not self._secrets:
            return ()
        with self._lock:
            until, asked, found = self._last
            began = time.monotonic()
            if began >= until or asked is not matches:
                found = tuple(self._search(matches))
                if self._behind and any(map(os.path.islink, found)):
                    found = self._without_links(found)
                ended = time.monotonic()
                self._last = (ended + min(_MAX_SECONDS, (ended - began) * _SHARE), matches, found)
            return found

    def appeared(self, since: int) -> list[str]:
        """Return those that are new since a time (ns), as far as rules deny them. It always searches."""
        matches = self._matches()
        if matches is None:
            return []
        with self._lock:
            self._last = (0.0, None, ())
        return [path for path in self._search(matches) if _is_newer(path, since)]

    def seen_as(self, path: str) -> str:
        """Return a path, or the folder around it in these folders that may not be entered: what is there is not known.
        A command could open it."""
        if os.path.lexists(path):
            return path
        return next(filter(None, (closed_above(path, root) for root in self._roots)), path)

    def denies(self, path: str, folder: bool) -> bool:
        """Return whether rules deny a path, or all that could be in it."""
        matches = self._matches()
        return matches is not None and (matches(path) or (folder and _all_in(path, matches)))

    def _without_links(self, found: Iterable[str]) -> tuple[str, ...]:
        """Replace each link by the file or folder that it leads to. One that leads out shows a command nothing."""
        real = [real_path(path) if os.path.islink(path) else path for path in found]
        inside = {path for path in real if any(path.startswith(f"{root}/") for root in self._roots)}
        return tuple(path for path in inside if not any(str(above) in inside for above in Path(path).parents))

    def _search(self, matches: Callable[[str], bool] | None) -> list[str]:
        found: dict[str, None] = {}
        pending = list(self._roots)
        for folder in pending:
            if len(pending) > MAX_FOLDERS:
                del pending[MAX_FOLDERS:]
            try:
                names, folders = _entries(folder)
            except PermissionError:
                if folder not in self._roots:
                    found[folder] = None  # what is in it is not known, and can be used by its name
                continue
            if self._secrets:
                found.update((path, None) for path in _secrets_in(folder, names))
            if matches is None:
                pending += [f"{folder}/{name}" for name in folders if name not in _PASSED_OVER]
                continue
            for path in (f"{folder}/{name}" for name in names):
                if matches(path):
                    found[path] = None
            for path in (f"{folder}/{name}" for name in folders):
                if matches(path) or _all_in(path, matches):
                    found[path] = None
                else:
                    pending.append(path)
        return list(found)


def _all_in(folder: str, matches: Callable[[str], bool]) -> bool:
    return all(matches(f"{folder}/{name}") for name in _ANY_NAMES)


def secrets_below(folder: str, until: float) -> Iterator[str]:
    """Yield the files below a folder whose names mean secrets, the nearest first. Raises TimeoutError if it holds too
    many folders, or one too deep to be listed by its path, or takes longer than `until` (by `time.monotonic`)."""
    pending = [folder]
    for folder in pending:
        if len(pending) > MAX_FOLDERS or time.monotonic() > until or len(os.fsencode(folder)) > MAX_LENGTH:
            raise TimeoutError(f"{pending[0]} holds too much to be searched")
        try:
            names, folders = _entries(folder)
        except PermissionError:
            continue
        yield from sorted(_secrets_in(folder, names))
        if ".git" in folders and holds_password(config := f"{folder}/.git/config"):
            yield config
        pending += [f"{folder}/{name}" for name in sorted(folders) if name not in _PASSED_OVER]


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder; none if it is not there. Raises OSError if it may
    not be listed, or if that cannot be known."""
    names: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
    except PermissionError:
        raise
    except OSError:
        with unreadable:
            raise
        return [], []
    return names, folders


def _secrets_in(folder: str, names: Sequence[str]) -> list[str]:
    secret = (f"{folder}/{name}" for name in sensitive_among(folder, names))
    return [path for path in secret if not os.path.isdir(path)]  # a link to a folder is none


def _is_newer(path: str, since: int) -> bool:
    try:
        return os.lstat(path).st_ctime_ns >= since
    except OSError:
        return False


def withheld_files(workspace: Path, settings: SandboxSettings) -> FoundFiles:
    """Return the files below the workspace and the granted folders that commands with these settings may not read."""
    return FoundFiles(_roots(workspace, settings), _denied(settings, "Read"), secrets=settings.only_reads, behind=True)


def kept_files(workspace: Path, settings: SandboxSettings) -> FoundFiles:
    """Return the files that commands with these settings may not change, because rules deny it."""
    return FoundFiles(_roots(workspace, settings), _denied(settings, "Edit"))


def _roots(workspace: Path, settings: SandboxSettings) -> tuple[str, ...]:
    granted = map(real_path, (*settings.read_roots, *settings.write_roots))
    return tuple(dict.fromkeys(path for path in (str(workspace), *granted) if path != WHOLE_MACHINE))


def _denied(settings: SandboxSettings, name: Literal["Read", "Edit"]) -> Callable[[], Callable[[str], bool] | None]:
    denied = settings.denied
    return (lambda: None) if denied is None else (lambda: denied(name))
