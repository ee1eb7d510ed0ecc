"""List the changes that a layer holds: compare the files that a command wrote with the folder below the layer.

This runs once, after the command and all processes that it started have ended. It also makes the layer ready to be
applied: it removes the kernel's notes, and moves aside the files that are never applied. The folder below is only read,
through descriptors that follow no link.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Sequence

from ..boundary.copy_tree import OVERLAY
from ..boundary.descriptors import LISTED, chmod_at, closing_fd
from ..boundary.sandbox.detours import leads_elsewhere
from ..boundary.sandbox.protected_paths import ProtectedPaths, protected_end
from ..boundary.sandbox.protected_search import is_generated
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from .change_list import Action, ChangeList, Kind, Op, PathChange
from .command_layer import CommandLayer, LayerRoot
from .file_entry import Entry, attributes, entry_at, is_whiteout, same_content

MAX_ENTRIES = 500_000
MAX_DEPTH = 100  # nested folders; each one needs open descriptors while it is read
_SET_ID = stat.S_ISUID | stat.S_ISGID
_TOO_DEEP, _UNREADABLE = "folders nested too deep", "it cannot be read here"

Changes = Sequence[PathChange]


class TooManyChanges(ToolcribError):
    """A layer holds more changes than can be listed."""


def changes_of(layer: CommandLayer) -> ChangeList:
    """Return the change list of a layer whose command has ended. Changes of protected paths are refused.

    Raises OSError if a root is missing, TooManyChanges if the list would be too long.
    """
    protected = {paths.root: paths for paths in layer.protected}
    found = ChangeList([str(root.path) for root in layer.roots])
    for number, root in enumerate(layer.roots):
        _Scan(found, number, root, layer.started, protected[str(root.path)]).run()
    return found


@dataclass
class _Scan:
    found: ChangeList
    number: int
    root: LayerRoot
    started: int
    protected: ProtectedPaths
    aside: int = 0
    links: int = 1  # names of the file that was prepared last
    above: tuple[int, int] = (0, 0)  # the folder of the root whose entries are compared now
    seen: int = 0

    def run(self) -> None:
        st = os.lstat(self.root.upper)
        with (
            _upper(None, str(self.root.upper), st, 0o700) as upper,
            closing_fd(os.open(self.root.path, LISTED)) as lower,
        ):
            self._mode("", st, os.fstat(lower))
            self._merge(upper, lower, "", False, 0)

    # --- folders that exist in both

    def _merge(self, upper: int, lower: int, base: str, opaque: bool, depth: int) -> None:
        names: set[str] = set()
        here = os.fstat(lower)
        self.above = (here.st_dev, here.st_ino)
        with os.scandir(upper) as entries:
            found = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        for name, st in found:
            names.add(name)
            self._entry(upper, lower, name, st, base, opaque, depth)
            self.above = (here.st_dev, here.st_ino)
        if opaque:  # the command removed the folder and created it again: an entry that is not in the new one is gone
            for name in sorted(set(os.listdir(lower)) - names):
                self._deleted(lower, name, _join(base, name), depth)

    def _entry(
        self, upper: int, lower: int, name: str, st: os.stat_result, base: str, opaque: bool, depth: int
    ) -> None:
        path = _join(base, name)
        before = entry_at(name, lower)
        if is_whiteout(st):
            os.unlink(name, dir_fd=upper)  # the old entry moves to its place
            if before is not None:
                self._deleted(lower, name, path, depth)
            return
        if stat.S_ISDIR(st.st_mode) and before is not None and before.kind == "dir":
            self._folder(upper, lower, name, st, path, opaque, depth)
            return
        copied = before is None and self._was_below(upper, lower, name, st)
        reason, children, after = self._prepare(upper, lower, name, st, path, depth)
        if reason:
            action = "created" if before is None else self._action(upper, lower, name, before, after)
            if action is not None:
                self._add(self._wrote(upper, name, path, action, before, after, reason))
            self._set_aside(upper, name)
        elif before is None:
            change = self._wrote(upper, name, path, "created", None, after)
            self._add(change._replace(conflict="it was removed meanwhile") if copied else change)
            self.found.changes += children
            self._op("put", path, None, after, children)
        else:
            self._changed(upper, lower, name, path, before, after, children, depth)

    def _was_below(self, upper: int, lower: int, name: str, st: os.stat_result) -> bool:
        """Return whether an entry existed when the command began, and is gone now.

        The kernel writes a note on each file that it copies up: where the file comes from. The note stays on the file
        when it is moved inside the layer. Folders from below cannot be moved. For a file the answer is only possible if
        the folder below was changed meanwhile.
        """
        if stat.S_ISDIR(st.st_mode):
            return _note(_proc(upper, name), "origin") is not None and _note(_proc(upper, name), "opaque") is None
        if stat.S_ISLNK(st.st_mode) or os.fstat(lower).st_mtime_ns <= self.started:
            return False
        return _note(_proc(upper, name), "origin") is not None

    def _folder(
        self, upper: int, lower: int, name: str, st: os.stat_result, path: str, opaque: bool, depth: int
    ) -> None:
        if depth >= MAX_DEPTH:
            self._add(PathChange(self.number, path, "modified", None, Entry.of(st), refused=_TOO_DEEP))
            return
        # the folder stays in the layer, and its entries are moved in and out
        with _upper(upper, name, st, 0o700) as up:
            opaque = opaque or _note(up, "opaque") == b"y"  # the kernel does not mark the folders in a new folder
            try:
                opened = os.open(name, LISTED, dir_fd=lower)
            except PermissionError:
                self._add(PathChange(self.number, path, "modified", None, Entry.of(st), refused=_UNREADABLE))
                return
            with closing_fd(opened) as low:
                self._mode(path, st, os.fstat(low), attributes(up) != attributes(low))
                self._merge(up, low, path, opaque, depth + 1)

    def _mode(self, path: str, now: os.stat_result, was: os.stat_result, attributes_differ: bool = False) -> None:
        before, after = Entry.of(was), Entry.of(now)
        if before.mode == after.mode and not attributes_differ:
            return
        reason = self._keep(path) if path else ""
        notes = ("extended attributes of folders are not applied",) if attributes_differ else ()
        action: Action = "mode" if before.mode != after.mode else "attributes"
        self._add(PathChange(self.number, path or ".", action, before, after, refused=reason, notes=notes))
        if not reason and before.mode != after.mode:
            self.found.ops.append(Op("mode", self.number, path, before, before._replace(mode=after.mode)))

    # --- names that are new or changed

    def _changed(
        self, upper: int, lower: int, name: str, path: str, before: Entry, after: Entry, children: list[PathChange],
        depth: int,
    ) -> None:  # fmt: skip
        action = self._action(upper, lower, name, before, after)
        if action is None:
            return
        reason, conflict, old = self._removed(lower, name, path, before, depth)
        conflict = self._conflict(before) or conflict
        change = self._wrote(upper, name, path, action, before, after)
        notes = change.notes
        if before.kind == "file" and (links := os.lstat(name, dir_fd=lower).st_nlink) > 1:
            notes += (f"it had {links} names; the others keep what was there",)
        self._add(change._replace(refused=reason, conflict=conflict, notes=notes))
        if reason:
            self._set_aside(upper, name)
            return
        self.found.changes += [*old, *children]
        self._op("swap", path, before, after, children, old)

    def _action(self, upper: int, lower: int, name: str, before: Entry, after: Entry) -> Action | None:
        """Return how an entry differs from before; None if it does not."""
        if before.kind != after.kind:
            return "replaced"
        if before.kind == "link":
            return None if os.readlink(name, dir_fd=upper) == os.readlink(name, dir_fd=lower) else "modified"
        if before.size != after.size or not same_content(name, upper, name, lower):
            return "modified"
        if before.mode != after.mode:
            return "mode"
        if attributes(_proc(upper, name)) != attributes(_proc(lower, name)):
            return "attributes"
        if before.mtime == after.mtime and self.links == 1:
            return None
        return "touched"  # or it got another name

    def _prepare(
        self, upper: int, lower: int | None, name: str, st: os.stat_result, path: str, depth: int
    ) -> tuple[str, list[PathChange], Entry]:
        """Make a new entry, and all below it, ready to be moved in. Return the reason if that is impossible, the
        entries below it, and the entry."""
        self._count()
        entry = Entry.of(st)
        if entry.kind in ("fifo", "socket", "device"):
            return f"{_SPECIAL[entry.kind]} cannot be applied", [], entry
        guarded = protected_end(
            path, entry.kind, lambda other, before: _is_there(other, upper, lower, before), self._is_generated,
            self.protected.allowed,
        )  # fmt: skip
        if guarded:
            return f"{guarded} is protected: other programs run or trust it", [], entry
        forbidden = self.protected.forbids(f"{self.protected.root}/{path}", entry.kind)
        if forbidden:
            return forbidden, [], entry
        if entry.kind == "dir":
            if depth >= MAX_DEPTH:
                return _TOO_DEEP, [], entry
            return "", self._prepare_folder(upper, name, st, path, depth), entry
        if entry.kind == "file":
            if leads_elsewhere(_proc(upper, name)):
                return "git would write or read other files by it", [], entry
            self.links = st.st_nlink
            locked = not entry.mode & 0o200
            if locked:  # writing attributes needs the same permission as writing content
                chmod_at(name, upper, entry.mode | 0o200, kind=0)
            _strip(_proc(upper, name))
            if locked or entry.mode & _SET_ID:
                chmod_at(name, upper, entry.mode & ~_SET_ID, kind=0)
        return "", [], entry

    def _prepare_folder(self, upper: int, name: str, st: os.stat_result, path: str, depth: int) -> list[PathChange]:
        found: list[PathChange] = []
        with _upper(upper, name, st, stat.S_IMODE(st.st_mode)) as up:
            _strip(up)
            for each in sorted(os.listdir(up)):
                below = os.lstat(each, dir_fd=up)
                if is_whiteout(below):
                    os.unlink(each, dir_fd=up)
                    continue
                inside = _join(path, each)
                reason, children, after = self._prepare(up, None, each, below, inside, depth + 1)
                change = self._wrote(up, each, inside, "created", None, after, reason)._replace(below=not reason)
                if reason:
                    self._set_aside(up, each)
                found += [change, *children]
        return found

    # --- names that are gone

    def _deleted(self, lower: int, name: str, path: str, depth: int) -> None:
        before = entry_at(name, lower)
        if before is None:
            return
        reason, conflict, old = self._removed(lower, name, path, before, depth)
        self._add(PathChange(self.number, path, "deleted", before, None, refused=reason, conflict=conflict))
        if not reason:
            self.found.changes += old
            self._op("take", path, before, None, (), old)

    def _removed(
        self, lower: int, name: str, path: str, before: Entry, depth: int
    ) -> tuple[str, str, list[PathChange]]:
        """Return why an entry must not be removed, what conflicts with that, and the changes of everything below it."""
        if before.kind != "dir":
            return self._keep(path), self._conflict(before), []
        old: list[PathChange] = []
        reason = self._keep(path) or self._below(lower, name, path, old, depth)
        return reason, next((each.conflict for each in old if each.conflict), ""), old

    def _below(self, lower: int, name: str, path: str, found: list[PathChange], depth: int) -> str:
        """Add everything below a folder that will be removed to `found`. Return why it must not be removed; "" if it
        may."""
        if depth >= MAX_DEPTH:
            return _TOO_DEEP
        try:
            opened = os.open(name, LISTED, dir_fd=lower)
        except PermissionError:
            return _UNREADABLE
        with closing_fd(opened) as fd:
            for each in sorted(os.listdir(fd)):
                self._count()
                entry = entry_at(each, fd)
                if entry is None:
                    continue
                inside = _join(path, each)
                reason = self._keep(inside)
                if reason:
                    return reason
                conflict = self._conflict(entry) if entry.kind != "dir" else ""
                found.append(PathChange(self.number, inside, "deleted", entry, None, below=True, conflict=conflict))
                if entry.kind == "dir":
                    reason = self._below(fd, each, inside, found, depth + 1)
                    if reason:
                        return reason
        return ""

    # --- helpers

    def _keep(self, path: str) -> str:
        """Return why a path must not be removed or replaced; "" if it may."""
        return "it is protected" if self.protected.keeps(f"{self.protected.root}/{path}") else ""

    def _is_generated(self, folder: str) -> bool:
        return is_generated(os.path.basename(folder), f"{self.root.path}/{folder}", f"{self.root.upper}/{folder}")

    def _wrote(
        self, upper: int, name: str, path: str, action: Action, before: Entry | None, after: Entry, refused: str = ""
    ) -> PathChange:
        """Return the change of an entry that the command wrote."""
        notes = () if refused else _notes(after, self.links)
        target = _target(upper, name, after)
        return PathChange(self.number, path, action, before, after, refused=refused, notes=notes, target=target)

    def _op(
        self, kind: Kind, path: str, before: Entry | None, after: Entry | None, new: Changes, old: Changes = ()
    ) -> None:
        """Add the step that applies a change, with everything below the entry."""
        after = after and _without_set_id(after)
        trees = _tree(path, new), _tree(path, old)
        self.found.ops.append(Op(kind, self.number, path, before, after, *trees, above=self.above))

    def _conflict(self, before: Entry) -> str:
        return "something else changed it in the meantime" if before.ctime > self.started else ""

    def _add(self, change: PathChange) -> None:
        self._count()
        self.found.changes.append(change)

    def _count(self) -> None:
        self.seen += 1
        if self.seen > MAX_ENTRIES:
            raise TooManyChanges(f"the command changed more than {MAX_ENTRIES:,} paths, too many to list and apply")

    def _set_aside(self, dir_fd: int, name: str) -> None:
        """Take an entry out of the changes that are applied. It is stored for people to look at."""
        self.root.refused.mkdir(mode=0o700, exist_ok=True)
        self.aside += 1
        if stat.S_ISDIR(os.lstat(name, dir_fd=dir_fd).st_mode):  # it can only be moved if its owner may write to it
            chmod_at(name, dir_fd, 0o700)
        with closing_fd(os.open(self.root.refused, LISTED)) as there:
            os.rename(name, str(self.aside), src_dir_fd=dir_fd, dst_dir_fd=there)


_SPECIAL = {"fifo": "a FIFO", "socket": "a socket", "device": "a device"}


def _join(base: str, name: str) -> str:
    return f"{base}/{name}" if base else name


def _tree(path: str, changes: Changes) -> tuple[tuple[str, Entry], ...]:
    cut = len(path) + 1
    rows: list[tuple[str, Entry]] = []
    for change in changes:
        entry = change.after or change.before
        if entry is not None and not change.refused:
            rows.append((change.path[cut:], _without_set_id(entry)))
    return tuple(rows)


def _without_set_id(entry: Entry) -> Entry:
    return entry._replace(mode=entry.mode & ~_SET_ID) if entry.kind == "file" else entry


def _notes(after: Entry, links: int) -> tuple[str, ...]:
    if after.kind != "file":
        return ()
    set_id = ("its set-user-ID or set-group-ID bit is not applied",) if after.mode & _SET_ID else ()
    return (*set_id, f"one of {links} names of one file") if links > 1 else set_id


def _target(dir_fd: int, name: str, entry: Entry) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(name, dir_fd=dir_fd) if entry.kind == "link" else None


def _is_there(name: str, upper: int, lower: int | None, before: bool) -> bool:
    """Return whether a name exists before an apply, or after it."""
    if before:
        return lower is not None and entry_at(name, lower) is not None
    try:
        return not is_whiteout(os.lstat(name, dir_fd=upper))
    except FileNotFoundError:
        return lower is not None and entry_at(name, lower) is not None


@contextlib.contextmanager
def _upper(dir_fd: int | None, name: str, st: os.stat_result, then: int) -> Generator[int]:
    """Open a folder of the layer, and make it accessible for the scan. At the end it gets the mode `then`."""
    if st.st_mode & 0o700 != 0o700:
        chmod_at(name, dir_fd, 0o700)
    with closing_fd(os.open(name, LISTED, dir_fd=dir_fd)) as fd:
        try:
            yield fd
        finally:
            os.fchmod(fd, then)


def _proc(dir_fd: int, name: str) -> str:
    return f"/proc/self/fd/{dir_fd}/{name}"


def _note(path: str | int, note: str) -> bytes | None:
    """Return overlayfs's note on a file, if it has this one. `path` may be a descriptor, here and below."""
    try:
        return os.getxattr(path, OVERLAY + note, follow_symlinks=isinstance(path, int))
    except OSError:
        return None


def _strip(path: str | int) -> None:
    """Remove overlayfs's notes from a file or folder."""
    follow = isinstance(path, int)
    with contextlib.suppress(OSError):
        for each in os.listxattr(path, follow_symlinks=follow):
            if each.startswith(OVERLAY):
                os.removexattr(path, each, follow_symlinks=follow)
