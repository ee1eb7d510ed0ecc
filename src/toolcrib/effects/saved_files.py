"""Save what a command that runs unasked could delete or rewrite, where commands write directly to the workspace.

Before the command every file that is not saved yet is copied into a private folder, under a name that stands for its
inode, size and times: a later command copies only what has changed since. After the command the copies of files that
are gone, or have other content, become the earlier content of changes in the journal, so that `toolcrib undo` brings
them back, and so do folders that are gone or have another mode. It is bounded in files, bytes and time; the output says
if that left something out. What was saved while the workspace was in these bounds comes first where a command has made
it larger.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from pathlib import Path
from weakref import WeakValueDictionary

from ..boundary.copy_tree import copy_tree
from ..boundary.descriptors import LISTED, chmod_at, closing_fd, patiently, unreadable
from ..boundary.programs import beneath
from ..boundary.remove_tree import remove_all
from ..boundary.sandbox.protected_search import NOT_SEARCHED, is_last, looked, may_hold_names
from ..builtin.command_effects import UNSEARCHED, CommandOutcome
from ..builtin.explain import call_id_of
from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from ..record.change import identity_of, new_change, text
from ..record.journal import Journal, fresh_name
from ..record.state import private_folder

MAX_FILES = 20_000
MAX_FILE_BYTES = 8 * 2**20
MAX_COPIED = 128 * 2**20
"""Bytes that are copied before one command. What was copied earlier and is the same does not count."""
MAX_SECONDS = 2.0
MORE = 25
"""How many times as much is looked at after a command, where all was before: it may have made very many files."""
MAX_KEPT = 2**30
"""Bytes of all copies. Copies of files that have changed since go first."""
STALE_SECONDS = 3600.0
_TOO_LARGE = "the workspace is too large to save it before each command"
PATHS = ".paths"
"""Next to the copies: the files of the workspace before a command made it too large to save all of it."""
CUT = ".unsearched"
"""Next to the copies: a search of the workspace has ended early, so a command may have made what it did not see."""

Key = str


@dataclass
class SavedFiles:
    """The files of a workspace before a command: path → key, and its folders: path → mode. `why` says what is not
    saved. `guarded` are folders that may have protected names, as absolute paths, `closed` those of them that cannot be
    listed or entered."""

    keys: dict[str, Key] = field(default_factory=dict[str, Key])
    folders: dict[str, int] = field(default_factory=dict[str, int])
    why: str = ""
    guarded: list[str] = field(default_factory=list[str])
    closed: set[str] = field(default_factory=set[str])


class FileSaver:
    """Saves the files of one workspace. Several processes may do so at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._root = journal.ws.root
        self._folder = journal.folder.saved
        private = journal.ws.private
        self._ours = private.holds if private.lie_in(str(self._root)) else None
        if (self._folder / CUT).exists():
            looked(str(self._root), (), whole=False)
        self._running: WeakValueDictionary[int, SavedFiles] = WeakValueDictionary()
        """The commands whose outcome is not known yet: while there are several, each needs the copies."""

    def covers(self, path: str) -> bool:
        """Return whether a file would be saved, judged by its place and size, or does not exist."""
        try:
            parts = Path(path).relative_to(self._root).parts
            st = os.lstat(path)
        except FileNotFoundError:
            return True
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(st.st_mode) and st.st_size <= MAX_FILE_BYTES and NOT_SEARCHED.isdisjoint(parts)

    def save(self) -> SavedFiles:
        """Save the files as they are now. Blocks. What cannot be saved is named in the result. Raises OSError if
        no descriptors are left: what is there is not known."""
        saved = SavedFiles()
        self._running[id(saved)] = saved
        try:
            private_folder(self._folder)
            known = set(os.listdir(self._folder))
            with closing_fd(os.open(self._folder, LISTED)) as there:
                _Saving(saved, known, there, self._ours).walk(self._root)
                if saved.why == _TOO_LARGE and PATHS in known:
                    earlier = {os.fsdecode(path) for path in (self._folder / PATHS).read_bytes().split(b"\0")}
                    _Saving(saved, known, there, self._ours, earlier).walk(self._root)
                    saved.why = _TOO_LARGE
            self._looked(saved.guarded, saved.why != _TOO_LARGE)
            self._prune()
        except OSError as error:
            with unreadable:
                raise
            saved.why = error.strerror or str(error)
        return saved

    def _looked(self, found: Sequence[str], whole: bool, before: Sequence[str] | None = None) -> None:
        if not whole:
            with contextlib.suppress(OSError):
                (self._folder / CUT).touch()
        looked(str(self._root), found, before, whole=whole)

    def forget(self, path: str) -> None:
        """Leave out what was moved away from the command that made it: undoing another one would bring it back."""
        for saved in filter(None, [each() for each in self._running.valuerefs()]):
            for known in (saved.keys, saved.folders):
                for each in [each for each in [*known] if beneath(each, path)]:
                    known.pop(each, None)

    def outcome(self, saved: SavedFiles, ctx: ToolContext) -> CommandOutcome:
        """Put what the command deleted or rewrote into the journal. Blocks; call it once."""
        now, keys, ended = SavedFiles(), saved.keys.copy(), False
        times = 1 if saved.why == _TOO_LARGE else MORE

        def walked() -> SavedFiles:
            found = SavedFiles()
            _Saving(found, None, -1, self._ours, closed=saved.closed, times=times).walk(self._root)
            return found

        with contextlib.suppress(OSError):
            now = patiently(walked)
            if (now.why == _TOO_LARGE or len(now.keys) >= MAX_FILES) and not saved.why:
                (self._folder / PATHS).write_bytes(b"\0".join(map(os.fsencode, keys)))
            ended = True
        self._looked(now.guarded, ended and _TOO_LARGE not in (saved.why, now.why), saved.guarded)
        gone = [path for path, key in keys.items() if now.keys.get(path) != key]
        if now.why:  # it made so many files that some were not looked at
            gone = [path for path in gone if path in now.keys or not os.path.lexists(self._root / path)]
        call = call_id_of(ctx, self._journal)
        kept = size = folders = 0
        problem = saved.why
        looked: dict[str, str] = {}
        for path, mode in [*saved.folders.items()]:  # the outer ones first: undo takes the newest change back first
            if now.folders.get(path) != mode:
                try:
                    folders += self._note_folder(path, mode, call, ctx.session_id, bool(self._in_the_way(path, looked)))
                except (OSError, ToolcribError) as error:
                    problem = str(error)
        names = Counter(keys[path] for path in gone)  # a file may have several (hard links)
        for path in gone:
            names[keys[path]] -= 1
            try:
                hidden = self._in_the_way(os.path.dirname(path), looked)
                if self._keep(path, keys[path], call, ctx.session_id, bool(hidden), names[keys[path]] > 0):
                    kept += 1
                    size += _size(keys[path])
            except (OSError, ToolcribError) as error:
                problem = str(error)
        for path in {way for way in looked.values() if way}:  # the newest changes: undo takes them back first
            self._note_in_the_way(path, call, ctx.session_id)
        outcome = CommandOutcome(touches=frozenset(gone).__contains__)
        made = 0 if problem or now.why else len(now.keys.keys() - keys.keys())
        if kept or folders:
            stay = f", and leaves the {_files(made)} that it made" if made else ""
            what = [_files(kept)] if kept else []
            what += [f"{folders:,} folder{'s' * (folders > 1)}"] if folders else []
            outcome.undo = (
                f"(it deleted or changed {' and '.join(what)}; `toolcrib undo {call}` brings back what was there{stay})"
            )
            self._journal.prune_sometimes(size)
        elif made:
            outcome.undo = f"(undo does not cover the {_files(made)} that it made)"
        self._running.pop(id(saved), None)
        if now.why == _TOO_LARGE and saved.why != _TOO_LARGE:
            outcome.notes.append(UNSEARCHED)
        if problem:
            outcome.notes.append(f"[undo does not cover all that this command may have changed: {problem}]")
            outcome.undo = outcome.undo if kept or folders else ""  # the note says it
        return outcome

    def _in_the_way(self, folder: str, looked: dict[str, str]) -> str:
        """Return what is now in the place of a folder or of one above it: a link, a file, a pipe. "" if nothing is."""
        if folder and folder not in looked:
            way = self._in_the_way(os.path.dirname(folder), looked)
            if not way:
                with contextlib.suppress(FileNotFoundError):
                    way = "" if stat.S_ISDIR(os.lstat(self._root / folder).st_mode) else folder
            looked[folder] = way
        return looked.get(folder, "")

    def _note_in_the_way(self, path: str, call: str, session_id: str | None) -> None:
        ws, table = self._journal.ws, self._journal.table
        change = new_change(ws.locate(path), call, "exec", session_id, "a command put it in the place of a folder")
        with contextlib.suppress(OSError, ToolcribError):
            change.set_after(os.lstat(self._root / path))
            table.done(table.insert(change), None)

    def _now(self, path: str, hidden: bool) -> os.stat_result | None:
        try:
            return None if hidden else self._journal.ws.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _note_folder(self, path: str, mode: int, call: str, session_id: str | None, hidden: bool) -> bool:
        """Record that a folder is gone or has another mode. Return whether it does."""
        ws, table = self._journal.ws, self._journal.table
        now = self._now(path, hidden)
        if now is not None and stat.S_IMODE(now.st_mode) == mode:
            return False
        change = new_change(ws.locate(path), call, "exec", session_id, "a command deleted it or changed its mode")
        change.before_kind, change.before_mode = "dir", mode
        change.set_after(now)
        table.done(table.insert(change), None)
        return True

    def _keep(self, path: str, key: Key, call: str, session_id: str | None, hidden: bool, needed: bool) -> bool:
        """Move the copy of a path to the trash, and record the change. Return whether there was a change. `hidden`:
        something is in the place of a folder above it, which may lead elsewhere. `needed`: another name of the file
        has the same copy."""
        copy = self._folder / key
        ws, journal = self._journal.ws, self._journal
        now = self._now(path, hidden)
        try:
            before = copy.lstat()
        except FileNotFoundError:
            raise ToolcribError("a command that ran at the same time covers it") from None
        change = new_change(ws.locate(path), call, "exec", session_id, "a command deleted or rewrote it")
        if now is not None and stat.S_IFMT(now.st_mode) == stat.S_IFMT(before.st_mode) != stat.S_IFLNK:
            same = now.st_size == before.st_size and stat.S_IMODE(now.st_mode) == stat.S_IMODE(before.st_mode)
            if stat.S_ISFIFO(now.st_mode) or (same and self._has_same_content(path, copy)):
                journal.table.same_again(change, _identity(key), text(identity_of(now)))
                return False
        change.set_before(before)
        change.set_after(now)
        journal.table.same_again(change, _identity(key), text(identity_of(before)))
        target = journal.trash_path(os.path.basename(path))
        change.kept = f"trash/{target.parent.name}/{target.name}"
        if needed or len(self._running) > 1:
            with closing_fd(os.open(self._folder, LISTED)) as here, closing_fd(os.open(target.parent, LISTED)) as there:
                copy_tree(here, key, there, target.name)
        else:
            os.rename(copy, target)
        journal.table.done(journal.table.insert(change), None)
        return True

    def _has_same_content(self, path: str, copy: Path) -> bool:
        with open(self._journal.ws.open_read(path, follow=False), "rb") as file:
            return file.read(MAX_FILE_BYTES + 1) == copy.read_bytes()

    def _prune(self) -> None:
        """Delete copies that no command here needs any more: old ones, and more where there are too many bytes."""
        running = filter(None, [each() for each in self._running.valuerefs()])
        current = {PATHS, CUT}.union(*(each.keys.copy().values() for each in running))
        total, stale = 0, list[tuple[float, str, int]]()
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    st = entry.stat(follow_symlinks=False)
                    total += st.st_size
                    if entry.name not in current:
                        stale.append((st.st_ctime, entry.path, st.st_size))
        for since, path, size in sorted(stale):
            if total > MAX_KEPT or time.time() - since > STALE_SECONDS:
                total -= size
                remove_all(Path(path))


class _Saving:
    """One walk through the workspace: it notes every file, and copies those that are not in `known`. `ours` returns
    whether an absolute path is one of our own, which commands cannot change."""

    def __init__(
        self,
        saved: SavedFiles,
        known: set[Key] | None,
        there: int,
        ours: Callable[[str], bool] | None,
        only: AbstractSet[str] = frozenset(),
        closed: AbstractSet[str] = frozenset(),
        times: int = 1,
    ) -> None:
        """`only`: paths; no others are looked at. `closed` were so before the command; others are opened after it.
        `times` as much is looked at."""
        self._closed = closed
        self._only, self._most = only, MAX_FILES * times + (len(saved.keys) if only else 0)
        self._above = {path[:end] for path in only for end in range(len(path)) if path[end] == "/"}
        self._saved, self._known, self._there, self._ours = saved, known, there, ours
        self._root = ""
        self._room = MAX_COPIED
        self._deadline = time.monotonic() + MAX_SECONDS * min(times, 5)

    def walk(self, root: Path) -> None:
        self._root = str(root)
        with closing_fd(self._opened(self._root, None, self._root)) as fd:
            self._folder(fd, "")

    def _opened(self, name: str, above: int | None, path: str) -> int:
        """Open a folder to list and enter it, after a command also one that it has closed. Raises OSError."""
        try:
            fd = os.open(name, LISTED, dir_fd=above)
            try:
                os.stat(".", dir_fd=fd)
            except BaseException:
                os.close(fd)
                raise
        except PermissionError:
            if self._known is not None or path in self._closed:
                raise
            chmod_at(name, above, stat.S_IMODE(os.lstat(name, dir_fd=above).st_mode) | stat.S_IRWXU)
            fd = os.open(name, LISTED, dir_fd=above)
        return fd

    def _folder(self, fd: int, prefix: str) -> None:
        """Walk an open folder. Links are not followed; what git keeps comes last."""
        with os.scandir(fd) as entries:
            found = sorted((entry.name for entry in entries), key=lambda name: (name in (".git", "objects"), name))
        here = f"{self._root}/{prefix}".rstrip("/")
        last = is_last(self._root, here)
        if last or (not prefix.endswith(".git/") and may_hold_names(found)):
            self._saved.guarded.append(here)
        if self._only:
            found = [name for name in found if prefix + name in self._only or prefix + name in self._above]
        for name in found:
            if max(len(self._saved.keys), len(self._saved.folders)) >= self._most or time.monotonic() > self._deadline:
                self._saved.why = _TOO_LARGE
                return
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                st = os.lstat(name, dir_fd=fd)
                if stat.S_ISDIR(st.st_mode):
                    whole = f"{self._root}/{prefix}{name}"
                    ours = self._ours is not None and self._ours(whole)
                    if name not in NOT_SEARCHED and not last and not ours:
                        self._saved.folders[f"{prefix}{name}"] = stat.S_IMODE(st.st_mode)
                        try:
                            below = self._opened(name, fd, whole)
                        except PermissionError:  # what is in it is not known
                            self._saved.guarded.append(whole)
                            self._saved.closed.add(whole)
                            self._saved.why = f"{name[:80]} cannot be listed"
                            continue
                        with closing_fd(below):
                            self._folder(below, f"{prefix}{name}/")
                elif stat.S_IFMT(st.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO):
                    self._file(fd, name, f"{prefix}{name}", st)

    def _file(self, fd: int, name: str, path: str, st: os.stat_result) -> None:
        key = _key(st)
        if self._known is None or key in self._known:
            self._saved.keys[path] = key
        elif (copied := self._copy(fd, name, st)) is not None:
            self._saved.keys[path] = copied

    def _copy(self, fd: int, name: str, st: os.stat_result) -> Key | None:
        """Copy a file. Return the key of the copy, which is new where reading took a change of its mode; None if it is
        not copied."""
        if st.st_size > MAX_FILE_BYTES:
            self._saved.why = f"files of more than {MAX_FILE_BYTES >> 20} MiB are not saved"
            return None
        if st.st_size > self._room:
            self._saved.why = _TOO_LARGE
            return None
        self._room -= st.st_size
        passing = f".{fresh_name()}"
        try:
            copy_tree(fd, name, self._there, passing)
            now = os.lstat(name, dir_fd=fd)
            if identity_of(now) != identity_of(st):
                remove_all(passing, self._there)
                return None
            os.rename(passing, _key(now), src_dir_fd=self._there, dst_dir_fd=self._there)
        except OSError as error:
            remove_all(passing, self._there)
            self._saved.why = f"{name[:80]} cannot be copied ({error.strerror})"
            return None
        return _key(now)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _key(st: os.stat_result) -> Key:
    """Return a name that changes with the content of a file."""
    return "-".join(f"{number:x}" for number in (*identity_of(st), st.st_ctime_ns))


def _size(key: Key) -> int:
    """Return the bytes of a file that is saved under a name."""
    return int(key.split("-")[-2], 16)


def _identity(key: Key) -> str:
    """Return the identity of a file that is saved under a name."""
    return text(int(number, 16) for number in key.split("-")[:-1])
