"""Remember for a while which host files a command may read."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .readable_roots import ReadableRoots

SECONDS = 10.0  # how long the link targets of PATH are remembered


class KnownRoots:
    """The files that the commands of one workspace need for their tools."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._last: tuple[float, str, ReadableRoots, list[str]] | None = None

    def look(self, cwd: Path, path: str) -> tuple[dict[str, str], list[str]]:
        """Return the binds (target → source) for a command in this folder with this PATH, and the PATH that remains."""
        now = time.monotonic()
        with self._lock:
            if self._last is None or self._last[1] != path or now - self._last[0] > SECONDS:
                roots = ReadableRoots(Path(os.path.expanduser("~")), self._workspace)
                self._last = now, path, roots, roots.add_path(path)
            _, _, roots, kept = self._last
            roots.add_environments([str(p) for p in (cwd, *cwd.parents) if p.is_relative_to(self._workspace)])
            return dict(roots.binds), list(kept)
