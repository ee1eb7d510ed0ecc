"""One layer on disk: it takes a command's writes in place of the folders that the command may change.

<layer>/lock            the process that works on the layer holds it (flock); it is free when that process has ended
<layer>/<n>/upper       the files that the command wrote below root n; after an apply, the earlier files
<layer>/<n>/work        the kernel's working folder
<layer>/<n>/refused     files that are never applied; people can look at them
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from ..boundary.own_files import lock_file
from ..boundary.remove_tree import remove_all
from ..core.dataclass import dataclass

if TYPE_CHECKING:
    from ..boundary.sandbox.protected_paths import ProtectedPaths


@dataclass(frozen=True, slots=True)
class LayerRoot:
    """A folder under a layer: its real path, and the path of its layer."""

    path: Path
    folder: Path

    @property
    def upper(self) -> Path:
        """Return the folder of the files that the command wrote."""
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        """Return the kernel's working folder, on the same file system."""
        return self.folder / "work"

    @property
    def refused(self) -> Path:
        """Return the folder of files that are never applied."""
        return self.folder / "refused"


@dataclass
class CommandLayer:
    """A layer over some roots.

    `started` is the time of its creation (ns), by the clock that stamps files. `protected` says which paths of each
    root are protected; the sandbox sets it.
    """

    id: str
    folder: Path
    roots: tuple[LayerRoot, ...]
    started: int
    protected: Sequence[ProtectedPaths] = ()
    _lock: int = field(default=-1, repr=False)

    @classmethod
    def create(cls, parent: Path, roots: Sequence[Path]) -> CommandLayer:
        """Create a new, empty, locked layer. `parent` is a private folder."""
        name = f"ch-{time.time_ns() // 1_000_000:x}-{secrets.token_hex(3)}"
        folder = parent / name
        folder.mkdir(mode=0o700)
        lock = lock_file(folder / "lock", wait=False)
        assert lock is not None  # no other process knows the layer yet
        made = tuple(LayerRoot(path, folder / str(number)) for number, path in enumerate(roots))
        for root in made:
            root.folder.mkdir(mode=0o700)
            root.work.mkdir(mode=0o700)
            # The overlay's root shows the upper folder's mode; the kernel does not copy the mode by itself.
            there = root.path.stat()
            root.upper.mkdir(mode=0o700)
            root.upper.chmod(there.st_mode & 0o7777)
        # A file with a later stamp was changed after the command could begin. Stamps of one kernel only go forward.
        started = os.stat(made[-1].upper if made else folder).st_ctime_ns
        return cls(name, folder, made, started, _lock=lock)

    def arguments(self) -> list[str]:
        """Return bubblewrap's arguments that mount the layer over its roots (bubblewrap ≥ 0.11)."""
        arguments: list[str] = []
        for root in self.roots:
            arguments += ["--overlay-src", str(root.path)]
            arguments += ["--overlay", str(root.upper), str(root.work), str(root.path)]
        return arguments

    def unlock(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove_later(self) -> None:
        """Remove the layer in a thread. If that is interrupted, `LayerStore.recover` does the rest."""
        threading.Thread(target=self.remove, name="toolcrib-layer", daemon=True).start()

    def remove(self) -> None:
        """Remove the layer with all its content."""
        remove_all(self.folder)
        self.unlock()
