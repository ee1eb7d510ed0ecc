"""Remember which file replaces which: an undo of an edit writes the old content to a new file, with another inode."""

from __future__ import annotations

import contextlib
import json
import os
from functools import cached_property
from pathlib import Path

from .change_list import Op
from .file_entry import Entry


class FileAliases:
    """The aliases by root and path: one identity → the file with the same content. Identities are
    dev:ino:mtime:size."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __bool__(self) -> bool:
        return self._path.exists()

    def add(self, root: str, path: str, was: str, now: str) -> None:
        """Remember that the file `now` has the content and the mode of the file `was`. Do nothing where there are no
        layers."""
        if not self._path.parent.is_dir():
            return
        line = json.dumps([root, path, was, now]) + "\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    @cached_property
    def _known(self) -> dict[tuple[str, str], dict[str, str]]:
        found: dict[tuple[str, str], dict[str, str]] = {}
        with contextlib.suppress(OSError), open(self._path, encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    root, path, was, now = json.loads(line)
                    found.setdefault((root, path), {})[was] = now
        return found

    def follow(self, root: str, op: Op, *, back: bool) -> Op:
        """Return the op with the new files in place of the files that it names."""
        known = self._fresh()
        leaves, tree = (op.after, op.tree) if back else (op.before, op.old_tree)
        leaves = None if leaves is None else _followed(known, root, op.path, leaves)
        tree = tuple((path, _followed(known, root, f"{op.path}/{path}", entry)) for path, entry in tree)
        return op._replace(after=leaves, tree=tree) if back else op._replace(before=leaves, old_tree=tree)

    def _fresh(self) -> dict[tuple[str, str], dict[str, str]]:
        stamp = os.stat(self._path).st_size if self._path.exists() else 0
        if self.__dict__.get("_size") != stamp:
            self.__dict__.pop("_known", None)
            self.__dict__["_size"] = stamp
        return self._known


def _followed(known: dict[tuple[str, str], dict[str, str]], root: str, path: str, entry: Entry) -> Entry:
    of_path = known.get((root, path))
    seen: set[str] = set()
    while of_path:
        text = f"{entry.dev}:{entry.ino}:{entry.mtime}:{entry.size}"
        if text in seen or text not in of_path:
            break
        seen.add(text)
        dev, ino, mtime, size = map(int, of_path[text].split(":"))
        entry = entry._replace(dev=dev, ino=ino, mtime=mtime, size=size)
    return entry
