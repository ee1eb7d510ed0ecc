"""Lists directories: sorted, bounded, and without following a link."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from ..core.context import ToolContext

# Directories that a recursive listing names but does not enter: large, and made by tools.
UNENTERED = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache",
        ".ruff_cache", ".pytest_cache", ".idea", ".gradle", ".terraform", ".next", ".cache", "target", "dist", "build",
    }
)  # fmt: skip
_MAX_DEPTH = 64

Hider = Callable[[str, str], Callable[[str], bool] | None]
"""(tool, directory) to what tells which absolute paths beneath it rules hide from that tool; None where nothing is."""

ListStyle = Literal["plain", "emoji", "tagged"]
STYLES: Mapping[ListStyle, tuple[str, str, str]] = {  # directory, link, file
    "plain": ("{}/", "{}@", "{}"),
    "emoji": ("📁 {}", "🔗 {}", "📄 {}"),
    "tagged": ("[DIR] {}/", "[LINK] {}", "[FILE] {}"),
}


class DirectoryListing:
    """A sorted listing that stops at its limit, whatever the size of the tree.

    `hides` tells which paths, relative to the listed directory, are to be as if they were not there.
    """

    def __init__(self, style: tuple[str, str, str], limit: int, hides: Callable[[str], bool] | None = None) -> None:
        self._style = style
        self._hides = hides
        self._limit = limit
        self._lines: list[str] = []
        self._unentered: list[str] = []
        self._more = 0
        self._cut = False

    def walk(self, fd: int, prefix: str, recursive: bool, ctx: ToolContext, depth: int = 0, within: str = "") -> None:
        room = self._limit - len(self._lines)
        hides = self._hides
        entries, count = _smallest(fd, room, None if hides is None else lambda name: hides(within + name))
        self._more += max(0, count - len(entries))
        for number, (name, kind) in enumerate(entries):
            if len(self._lines) >= self._limit:
                self._more += len(entries) - number
                self._cut = self._cut or recursive
                return
            self._lines.append(self._style[kind].format(printable_path(prefix + name)))
            if kind != 0 or not recursive:
                continue
            if name in UNENTERED or depth >= _MAX_DEPTH:
                self._unentered.append(prefix + name)
            elif not ctx.cancelled:
                try:
                    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                except OSError:
                    continue  # gone, replaced, or not ours to read
                try:
                    self.walk(below, f"{prefix}{name}/", recursive, ctx, depth + 1, f"{within}{name}/")
                finally:
                    os.close(below)

    def text(self, shown: str) -> str:
        if not self._lines:
            return f"({shown} is empty)"
        lines = list(self._lines)
        if self._unentered:
            named = ", ".join(map(printable_path, self._unentered[:20])) + (" …" if len(self._unentered) > 20 else "")
            lines.append(f"(not entered: {named})")
        if self._more:
            least = "at least " if self._cut else ""
            lines.append(f"({least}{self._more:,} more entries not shown; raise max_entries or list a subdirectory)")
        return "\n".join(lines)


def printable_path(path: str) -> str:
    """A path on one line whatever it is called: a name must not look like further lines of an answer."""
    if path.isprintable():
        return path
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def _smallest(fd: int, room: int, hides: Callable[[str], bool] | None) -> tuple[list[tuple[str, int]], int]:
    count = 0

    def entries() -> Iterator[tuple[str, int]]:
        nonlocal count
        with os.scandir(fd) as found:
            for entry in found:
                if hides is not None and hides(entry.name):
                    continue
                count += 1
                kind = 1 if entry.is_symlink() else 0 if entry.is_dir(follow_symlinks=False) else 2
                yield entry.name, kind

    return heapq.nsmallest(max(room, 0), entries()), count
