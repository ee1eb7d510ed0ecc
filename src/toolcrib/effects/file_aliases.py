"""Remember which file replaces which: an undo of an edit writes the old content to a new file, with another inode."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from ..boundary.descriptors import closing_fd
from .change_list import Op
from .file_entry import Entry

Aliases = dict[tuple[str, str], dict[str, tuple[str, int]]]
"""By root and path: one identity → the file with the same content, and when it was written (Unix time in ns).
Identities are dev:ino:mtime:size."""


def add_alias(path: Path, root: str, name: str, was: str, now: str) -> None:
    """Remember in the file at `path` that the file `now` has the content and the mode of the file `was`. Do nothing
    where there are no layers."""
    if not path.parent.is_dir():
        return
    line = json.dumps([root, name, was, now, time.time_ns()]) + "\n"
    with closing_fd(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)) as fd:
        os.write(fd, line.encode())


def read_aliases(path: Path) -> Aliases:
    """Return the aliases in the file at `path`."""
    found: Aliases = {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                root, name, was, now, at = json.loads(line)
                found.setdefault((root, name), {})[was] = now, at
    return found


def follow_aliases(known: Aliases, root: str, op: Op, *, back: bool) -> Op:
    """Return the op with the new files in place of the files that it names."""
    leaves, tree = (op.after, op.tree) if back else (op.before, op.old_tree)
    leaves = None if leaves is None else _followed(known, root, op.path, leaves)
    tree = tuple((path, _followed(known, root, f"{op.path}/{path}", entry)) for path, entry in tree)
    return op._replace(after=leaves, tree=tree) if back else op._replace(before=leaves, old_tree=tree)


def _followed(known: Aliases, root: str, path: str, entry: Entry) -> Entry:
    of_path = known.get((root, path))
    seen: set[str] = set()
    while of_path:
        text = f"{entry.dev}:{entry.ino}:{entry.mtime}:{entry.size}"
        if text in seen or text not in of_path:
            break
        seen.add(text)
        now, at = of_path[text]
        if entry.ctime > at:  # a later file, which has the inode of the one that was replaced
            break
        dev, ino, mtime, size = map(int, now.split(":"))
        entry = entry._replace(dev=dev, ino=ino, mtime=mtime, size=size)
    return entry
