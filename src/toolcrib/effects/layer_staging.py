"""Handle layers that lie on another file system than their root: copy files into the root, so that steps are renames
there, too.

New files are copied into a folder in the root and moved into place from it. The files that they replaced are copied
back to the layer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..boundary.copy_tree import Links, copy_tree
from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.read_tree import folders_below
from ..boundary.remove_tree import remove_all
from .change_list import Op
from .command_layer import LayerRoot
from .file_entry import Entry


def needs_staging(roots: Sequence[LayerRoot]) -> bool:
    """Return whether any layer lies on another file system than its root."""
    return any(os.stat(root.path).st_dev != os.stat(root.upper).st_dev for root in roots)


def staging_folder(root: LayerRoot, name: str) -> Path:
    """Return the folder in a root that holds the layer's content during an apply or undo."""
    return root.path / f".toolcrib-{name}"


def bring(roots: Sequence[LayerRoot], name: str, found: Sequence[Op], *, back: bool) -> list[Op]:
    """Copy all new files to the roots' file systems. Return the ops with the copies in place of the originals."""
    ops: list[Op] = list(found)
    for number, root in enumerate(roots):
        there = staging_folder(root, name)
        remove_all(there)
        there.mkdir(mode=0o700)
        links: Links = {}
        for at, op in enumerate(found):
            if op.root != number or op.kind == "mode":
                continue
            (there / op.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            comes = op.before if back else op.after
            if comes is None:
                continue
            _copy(root.upper / op.path, there / op.path, links)
            entry, tree = _looked(there / op.path)
            ops[at] = op._replace(before=entry, old_tree=tree) if back else op._replace(after=entry, tree=tree)
    return ops


def copy_home(roots: Sequence[LayerRoot], name: str, ops: Sequence[Op], *, back: bool) -> None:
    """Copy the files that left the roots into the layer, in place of the files that came from there. It can be
    repeated after a crash."""
    for number, root in enumerate(roots):
        there = staging_folder(root, name)
        if not there.exists():
            continue
        links: Links = {}
        for op in ops:
            if op.root != number or op.kind == "mode":
                continue
            left = op.after if back else op.before
            target = root.upper / op.path
            remove_all(target)
            if left is not None:
                _copy(there / op.path, target, links)


def _looked(path: Path) -> tuple[Entry, tuple[tuple[str, Entry], ...]]:
    entry = Entry.of(path.lstat())
    found: list[tuple[str, Entry]] = []
    if entry.kind == "dir":
        for here, folders, files in folders_below(path):
            for name in (*folders, *files):
                full = os.path.join(here, name)
                found.append((os.path.relpath(full, path), Entry.of(os.lstat(full))))
    return entry, tuple(found)


def _copy(source: Path, target: Path, links: Links) -> None:
    with closing_fd(os.open(source.parent, LISTED)) as above, closing_fd(os.open(target.parent, LISTED)) as there:
        copy_tree(above, source.name, there, target.name, links, str(target))
