"""Find the files that commands may not read or change: secrets by their names, and what rules deny.

A sandbox can only leave out what it knows by name, so the folder is searched before a command starts. The result is
remembered for a short time: a search may take a twentieth of the time at most.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from ..sensitive_names import sensitive_among
from ..workspace_paths import WHOLE_MACHINE
from .settings import SandboxSettings

MAX_FOLDERS = 20_000  # folders that are searched, the nearest first
_SHARE = 20.0  # a search is remembered for this many times as long as it took
_MAX_SECONDS = 10.0  # but no longer
# They hold many files, and none of the user's secrets. What rules deny is looked for in them, too.
_PASSED_OVER = frozenset({
    ".git", "node_modules", ".venv", "venv", "site-packages", "__pycache__", ".mypy_cache", ".ruff_cache",
})  # fmt: skip


class FoundFiles:
    """The files below some folders for which `matches()` returns a function that is true, or whose names mean secrets.

    Without such a function only secrets are searched for.
    """

    def __init__(
        self, roots: Sequence[str], matches: Callable[[], Callable[[str], bool] | None], *, secrets: bool = False
    ) -> None:
        self._roots, self._matches, self._secrets = roots, matches, secrets
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
                ended = time.monotonic()
                self._last = (ended + min(_MAX_SECONDS, (ended - began) * _SHARE), matches, found)
            return found

    def _search(self, matches: Callable[[str], bool] | None) -> list[str]:
        found: dict[str, None] = {}
        pending = list(self._roots)
        for folder in pending:
            if len(pending) > MAX_FOLDERS:
                del pending[MAX_FOLDERS:]
            names: list[str] = []
            folders: list[str] = []
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
            except OSError:
                continue
            if self._secrets:
                found.update((f"{folder}/{name}", None) for name in sensitive_among(folder, names))
            if matches is None:
                pending += [f"{folder}/{name}" for name in folders if name not in _PASSED_OVER]
                continue
            for path in (f"{folder}/{name}" for name in names):
                if matches(path):
                    found[path] = None
            for path in (f"{folder}/{name}" for name in folders):
                if matches(path):
                    found[path] = None
                else:
                    pending.append(path)
        return list(found)


def withheld_files(workspace: Path, settings: SandboxSettings) -> FoundFiles:
    """Return the files below the workspace and the granted folders that commands with these settings may not read."""
    return FoundFiles(_roots(workspace, settings), _denied(settings, "Read"), secrets=settings.only_reads)


def kept_files(workspace: Path, settings: SandboxSettings) -> FoundFiles:
    """Return the files that commands with these settings may not change, because rules deny it."""
    return FoundFiles(_roots(workspace, settings), _denied(settings, "Edit"))


def _roots(workspace: Path, settings: SandboxSettings) -> tuple[str, ...]:
    granted = map(os.path.realpath, (*settings.read_roots, *settings.write_roots))
    return tuple(dict.fromkeys(path for path in (str(workspace), *granted) if path != WHOLE_MACHINE))


def _denied(settings: SandboxSettings, name: Literal["Read", "Edit"]) -> Callable[[], Callable[[str], bool] | None]:
    denied = settings.denied
    return (lambda: None) if denied is None else (lambda: denied(name))
