"""Undo a call: reverse its rows, newest first, if nothing has changed since."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Collection, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.own_files import locked
from ..boundary.programs import beneath, within_any
from ..boundary.real_path import real_path
from ..boundary.sandbox.protected_paths import ProtectedPaths, forget_links, links_now
from ..boundary.workspace_paths import LinkRefused
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError, ToolError, UnknownName
from .change import (
    COMMAND_PREFIX,
    Change,
    CommandChanges,
    TouchedPaths,
    identity_of,
    new_change,
    sha_of,
    text,
)
from .journal import Journal
from .moving import move
from .state import remove_entry


class UndoConflict(ToolcribError):
    """Something changed after the call, so an undo would lose it. `conflicts` lists the changes; `force` undoes
    anyway."""

    def __init__(self, conflicts: list[str]) -> None:
        super().__init__("; ".join(conflicts) + " (nothing was undone; force undoes it all the same)")
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo: the call it undid, its own call id (to undo the undo), and a line for each path."""

    call_id: str
    undo_id: str
    lines: list[str]


def undo(journal: Journal, call_id: str | None = None, *, force: bool = False) -> Undone:
    """Undo all changes of a call (default: the last one), newest first, if nothing has changed since.

    Raises UndoConflict if something has changed, before any file is touched, and ToolError if there is nothing to undo.
    With `force`, the current content goes to the trash or the journal and is never lost. An undo is remembered like any
    change: to bring the change back, undo the undo's own id.
    """
    undoing = _Undoing(journal)
    with undoing.alone():
        return undoing.undo(call_id, force)


def foresee(journal: Journal, call_id: str) -> tuple[list[Change], list[str]]:
    """Return the changes of a call that an undo would take back, newest first, and what has changed since. Raises
    ToolError if there is nothing to undo."""
    undoing = _Undoing(journal)
    with undoing.alone():
        return undoing.foresee(call_id)


class _Undoing:
    """One undo over a journal: restored files are written through that journal, as new changes."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.ws = journal.ws
        self.table = journal.table
        self.cut_off = frozenset[int]()  # changes that an earlier undo began to take back

    def undo(self, call_id: str | None, force: bool) -> Undone:
        call = self.table.last_call() if call_id is None else call_id
        if call is None:
            raise ToolError("there is nothing to undo")
        changes, conflicts = self.foresee(call)
        if conflicts and not force:
            raise UndoConflict(conflicts)
        paths = {each for change in changes for each in self._paths(change)}
        folders = _folders(paths)
        guards = [] if force else links_now(map(str, self.ws.writable))
        done = self._reverse_all(call, changes, f"undo-{secrets.token_hex(4)}")
        if live := list(_live(guards, paths - (folders & _folders(paths)))):
            self._reverse_all(call, self.table.of_call(done.undo_id), f"undo-{secrets.token_hex(4)}")
            raise UndoConflict(live)
        forget_links([*map(str, self.ws.writable)])
        return done

    def _reverse_all(self, call: str, changes: list[Change], undo_id: str) -> Undone:
        lines: list[str] = []
        for change in changes:
            try:
                line = self._reverse(change, undo_id)
            except (OSError, ToolError) as error:
                if not lines:
                    raise
                raise ToolError(
                    f"{error} Before that: {'; '.join(lines)}. `toolcrib undo {undo_id}` restores it."
                ) from None
            if line:
                lines.append(line)
        return Undone(call, undo_id, lines)

    def foresee(self, call: str) -> tuple[list[Change], list[str]]:
        """Return the changes of a call that are not undone, and what has changed since. Raises ToolError."""
        changes = self.table.of_call(call)
        if not changes:
            if self.table.knows(call):
                raise ToolError(f"call {call} is undone already")
            raise UnknownName(
                f"no changes of a call {call} are known; `toolcrib undo --list` lists them. "
                "Those of a script have the id of the call that began it"
            )
        self.cut_off = self.table.being_undone()
        newer, conflicts = TouchedPaths(), list[str]()
        for change in changes:
            problem = self._conflict(change, newer)
            if problem:
                conflicts.append(problem)
            newer.add(self._paths(change))
        return changes, list(dict.fromkeys(conflicts))

    @contextlib.contextmanager
    def alone(self) -> Generator[None]:
        """Allow one undo at a time, over all processes: two of the same call would both move the same files."""
        with self.table.lock, locked(self.journal.folder.journal / "journal.db-undo"):
            yield

    def _paths(self, change: Change) -> Iterable[str]:
        return self._commands().paths(change) if change.of_command else [os.path.join(change.root, change.path)]

    def _conflict(self, change: Change, newer: TouchedPaths) -> str | None:
        """Return why a change cannot be undone. Paths of newer changes, which are undone first, are passed over."""
        if change.of_command:
            return self._commands().conflict(change, newer)
        if os.path.join(change.root, change.path) in newer:
            return None
        shown = self._shown(change)
        now = self._now(shown)
        if now is None and self._hidden(shown):
            return f"{os.path.dirname(shown)} is no folder any more: move away what is in its place"
        if change.fits(now, "after", lambda: self._sha_of(shown)):
            return None
        if self._is_back(change, shown, now):
            return None
        if change.before_kind == "absent" and change.after_kind == "dir" and now is None:
            return None  # a directory that the call made is already gone
        if now is None:
            return f"{shown} was removed since"
        return f"{shown} was changed since"

    def _is_back(self, change: Change, shown: str, now: os.stat_result | None) -> bool:
        """Return whether all is as before the change: a process ended before it made it, or while it took it back."""
        begun = change.status == "pending" or change.id in self.cut_off
        return begun and change.fits(now, "before", lambda: self._sha_of(shown))

    def _reverse(self, change: Change, undo_id: str) -> str | None:
        if change.of_command:
            return self._commands().reverse(self.table, self.ws.locate("."), change, undo_id)
        shown = self._shown(change)
        now = self._now(shown)
        by: dict[str, Any] = {"call_id": undo_id, "session_id": change.session_id, "tool": "undo"}
        if self._is_back(change, shown, now):
            self.table.undone(change.id)
            return None
        if change.before_kind == "absent":
            line = self._reverse_creation(change, shown, now, by)
        elif change.before_kind == "dir" and change.kept is None:
            line = self._make_directory(change, shown, now, by)
        elif str(change.kept).startswith("trash/"):
            line = self._reverse_removal(change, shown, now, by)
        else:
            line = self._reverse_change(change, shown, now, by)
        self.table.undone(change.id)
        return line

    def _reverse_creation(
        self, change: Change, shown: str, now: os.stat_result | None, by: dict[str, Any]
    ) -> str | None:
        if now is None:
            return None
        if change.after_kind == "dir" and change.undoes is None:  # a new directory, not a tree that was restored
            return self._remove_directory(change, shown, now, by)
        self.journal.move_to_trash(shown, by["call_id"], f"undo of {change.call_id}", tool="undo", undoes=change.id)
        return f"removed {shown}"

    def _remove_directory(self, change: Change, shown: str, now: os.stat_result, by: dict[str, Any]) -> str:
        new = new_change(self.ws.locate(shown), **by, undoes=change.id)
        new.set_before(now)
        number = self.table.insert(new)
        try:
            self.ws.rmdir(shown)
        except OSError:
            self.table.drop(number)
            return f"kept {shown}/ (not empty)"
        self.table.done(number, change.id)
        return f"removed {shown}/"

    def _make_directory(self, change: Change, shown: str, now: os.stat_result | None, by: dict[str, Any]) -> str | None:
        same = now is not None and change.before_mode in (None, stat.S_IMODE(now.st_mode))
        if now is None:
            self.journal.mkdirs(shown, **by)
        elif not same:
            new = new_change(self.ws.locate(shown), **by, undoes=change.id)
            new.set_before(now)
            new.after_kind, new.after_identity = "dir", text(identity_of(now))
            self.table.done(self.table.insert(new), change.id)
        if change.before_mode is not None:
            self.ws.chmod(shown, change.before_mode)
        self._same_again(change, text(identity_of(self.ws.lstat(shown))))
        self.table.execute("UPDATE change SET status = 'done' WHERE id = ?", change.undoes)
        return f"made {shown}/" if now is None else None if same else f"restored the mode of {shown}/"

    def _reverse_change(self, change: Change, shown: str, now: os.stat_result | None, by: dict[str, Any]) -> str | None:
        with self.journal.images.opened(change) as earlier:
            if now is not None and not stat.S_ISREG(now.st_mode):
                self.journal.move_to_trash(shown, by["call_id"], "in the way of an undo", tool="undo")
            data = earlier.fileno()
            restored = self.journal.write(shown, data, mode=change.before_mode, undoes=change.id, **by)
        self._same_again(change, text(restored))
        return f"restored {shown}"

    def _reverse_removal(
        self, change: Change, shown: str, now: os.stat_result | None, by: dict[str, Any]
    ) -> str | None:
        if now is not None:
            self.journal.move_to_trash(shown, by["call_id"], "in the way of an undo", tool="undo")
        self.journal.mkdirs(os.path.dirname(shown) or ".", **by)
        source = self.journal.images.path(change)
        st = source.lstat()
        parent, name, place = self.ws.open_parent(shown)
        with closing_fd(parent), closing_fd(os.open(source.parent, LISTED)) as there:
            new = new_change(place, **by, undoes=change.id)
            new.set_after(st)
            number = self.table.insert(new)
            try:
                move(there, source.name, parent, name)
            except BaseException:
                self.table.drop(number)
                raise
            restored = text(identity_of(os.lstat(name, dir_fd=parent)))
        self.table.execute("UPDATE change SET after_identity = ? WHERE id = ?", restored, number)
        self.table.done(number, change.id)
        self._same_again(change, restored)
        remove_entry(source.parent)
        return f"restored {shown}{'/' if stat.S_ISDIR(st.st_mode) else ''}"

    def _same_again(self, change: Change, restored: str) -> None:
        """Update earlier changes that ended in the file that was just restored: it is the same file with a new
        inode."""
        self.table.same_again(change, change.before_identity, restored)
        was, commands = change.before_identity, self.journal.commands
        if (self.journal.folder.path / COMMAND_PREFIX).is_dir() and commands is not None and was is not None:
            commands.restored(change.root, change.path, was, restored)

    def _commands(self) -> CommandChanges:
        if self.journal.commands is None:
            raise ToolError("this was changed by a command, and what undoes the changes of commands is not installed")
        return self.journal.commands

    # The current state of a path

    def _shown(self, change: Change) -> str:
        return self.ws.relative(os.path.join(str(change.root), str(change.path)))

    def _now(self, shown: str) -> os.stat_result | None:
        """Return its stat; None if it is gone. What is reached only through a link is another file."""
        try:
            parent, name, _ = self.ws.open_parent(shown)
            with closing_fd(parent):
                return os.lstat(name, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError, LinkRefused):
            return None

    def _hidden(self, shown: str) -> bool:
        """Return whether something that is no folder is in the place of a folder above a path."""
        try:
            os.close(self.ws.open_parent(shown)[0])
        except FileNotFoundError:
            return False
        except (NotADirectoryError, LinkRefused):
            return True
        return False

    def _sha_of(self, shown: str) -> str | None:
        with closing_fd(self.ws.open_read(shown)) as fd:
            return sha_of(fd)


def _live(guards: Iterable[ProtectedPaths], undone: Collection[str]) -> Iterator[str]:
    """Yield what an undo gave a protected name that is not itself what was undone: a link that is back leads to files
    that were written without a question while it was away, or a folder is a repository again."""
    guards = list(guards)
    for guard in guards:
        # A root in this one has a guard of its own, which looks there.
        others = [each.root for each in guards if each is not guard and beneath(each.root, guard.root)]
        folders = (each for each in map(os.path.dirname, undone) if beneath(each, guard.root))
        for path in guard.appeared(each for each in folders if not within_any(each, others)):
            whole = os.path.join(guard.root, path)
            real = real_path(whole)
            if os.path.lexists(real) and not _is_undone(real, undone):
                leads = "" if real == whole else f" (it leads to {os.path.relpath(real, guard.root)})"
                yield f"{path}{leads} would be what other programs run or trust, and may have changed since: look at it"


def _folders(paths: Iterable[str]) -> set[str]:
    """Return those that are folders: what was one before an undo and after it holds what others wrote, too."""
    return {each for each in paths if os.path.isdir(each) and not os.path.islink(each)}


def _is_undone(path: str, undone: Collection[str]) -> bool:
    """Return whether an undo brought back a path, or all that is in it."""
    if any(each in undone for each in (path, *map(str, Path(path).parents))):
        return True
    return bool(_folders([path])) and all(_is_undone(f"{path}/{name}", undone) for name in os.listdir(path))
