"""Remember every change of the file tools before it is made, so that it can be undone.

Each change is one row (`change`, in the database of `change`). The row is written before the change, marked
`pending`, and is marked `done` after it. A crash in between leaves a pending row, and the path itself shows whether the
change happened. Replaced contents are files next to the list (`BeforeImages`); `undoing` takes changes back, `pruning`
deletes them.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.own_files import private
from ..boundary.staged_file import Content, Staged
from ..boundary.workspace import Workspace
from ..boundary.workspace_paths import ChangedMeanwhile, Identity, identity
from ..core.errors import ToolError
from .change import HASH_LIMIT, Change, ChangeTable, CommandChanges, identity_of, new_change, sha_of, text
from .state import JOURNAL_AGE, JOURNAL_QUOTA, StateFolder, remove_entry

_MAX_DIRECTORIES = 100  # made for one file; more are a mistake or an attack
log = logging.getLogger(__name__)
LINK_LIMIT = 64 * 2**20  # for larger files, a hard link to the same inode is made if possible
_PRUNE_EVERY = 256  # changes between two checks of the quota; a MiB that is kept counts as one, too


class Journal:
    """Makes changes in a workspace and remembers how to take them back.

    `commands` returns the object that undoes the changes of commands; it is called when the first of them is found.
    """

    def __init__(
        self,
        folder: StateFolder,
        ws: Workspace,
        *,
        sync: bool = True,
        commands: Callable[[], CommandChanges] | None = None,
    ) -> None:
        self.folder = folder
        self.ws = ws
        self.table = ChangeTable(folder)
        self.images = BeforeImages(folder)
        self._sync, self._commands = sync, commands
        self._since_prune = secrets.randbelow(_PRUNE_EVERY)  # processes that make few changes check it, too

    # Changing

    def write(
        self,
        path: str,
        data: Content,
        *,
        call_id: str,
        tool: str = "write_file",
        session_id: str | None = None,
        mode: int | None = None,
        expect: Identity | None = None,
        must_be_new: bool = False,
        reason: str | None = None,
        undoes: int | None = None,
    ) -> Identity:
        """Create or replace a file in one step. Makes missing directories above it. `expect`: the identity seen before.

        Raises ToolError if the change cannot be recorded, and FileExistsError if `must_be_new` and the file exists.
        """
        self.mkdirs(os.path.dirname(self.ws.relative(path)) or ".", call_id=call_id, tool=tool, session_id=session_id)
        staged = self.ws.stage(path, data, mode, sync=self._sync, expect=expect, override=undoes is not None)
        kept: str | None = None
        try:
            if must_be_new and staged.before is not None:
                raise FileExistsError(17, "it exists already", staged.place.shown)
            change = new_change(staged.place, call_id, tool, session_id, reason, undoes)
            if staged.before is not None:
                kept, sha = self.images.keep(staged)
                change.set_before(staged.before, sha)
                change.kept = kept
            change.after_kind, change.after_identity = "file", text(staged.identity)
            change.after_sha = sha_of(data)
            number = self.table.insert(change)
        except BaseException:
            staged.abort()
            self.images.forget(kept)
            raise
        try:
            staged.commit()
        except BaseException:
            self.table.drop(number)
            self.images.forget(kept)
            raise
        self.table.done(number, undoes)
        if tool != "undo":  # it needs the contents that are left
            self.prune_sometimes(staged.before.st_size if staged.before is not None else 0)
        return staged.identity

    def mkdirs(self, path: str, *, call_id: str, tool: str = "write_file", session_id: str | None = None) -> None:
        """Make a directory and those above it, each remembered.

        Raises ToolError if more than 100 directories would be made, or if a change cannot be recorded.
        """
        place = self.ws.locate(path)
        if not place.parts:
            return
        todo = self.ws.missing_parents(path)
        if todo or not self.ws.exists(path):
            todo.append(place.shown)
        if len(todo) > _MAX_DIRECTORIES:
            raise ToolError(f"{path[:80]}… needs {len(todo):,} new directories; at most {_MAX_DIRECTORIES} are made")
        for each in todo:
            change = new_change(self.ws.locate(each), call_id, tool, session_id)
            change.after_kind = "dir"
            number = self.table.insert(change)
            try:
                self.ws.mkdir(each)
            except FileExistsError:
                self.table.drop(number)
                self.ws.mkdir(each, exist_ok=True)  # another process made it; raises if it is not a directory
                continue
            except BaseException:
                self.table.drop(number)
                raise
            st = self.ws.lstat(each)
            self.table.execute("UPDATE change SET after_identity = ? WHERE id = ?", text(identity_of(st)), number)
            self.table.done(number, None)

    def move_to_trash(
        self,
        path: str,
        call_id: str,
        reason: str | None = None,
        *,
        tool: str = "exec",
        session_id: str | None = None,
        undoes: int | None = None,
    ) -> Path:
        """Move a file, link or whole directory to the trash. Returns its new path. Undo moves it back."""
        from .moving import move

        parent, name, place = self.ws.open_parent(path)
        with closing_fd(parent):
            st = os.lstat(name, dir_fd=parent)
            target = self.trash_path(name)
            change = new_change(place, call_id, tool, session_id, reason, undoes)
            change.set_before(st)
            change.kept = f"trash/{target.parent.name}/{target.name}"
            number = self.table.insert(change)
            try:
                with closing_fd(os.open(target.parent, LISTED)) as there:
                    move(parent, name, there, target.name)
            except BaseException:
                self.table.drop(number)
                remove_entry(target.parent)
                raise
        self.table.done(number, undoes)
        if tool != "undo":
            self.prune_sometimes(st.st_size)
        return target

    def trash_path(self, name: str) -> Path:
        """Return a new place in the trash for something with this name, and make its folder."""
        folder = self.folder.trash / fresh_name()
        folder.mkdir(mode=0o700)
        return folder / name[:200]

    # Commands

    @functools.cached_property
    def commands(self) -> CommandChanges | None:
        """The object that undoes and redoes the changes of commands, if there is one."""
        return None if self._commands is None else self._commands()

    # Looking back

    def changes(self, call_id: str | None = None, limit: int = 100) -> list[Change]:
        """Return remembered changes, newest first."""
        return self.table.listed(call_id, limit)

    def knows(self, call_id: str) -> bool:
        """Return whether any change is remembered under this id, undone or not."""
        try:
            return self.table.knows(call_id)
        except sqlite3.Error:  # the change itself is refused with a text about it
            return False

    def contents(self, change: Change, most: int) -> tuple[bytes | None, bytes | None]:
        """Return the content of a file before a change, and as it is now; None where there was no file. Raises
        ToolError or OSError if one is gone, is not a file, is behind a link, or has more than `most` bytes."""
        if {change.before_kind, change.after_kind} - {"file", "absent"}:
            raise ToolError(f"{change.path} is not a file")

        def read(fd: int | Path) -> bytes:
            with open(fd, "rb") as file:
                data = file.read(most + 1)
            if len(data) > most:
                raise ToolError(f"{change.path} is too long to be shown")
            return data

        before = read(self.images.path(change)) if change.before_kind == "file" else None
        path = os.path.join(change.root, change.path)
        return before, read(self.ws.open_read(path, follow=False)) if change.after_kind == "file" else None

    def close(self) -> None:
        """Close the database. It opens again when needed."""
        self.table.close()

    def prune_sometimes(self, kept: int = 0) -> None:
        """Count a change that keeps so many bytes; after many, delete entries that are too old or over the quota."""
        self._since_prune += 1 + (kept >> 20)
        if self._since_prune >= _PRUNE_EVERY:
            from .pruning import prune_journal

            self._since_prune = 0
            try:
                prune_journal(self.folder, JOURNAL_QUOTA, JOURNAL_AGE)
            except sqlite3.OperationalError as error:  # the change is made
                log.info("%s is cleaned another time: %s", self.folder.journal, error)


class BeforeImages:
    """The earlier contents that the journal of one state folder stores."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def keep(self, staged: Staged) -> tuple[str, str | None]:
        """Store the content that is about to be replaced. Returns its name below the state folder, and the hash if it
        is small.

        Raises ChangedMeanwhile if another process changed the file.
        """
        before, place = staged.before, staged.place
        assert before is not None
        name = fresh_name()
        target = self._folder.journal / name
        parent, own = staged.dir_fd, staged.name
        try:
            source = os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            with open(source, "rb", buffering=0) as file:
                if identity(os.fstat(source)) != identity(before):
                    raise ChangedMeanwhile(f"{place.shown} has changed since you read it; read it again")
                if before.st_size > LINK_LIMIT and _keep_by_link(parent, own, target, before):
                    return f"journal/{name}", None
                sha: str | None = None
                with open(target, "xb", opener=private) as out:
                    if before.st_size <= HASH_LIMIT:
                        content = file.readall()
                        sha = sha_of(content)
                        out.write(content)
                    else:
                        from ..boundary.copy_tree import copy_content

                        copy_content(source, out.fileno())
                if target.stat().st_size != before.st_size:
                    raise ChangedMeanwhile(f"{place.shown} is being changed by another process")
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return f"journal/{name}", sha

    def path(self, change: Change) -> Path:
        """Return the path of the earlier content. Raises ToolError if it was cleaned up."""
        kept = change.kept or ""
        path = self._folder.path / kept
        inside = kept.startswith(("journal/", "trash/")) and os.path.normpath(kept) == kept
        if not inside or not os.path.lexists(path):
            raise ToolError(f"the earlier content of {change.path} is no longer stored; it was cleaned up")
        return path

    def opened(self, change: Change) -> FileIO:
        """Open the earlier content of a file. Raises ToolError if it is not what was stored."""
        path = self.path(change)
        file = FileIO(path)
        size = (change.before_identity or "").rpartition(":")[2]
        if size != str(os.fstat(file.fileno()).st_size) or change.before_sha not in (None, sha_of(file.fileno())):
            file.close()
            raise ToolError(f"the earlier content of {change.path} is damaged, so it was not restored; look at {path}")
        return file

    def forget(self, kept: str | None) -> None:
        """Remove a stored content, because its change was not made."""
        if kept is not None:
            (self._folder.path / kept).unlink(missing_ok=True)


def fresh_name() -> str:
    """Return a new unique name; later names sort later."""
    return f"{time.time_ns():x}-{secrets.token_hex(4)}"


def _keep_by_link(parent: int, name: str, target: Path, before: os.stat_result) -> bool:
    try:
        os.link(name, target, src_dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    if identity(target.lstat()) == identity(before):
        return True
    target.unlink()
    return False
