"""Store composed tools in one JSON file in the workspace's state folder. Tools cannot reach it; processes share it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

from ...boundary.own_files import replace_file
from ...core.errors import ToolcribError, ToolDefinitionError
from .composed_tool import ComposedTool, composed

MAX_TOOLS = 500
MAX_BYTES = 32 << 20
_KEYS = ("name", "description", "action", "parameters", "created_at")
T = TypeVar("T")


class StoreError(ToolcribError):
    """The file of composed tools cannot be read or written. The file stays unchanged."""


class ComposedStore:
    """The file of composed tools. Every change reads it again, under a lock shared with other processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[list[ComposedTool], list[tuple[str, str]]]:
        """Return the tools, and the errors of invalid entries as (name, reason).

        Raises StoreError if the file cannot be read.
        """
        good: list[ComposedTool] = []
        bad: list[tuple[str, str]] = []
        for number, entry in enumerate(self._entries()):
            try:
                good.append(_tool(entry))
            except ToolDefinitionError as error:
                fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
                name = fields.get("name")
                bad.append((name if isinstance(name, str) else f"entry {number + 1}", f"{self.path}: {error}"))
        return good, bad

    def change(self, alter: Callable[[list[Any]], list[Any]]) -> None:
        """Replace the stored entries with the result of `alter`.

        If `alter` raises, they stay unchanged. Raises StoreError if the file cannot be read or written, or has too
        many tools.
        """
        with self._alone():
            changed = alter(list(self._entries()))
            if len(changed) > MAX_TOOLS:
                raise StoreError(f"there are {MAX_TOOLS} composed tools already; delete one first")
            self._write(changed)

    def _entries(self) -> Iterable[Any]:
        try:
            with open(self.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.path}: the composed tools cannot be read: {error.strerror}") from None
        if not data.strip():
            return []
        try:
            found: Any = json.loads(data) if len(data) <= MAX_BYTES else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list):
            raise StoreError(f"{self.path}: no list of composed tools; mend it, or move it away to begin anew")
        return cast("list[Any]", found)

    def _write(self, entries: list[Any]) -> None:
        try:
            replace_file(self.path, json.dumps(entries, ensure_ascii=True, indent=1))
        except OSError as error:
            raise StoreError(f"{self.path}: the composed tools cannot be written: {error.strerror}") from None

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """Hold the lock. If the system has no file locks (Windows), assume that no other process uses the file."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        fd = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _tool(entry: Any) -> ComposedTool:
    if not isinstance(entry, dict):
        raise ToolDefinitionError("a composed tool should be an object")
    fields = cast("dict[str, Any]", entry)
    return composed(*(fields.get(key) for key in _KEYS))
