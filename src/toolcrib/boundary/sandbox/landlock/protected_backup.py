"""Copy protected files, for a sandbox that cannot prevent changes to them: changed files are restored.

The copies are made before a command and compared after it. A changed file is moved aside to the trash, where people can
look at it, and the old file is written again. Everything goes through directory descriptors that follow no link,
because another command may still run in the same folder.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ....core.errors import SandboxUnavailable
from ..protected_paths import TICK_NS, ProtectedPaths

_MAX_BYTES = 64 << 20
_MAX_FILES = 5_000
_THERE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _THERE | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_Stamp = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class FileCopy:
    """The earlier state of one file, folder or link. `content` is a file's bytes or a link's target; None for a
    folder."""

    mode: int
    content: bytes | None
    stamp: _Stamp
    taken: int  # ns

    @property
    def kind(self) -> int:
        """Return its type, as in `stat.S_IFMT`."""
        return stat.S_IFMT(self.mode)

    def is_still(self, status: os.stat_result) -> bool:
        """Return whether the stat alone shows that the file has not changed: the kernel stamps every change."""
        return _stamp(status) == self.stamp and status.st_ctime_ns < self.taken - TICK_NS


class BackupStore:
    """A store of copies of the protected files of one workspace. It reads only files again that have changed since."""

    def __init__(self) -> None:
        self._copies: dict[str, FileCopy] = {}

    def take(self, guards: Iterable[ProtectedPaths]) -> ProtectedBackup:
        """Return copies of all files that the guards have found. Raises SandboxUnavailable if they are too many or
        too large."""
        kept = ProtectedBackup([])
        size = 0
        fresh: dict[str, FileCopy] = {}
        for guard in guards:
            tree = RootBackup(guard.root, {})
            kept.trees.append(tree)
            for path in _outermost(_spelled(guard)):
                for name, status in _walk(path):
                    copy = self._copies.get(name)
                    if copy is None or not copy.is_still(status):
                        copy = _copy(name, status)
                    if copy is None:
                        continue
                    fresh[name] = tree.copies[name] = copy
                    size += len(copy.content or b"")
                    if size > _MAX_BYTES or len(fresh) > _MAX_FILES:
                        raise SandboxUnavailable(_too_much(path))
        self._copies = fresh
        return kept


@dataclass(slots=True)
class RootBackup:
    """The copies of one root, by path."""

    root: str
    copies: dict[str, FileCopy]


@dataclass(slots=True)
class ProtectedBackup:
    """The state of protected files before a command."""

    trees: list[RootBackup]
    done: Restoration = field(default_factory=lambda: Restoration())
    lock: threading.Lock = field(default_factory=threading.Lock)

    def restore(self, *, running: bool = False) -> Restoration:
        """Restore everything that differs, and return all that was done so far. `running`: the command still runs,
        so files that it created in protected folders are moved aside at once."""
        with self.lock:
            before = len(self.done.aside)
            for tree in self.trees:
                for path in sorted(tree.copies, key=lambda p: (p.count("/"), p)):
                    self._restore(tree, path)
                for path in _new(tree):
                    if path not in self.done.aside:
                        self.done.aside.append(_aside(tree.root, path) if running else path)
            self.done.times += running and len(self.done.aside) > before
            return self.done

    def _restore(self, tree: RootBackup, path: str) -> None:
        done, copy = self.done, tree.copies[path]
        try:
            if not _is_still(path, copy) and _restore(tree.root, path, copy, done.aside):
                done.back += [path] if path not in done.back else []
            done.failed = [other for other in done.failed if other != path]
        except OSError:
            done.failed += [path] if path not in done.failed else []

    def places(self) -> list[tuple[str, list[str]]]:
        """Return where to watch for changes: folders, and the names in each that matter (an empty list means all)."""
        found: dict[str, list[str]] = {}
        for tree in self.trees:
            for path in tree.copies:
                found.setdefault(os.path.dirname(path), []).append(os.path.basename(path))
                for above in _above(tree.root, path):
                    found.setdefault(os.path.dirname(above), []).append(os.path.basename(above))
            for path, copy in tree.copies.items():
                if copy.kind == stat.S_IFDIR:
                    found[path] = []
        return [(folder, sorted(set(names))) for folder, names in found.items()]


@dataclass(slots=True)
class Restoration:
    """The result of a restore: paths to move away (the command changed or created them), paths that were restored,
    and paths that could not be."""

    aside: list[str] = field(default_factory=list[str])
    back: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    times: int = 0  # how many restores were necessary while the command ran


def _is_still(path: str, copy: FileCopy) -> bool:
    try:
        return copy.is_still(os.lstat(path))
    except OSError:
        return False


def _spelled(guard: ProtectedPaths) -> Iterator[str]:
    """Yield every protected path by its real folder, and the links above such paths."""
    for path in (*guard.named, *guard.links, *guard.read_only):
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if real.startswith(guard.root + "/"):
            yield real


def _outermost(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(set(paths), key=lambda p: (p.count("/"), p)):
        if not any(path.startswith(other + "/") for other in found):
            found.append(path)
    return found


def _walk(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a path and everything below it, without following links."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    yield path, status
    if stat.S_ISDIR(status.st_mode):
        try:
            with os.scandir(path) as entries:
                names = [entry.path for entry in entries]
        except OSError:
            return
        for name in names:
            yield from _walk(name)


def _stamp(status: os.stat_result) -> _Stamp:
    return (
        status.st_ino, status.st_dev, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def _copy(path: str, status: os.stat_result) -> FileCopy | None:
    """Return a copy; None for anything but a file, folder or link. Raises SandboxUnavailable for a file that cannot
    be read."""
    content: bytes | None = None
    try:
        if stat.S_ISREG(status.st_mode):
            if status.st_size > _MAX_BYTES:
                raise SandboxUnavailable(_too_much(path))
            fd = os.open(path, _FILE)
            with open(fd, "rb") as file:
                content = file.read(_MAX_BYTES + 1)
        elif stat.S_ISLNK(status.st_mode):
            content = os.fsencode(os.readlink(path))
        elif not stat.S_ISDIR(status.st_mode):
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SandboxUnavailable(
            f"{path} is protected, but cannot be copied before the command ({error.strerror}), and this sandbox cannot "
            "keep commands from changing it."
        ) from None
    return FileCopy(status.st_mode, content, _stamp(status), time.time_ns())


def _restore(root: str, path: str, copy: FileCopy, aside: list[str]) -> bool:
    """Restore one path to its earlier state. Return whether that was necessary."""
    folder = _open_folder(root, os.path.dirname(path), aside)
    name = os.path.basename(path)
    try:
        there = _read(folder, name)
        if there is not None and there[0] == copy.kind and there[2] == copy.content:
            return _restore_mode(folder, name, copy, there[1])
        if there is not None:
            aside.append(_put_aside(folder, name, os.path.dirname(path)))
        _write(folder, name, copy)
        return True
    finally:
        os.close(folder)


def _open_folder(root: str, folder: str, aside: list[str]) -> int:
    """Open a folder below the root, and create it if it is missing. Anything else in its place is moved aside."""
    fd = os.open(root, _FOLDER)
    done = root
    for part in os.path.relpath(folder, root).split("/"):
        if part == ".":
            continue
        try:
            below = _open_below(fd, part, done, aside)
        finally:
            os.close(fd)
        fd, done = below, f"{done}/{part}"
    return fd


def _open_below(fd: int, part: str, shown: str, aside: list[str]) -> int:
    for _ in range(3):
        try:
            return os.open(part, _FOLDER, dir_fd=fd)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=fd)
        except NotADirectoryError:
            aside.append(_put_aside(fd, part, shown))
        except PermissionError:  # the command removed the permissions
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
    raise NotADirectoryError(part)


def _read(folder: int, name: str) -> tuple[int, int, bytes | None] | None:
    """Return type, mode and content of the current entry."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        content: bytes | None = None
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES:
            with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
                content = file.read(_MAX_BYTES + 1)
        elif stat.S_ISLNK(status.st_mode):
            content = os.fsencode(os.readlink(name, dir_fd=folder))
    except FileNotFoundError:
        return None
    except OSError:  # it is unreadable or of another type by now, so it has changed
        return 0, 0, None
    return stat.S_IFMT(status.st_mode), status.st_mode, content


def _restore_mode(folder: int, name: str, copy: FileCopy, mode: int) -> bool:
    if mode == copy.mode or copy.kind == stat.S_IFLNK:
        return False
    fd = os.open(name, _THERE, dir_fd=folder)
    try:
        if stat.S_IFMT(os.fstat(fd).st_mode) == copy.kind:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(copy.mode))
    finally:
        os.close(fd)
    return True


def _aside(root: str, path: str) -> str:
    """Move a new file aside by its path. Return its new path."""
    try:
        folder = _open_folder(root, os.path.dirname(path), [])
    except OSError:
        return path
    try:
        return _put_aside(folder, os.path.basename(path), os.path.dirname(path))
    except OSError:
        return path
    finally:
        os.close(folder)


def _above(root: str, path: str) -> Iterator[str]:
    """Yield the folders between a root and a path."""
    folder = os.path.dirname(path)
    while folder.startswith(root + "/"):
        yield folder
        folder = os.path.dirname(folder)


def _put_aside(folder: int, name: str, shown: str) -> str:
    """Rename it to a name that no program runs or reads. Return the new path."""
    other = f"{name}.changed-by-command-{secrets.token_hex(3)}"
    os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
    return f"{shown}/{other}"


def _write(folder: int, name: str, copy: FileCopy) -> None:
    if copy.kind == stat.S_IFLNK:
        os.symlink(copy.content or b"", name, dir_fd=folder)
        return
    if copy.kind == stat.S_IFDIR:
        os.mkdir(name, stat.S_IMODE(copy.mode), dir_fd=folder)
        return
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with open(fd, "wb") as file:
        file.write(copy.content or b"")
        os.fchmod(fd, stat.S_IMODE(copy.mode))


def _new(tree: RootBackup) -> list[str]:
    """Return the new entries in a protected folder; of nested ones only the outermost."""
    found: list[str] = []
    for path, copy in list(tree.copies.items()):
        if copy.kind != stat.S_IFDIR:
            continue
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            found += [entry.path for entry in entries if entry.path not in tree.copies]
    return found


def _too_much(path: str) -> str:
    return (
        f"{path} is protected, and too large to keep a copy of (more than {_MAX_BYTES >> 20} MiB or {_MAX_FILES:,} "
        "files in all), without which this sandbox cannot undo what a command changes there. Use backend bubblewrap, "
        "move it out of the workspace, or grant it: sandbox.allow_protected."
    )
