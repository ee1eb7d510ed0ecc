"""Handle layers that lie on another file system than their root: copy files into the root, so that steps are renames
there, too.

New files are copied into a folder in the root and moved into place from it. The files that they replaced are copied
back to the layer.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ..boundary.descriptors import LISTED, chmod_at, closing_fd
from ..boundary.remove_tree import open_any, remove_all
from .change_list import Op
from .command_layer import LayerRoot
from .file_entry import OVERLAY, READ, Entry, copy_sparse

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
        links: dict[tuple[int, int], str] = {}
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
        links: dict[tuple[int, int], str] = {}
        for op in ops:
            if op.root != number or op.kind == "mode":
                continue
            left = op.after if back else op.before
            target = root.upper / op.path
            _drop(target)
            if left is not None:
                _copy(there / op.path, target, links)


def _drop(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            remove_all(path)
        else:
            path.unlink()


def _looked(path: Path) -> tuple[Entry, tuple[tuple[str, Entry], ...]]:
    entry = Entry.of(path.lstat())
    found: list[tuple[str, Entry]] = []
    if entry.kind == "dir":
        for here, folders, files in os.walk(path):
            for name in (*folders, *files):
                full = os.path.join(here, name)
                found.append((os.path.relpath(full, path), Entry.of(os.lstat(full))))
    return entry, tuple(found)


def _copy(source: Path, target: Path, links: dict[tuple[int, int], str]) -> None:
    """Copy an entry and all below it, with modes, times, attributes, holes and hard links."""
    with closing_fd(os.open(source.parent, LISTED)) as above, closing_fd(os.open(target.parent, LISTED)) as there:
        _copy_entry(above, source.name, there, target.name, str(target), links)


def _copy_entry(src: int, name: str, dst: int, new: str, full: str, links: dict[tuple[int, int], str]) -> None:
    st = os.lstat(name, dir_fd=src)
    if stat.S_ISLNK(st.st_mode):
        os.symlink(os.readlink(name, dir_fd=src), new, dir_fd=dst)
        os.utime(new, ns=(st.st_atime_ns, st.st_mtime_ns), dir_fd=dst, follow_symlinks=False)
    elif stat.S_ISDIR(st.st_mode):
        os.mkdir(new, 0o700, dir_fd=dst)
        with closing_fd(open_any(name, src)) as below, closing_fd(os.open(new, LISTED, dir_fd=dst)) as there:
            for each in os.listdir(below):
                _copy_entry(below, each, there, each, f"{full}/{each}", links)
            _take_over(below, there, st)
    elif stat.S_ISREG(st.st_mode):
        known = links.get((st.st_dev, st.st_ino))
        if known is not None:
            os.link(known, new, dst_dir_fd=dst, follow_symlinks=False)
            return
        if st.st_nlink > 1:
            links[(st.st_dev, st.st_ino)] = full
        _copy_file(src, name, dst, new, st)


def _copy_file(src: int, name: str, dst: int, new: str, st: os.stat_result) -> None:
    try:
        source = os.open(name, READ, dir_fd=src)
    except PermissionError:  # the file is ours, and even we may not read it
        chmod_at(name, src, 0o600, kind=0)
        source = os.open(name, READ, dir_fd=src)
    with closing_fd(source), closing_fd(os.open(new, _NEW, 0o600, dir_fd=dst)) as target:
        copy_sparse(source, target)
        _take_over(source, target, st)


def _take_over(source: int, target: int, st: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            if not name.startswith(OVERLAY):
                os.setxattr(target, name, os.getxattr(source, name))
    with contextlib.suppress(PermissionError):
        os.fchown(target, st.st_uid, st.st_gid)
    os.fchmod(target, stat.S_IMODE(st.st_mode))
    os.utime(target, ns=(st.st_atime_ns, st.st_mtime_ns))
