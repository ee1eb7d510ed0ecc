"""Move a layer's content into its roots, or the earlier content back: all of it, or nothing.

Each step is one rename on one file system: a new name is moved in, an old one is moved out to the same place in the
layer, or the two change places. So after an apply the layer holds the earlier content, and an undo works the same way
in the other direction. Roots are opened through descriptors that follow no link, so a program that swaps a folder for a
link cannot redirect a step. The places of every step show whether it is done, so a step that was killed half-way can be
completed later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..boundary.descriptors import LISTED, chmod_at, chmod_fd, closing_fd
from ..boundary.openat2 import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, has_openat2, openat2, rename_exchange, rename_new
from ..boundary.protected_names import REPOSITORY_NAMES
from ..core.errors import ToolcribError
from .change_list import Op, readable
from .command_layer import LayerRoot
from .file_entry import Entry, entry_at

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED = "is in a folder that was moved or replaced meanwhile"
_REPOSITORY = "would be part of a repository with settings, because of what was made beside it meanwhile"

Widened = tuple[int, str, int]
"""A folder that its owner may not write to, but must for a step: root, path, mode."""


class ApplyConflict(ToolcribError):
    """Something differs from what the layer expects. Nothing was changed. `conflicts` has a line for each
    difference."""

    def __init__(self, conflicts: list[str]) -> None:
        shown = "; ".join(conflicts[:5]) + (f"; and {len(conflicts) - 5} more" if len(conflicts) > 5 else "")
        super().__init__(shown)
        self.conflicts = conflicts


class Step(NamedTuple):
    """An op in one direction: what leaves the root, and what comes from the layer."""

    op: Op
    leaves: Entry | None
    comes: Entry | None
    left_tree: tuple[tuple[str, Entry], ...]
    parent: str
    name: str


def steps(ops: Sequence[Op], *, back: bool) -> Iterator[Step]:
    """Yield the ops as steps, forward or back. One at a time: a list of ten thousand costs a third of their renames."""
    for op in ops:
        parent, _, name = op.path.rpartition("/")
        if back:
            yield Step(op, op.after, op.before, op.tree, parent, name)
        else:
            yield Step(op, op.before, op.after, op.old_tree, parent, name)


class Applier:
    """An object that takes steps between roots and their folders in a layer. Close it after use."""

    def __init__(self, roots: Sequence[LayerRoot], places: Sequence[os.PathLike[str]] | None = None) -> None:
        self._roots: list[int] = []
        self._places: list[int] = []
        self._at: tuple[int, str] = (-1, "")
        self._pair: tuple[int, int] = (-1, -1)
        self._identity: tuple[int, int] = (0, 0)
        try:
            for root, place in zip(roots, places or [root.upper for root in roots], strict=True):
                self._roots.append(os.open(root.path, _FOLDER))
                self._places.append(os.open(place, _FOLDER))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all descriptors."""
        self._leave()
        for fds in (self._roots, self._places):
            while fds:
                os.close(fds.pop())

    # --- checks

    def conflicts(self, todo: Iterable[Step], *, strict: bool) -> list[str]:
        """Return a line for each path that differs from what the steps expect. `strict`: moves and other attributes
        count, too."""
        found: list[str] = []
        for step in todo:
            try:
                problem = self._conflict(step, strict)
            except OSError as error:
                problem = error.strerror or str(error)
            if problem:
                found.append(f"{readable(step.op.path) or '.'} {problem}")
        return found

    def _conflict(self, step: Step, strict: bool) -> str:
        was = step.leaves
        if step.op.kind == "mode":
            now = self._now(step)
            same = now is not None and was is not None and now.is_same(was) and now.mode == was.mode
            return "" if same else "was changed meanwhile"
        if step.op.above is not None and self._above(step) != step.op.above:
            return _MOVED
        if was is None:  # the step itself finds a name that is taken
            return _REPOSITORY if strict and self._joins_repository(step) else ""
        now = self._now(step)
        if now is None:
            return "was removed meanwhile"
        if not (was.is_untouched(now) if strict else was.is_same(now)):
            return "was changed meanwhile"
        if now.kind == "dir" and not self._same_tree(step):
            return "was changed meanwhile, in what is below it"
        return ""

    def _joins_repository(self, step: Step) -> bool:
        """Return whether a new name would make a repository of a folder with settings, or would be settings in one. The
        list of changes left out what was so when it was made."""
        if step.name not in ("HEAD", "objects") and step.name not in REPOSITORY_NAMES:
            return False
        root, _ = self._parents(step)
        there = {name for name in ("HEAD", "objects", *REPOSITORY_NAMES) if entry_at(name, root) is not None}
        settings = step.name in REPOSITORY_NAMES or not there.isdisjoint(REPOSITORY_NAMES)
        begun = step.name == "HEAD" or "HEAD" in there
        whole = step.name not in REPOSITORY_NAMES or not {step.name, *there}.isdisjoint({"objects", "commondir"})
        return settings and begun and whole

    def looked_at_again(self, ops: Sequence[Op]) -> list[Op]:
        """Return the ops as they are after a step was taken back: moving a file out and in again changes its stamp."""
        found: list[Op] = []
        for step in steps(ops, back=False):
            now = self._now(step) if step.leaves is not None else None
            same = step.leaves is not None and step.leaves.is_same(now) and step.op.kind != "mode"
            found.append(step.op._replace(before=now) if same else step.op)
        return found

    def _above(self, step: Step) -> tuple[int, int] | None:
        try:
            self._parents(step)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._identity

    def _same_tree(self, step: Step) -> bool:
        expected = dict(step.left_tree)
        root, _ = self._parents(step)
        with _opened(step.name, root) as fd:
            for path, entry in _walk(fd, ""):
                known = expected.pop(path, None)
                if known is None or not known.is_same(entry):
                    return False
        return not expected

    def _now(self, step: Step) -> Entry | None:
        if not step.op.path:
            return Entry.of(os.fstat(self._roots[step.op.root]))
        try:
            return entry_at(step.name, self._parents(step)[0])
        except FileNotFoundError:
            return None

    def narrow(self, todo: Iterable[Step]) -> list[Widened]:
        """Return the folders of the roots that must be made writable for the steps."""
        if os.geteuid() == 0:
            return []
        found: dict[tuple[int, str], int] = {}
        for step in todo:
            key = (step.op.root, step.parent)
            if step.op.kind == "mode" or key in found:
                continue
            with contextlib.suppress(OSError):
                found[key] = stat.S_IMODE(os.fstat(self._parents(step)[0]).st_mode)
        return [(root, path, mode) for (root, path), mode in found.items() if mode & 0o300 != 0o300]

    # --- actions

    def widen(self, folders: Sequence[Widened]) -> None:
        """Let the owner of these folders, which is this process, write to them."""
        self._leave()
        for root, path, mode in folders:
            with closing_fd(open_beneath(self._roots[root], path)) as fd:
                chmod_fd(fd, mode | 0o700)

    def restore(self, folders: Sequence[Widened], ops: Sequence[Op], *, back: bool) -> None:
        """Restore the modes of folders: those that were made writable, and those that the ops are about."""
        final = {(root, path): mode for root, path, mode in folders}
        for step in steps([op for op in ops if op.kind == "mode"], back=back):
            if step.comes is not None:
                final[(step.op.root, step.op.path)] = step.comes.mode
        self._leave()
        for (root, path), mode in sorted(final.items(), reverse=True):  # inner folders first
            with closing_fd(open_beneath(self._roots[root], path)) as fd:
                chmod_fd(fd, mode)

    def take(self, step: Step) -> None:
        """Take one step. A step that was taken already is skipped. Raises ApplyConflict if a place has changed."""
        if step.op.kind == "mode":
            return
        root, layer = self._parents(step)
        name = step.name
        for entry, fd in ((step.comes, layer), (step.leaves, root)):
            if entry is not None and entry.mode & 0o200 == 0 and entry.kind == "dir" and os.geteuid():
                with contextlib.suppress(FileNotFoundError):
                    chmod_at(name, fd, entry.mode | 0o700)  # moving a folder rewrites its ".." entry
        if step.leaves is None:
            try:
                self._rename(name, layer, root, step.comes)
            except FileExistsError:
                raise ApplyConflict([f"{readable(step.op.path)} was made meanwhile"]) from None
        elif step.comes is None:
            if self._rename(name, root, layer, step.leaves) and not step.leaves.is_same(entry_at(name, layer)):
                rename_new(name, name, layer, root)
                raise ApplyConflict([f"{readable(step.op.path)} was changed meanwhile"])
        elif not self.is_taken(step):
            rename_exchange(name, name, layer, root)
            if not step.leaves.is_same(entry_at(name, layer)):  # it was replaced a moment ago
                rename_exchange(name, name, layer, root)
                raise ApplyConflict([f"{readable(step.op.path)} was changed meanwhile"])
        if step.comes is not None and step.comes.mode & 0o200 == 0 and step.comes.kind == "dir":
            chmod_at(name, root, step.comes.mode)

    def is_taken(self, step: Step) -> bool:
        """Return whether a step was already taken."""
        try:
            root, layer = self._parents(step)
        except FileNotFoundError:
            return False
        here, there = entry_at(step.name, root), entry_at(step.name, layer)
        came = here is None if step.comes is None else step.comes.is_same(here)
        left = there is None if step.leaves is None else step.leaves.is_same(there)
        return came and left

    def _rename(self, name: str, source: int, target: int, entry: Entry | None) -> bool:
        """Move an entry. Return False if it was moved already."""
        try:
            rename_new(name, name, source, target)
        except (FileNotFoundError, FileExistsError):
            moved = entry is not None and entry.is_same(entry_at(name, target)) and entry_at(name, source) is None
            if not moved:
                raise
            return False
        return True

    # --- finding the places

    def _parents(self, step: Step) -> tuple[int, int]:
        key = (step.op.root, step.parent)
        if key != self._at:
            self._leave()
            above = open_beneath(self._roots[step.op.root], step.parent)
            try:
                self._pair = (above, open_beneath(self._places[step.op.root], step.parent))
            except BaseException:
                os.close(above)
                raise
            self._at = key
            st = os.fstat(above)
            self._identity = (st.st_dev, st.st_ino)
        return self._pair

    def _leave(self) -> None:
        if self._pair[0] >= 0:
            for fd in self._pair:
                os.close(fd)
        self._at, self._pair = (-1, ""), (-1, -1)


def open_beneath(root: int, path: str) -> int:
    """Open a folder below another without following links. Return its descriptor."""
    if not path:
        return os.dup(root)
    if has_openat2():
        try:
            return openat2(root, path, os.O_PATH | os.O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENAMETOOLONG):  # another program renames all the time
                raise
    fd = os.dup(root)
    for part in path.split("/"):
        with closing_fd(fd) as above:
            fd = os.open(part, _FOLDER, dir_fd=above)
    return fd


@contextlib.contextmanager
def _opened(name: str, dir_fd: int) -> Generator[int]:
    """Open a folder for listing. If its mode excludes the owner, the mode is changed for that time."""
    mode = None
    try:
        opened = os.open(name, LISTED, dir_fd=dir_fd)
    except PermissionError:
        mode = os.lstat(name, dir_fd=dir_fd).st_mode & 0o7777
        chmod_at(name, dir_fd, mode | 0o700)
        opened = os.open(name, LISTED, dir_fd=dir_fd)
    with closing_fd(opened) as fd:
        try:
            yield fd
        finally:
            if mode is not None:
                os.fchmod(fd, mode)


def _walk(fd: int, base: str) -> Iterator[tuple[str, Entry]]:
    with os.scandir(fd) as entries:
        found = [(entry.name, Entry.of(entry.stat(follow_symlinks=False))) for entry in entries]
    for name, entry in found:
        path = f"{base}/{name}" if base else name
        yield path, entry
        if entry.kind == "dir":
            with _opened(name, fd) as below:
                yield from _walk(below, path)
