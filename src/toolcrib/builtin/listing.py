"""Lists directories: sorted, bounded, and without following a link."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping
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

ListStyle = Literal["plain", "emoji", "tagged"]
STYLES: Mapping[ListStyle, tuple[str, str, str]] = {  # directory, link, file
    "plain": ("{}/", "{}@", "{}"),
    "emoji": ("📁 {}", "🔗 {}", "📄 {}"),
    "tagged": ("[DIR] {}/", "[LINK] {}", "[FILE] {}"),
}


class Listing:
    """A sorted listing that stops at its limit, whatever the size of the tree."""

    def __init__(self, style: tuple[str, str, str], limit: int) -> None:
        self._style = style
        self._limit = limit
        self._lines: list[str] = []
        self._unentered: list[str] = []
        self._more = 0
        self._cut = False

    def walk(self, fd: int, prefix: str, recursive: bool, ctx: ToolContext, depth: int = 0) -> None:
        room = self._limit - len(self._lines)
        entries, count = _smallest(fd, room)
        self._more += max(0, count - len(entries))
        for number, (name, kind) in enumerate(entries):
            if len(self._lines) >= self._limit:
                self._more += len(entries) - number
                self._cut = self._cut or recursive
                return
            self._lines.append(self._style[kind].format(one_line(prefix + name)))
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
                    self.walk(below, f"{prefix}{name}/", recursive, ctx, depth + 1)
                finally:
                    os.close(below)

    def text(self, shown: str) -> str:
        if not self._lines:
            return f"({shown} is empty)"
        lines = list(self._lines)
        if self._unentered:
            named = ", ".join(map(one_line, self._unentered[:20])) + (" …" if len(self._unentered) > 20 else "")
            lines.append(f"(not entered: {named})")
        if self._more:
            least = "at least " if self._cut else ""
            lines.append(f"({least}{self._more:,} more entries not shown; raise max_entries or list a subdirectory)")
        return "\n".join(lines)


def one_line(path: str) -> str:
    """A path on one line whatever it is called: a name must not look like further lines of an answer."""
    if path.isprintable():
        return path
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def _smallest(fd: int, room: int) -> tuple[list[tuple[str, int]], int]:
    count = 0

    def entries() -> Iterator[tuple[str, int]]:
        nonlocal count
        with os.scandir(fd) as found:
            for entry in found:
                count += 1
                kind = 1 if entry.is_symlink() else 0 if entry.is_dir(follow_symlinks=False) else 2
                yield entry.name, kind

    return heapq.nsmallest(max(room, 0), entries()), count
