"""What a command may read under Landlock: the system, its tools, the workspace and what is granted, but not what is
hidden or withheld."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ... import landlock_calls
from ...real_path import real_path
from ...workspace_paths import WHOLE_MACHINE
from ..found_files import withheld_files
from ..readable_roots import KnownRoots, system_paths
from ..settings import SandboxSettings
from .file_rules import FileRules

_KNOWN_SECONDS = 10.0  # how long a ruleset is remembered: files of the system may be replaced
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class ReadingRules:
    """The rules for reading of one workspace's commands. `abi` is the version of Landlock."""

    def __init__(self, settings: SandboxSettings, workspace: Path, abi: int) -> None:
        self._last: tuple[object, float, int] | None = None  # what it is for, until when, and its descriptor
        self._workspace, self._abi = str(workspace), abi
        granted = settings.beside((*settings.read_roots, *settings.write_roots), workspace)
        self._granted = [real_path(each) for each in granted]  # once: what they lead to may change
        self._hidden = settings.hidden
        self._roots = KnownRoots(workspace)
        self._withheld = withheld_files(workspace, settings)
        self._attributes = landlock_calls.handled(abi, landlock_calls.all_rights(abi))
        self._lock = threading.Lock()

    def closed(self) -> frozenset[str]:
        """Return the paths that a command may neither read nor change."""
        return frozenset((*map(real_path, self._hidden), *self._withheld.paths()))

    def add(self, ruleset: int, closed: frozenset[str], path: str, cwd: Path) -> list[str]:
        """Allow reading for a command in this folder with this PATH, and the harmless devices. Return the PATH that
        remains. Raises OSError."""
        binds, kept = self._roots.look(cwd, path)
        self._add(ruleset, closed, binds)
        return kept

    def ruleset(self, path: str, cwd: Path) -> tuple[int, list[str]]:
        """Return a ruleset with these rules alone, which the caller closes, and the PATH that remains. It is the last
        one again if the same rules would be made. Raises OSError."""
        closed = self.closed()
        binds, kept = self._roots.look(cwd, path)
        key, now = (closed, tuple(binds.values())), time.monotonic()
        with self._lock:
            if self._last is not None and self._last[0] == key and now < self._last[1]:
                return os.dup(self._last[2]), kept
            made = landlock_calls.create_ruleset(self._attributes)
            try:
                if not self._add(made, closed, binds):  # no rules for the entries of a folder that may change
                    self._forget()
                    self._last = key, now + _KNOWN_SECONDS, os.dup(made)
            except BaseException:
                os.close(made)
                raise
            return made, kept

    def _add(self, ruleset: int, closed: frozenset[str], binds: Mapping[str, str]) -> bool:
        rules = FileRules(ruleset, landlock_calls.READ, closed, listed=landlock_calls.READ_DIR)
        own = () if self._workspace == WHOLE_MACHINE else (self._workspace,)
        for each in (*system_paths(), *binds.values(), "/proc"):
            rules.allow(each)
        for each in (*self._granted, *own):
            rules.allow(each, real=True)
        for each in _DEVICES:
            landlock_calls.allow_path(ruleset, each, landlock_calls.DEVICE & landlock_calls.all_rights(self._abi))
        return rules.entered

    def _forget(self) -> None:
        if self._last is not None:
            os.close(self._last[2])
            self._last = None

    def __del__(self) -> None:
        self._forget()
