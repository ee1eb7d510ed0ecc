"""Store the content of a file before it is replaced: a copy or a hard link in the journal folder."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from ..boundary.staged_file import Staged
from ..boundary.workspace import Workspace
from ..boundary.workspace_paths import ChangedMeanwhile, WorkspacePath, identity
from ..core.errors import ToolError
from .change import HASH_LIMIT, Change, sha_of
from .moving import copy_content
from .state import StateFolder

LINK_LIMIT = 64 * 2**20  # for larger files, a hard link to the same inode is made if possible


class BeforeImages:
    """The earlier contents that the journal of one state folder stores."""

    def __init__(self, folder: StateFolder, ws: Workspace) -> None:
        self._folder = folder
        self._ws = ws

    def keep(self, staged: Staged, place: WorkspacePath) -> tuple[str, str | None]:
        """Store the content that is about to be replaced. Returns its name below the state folder, and the hash if it
        is small.

        Raises ChangedMeanwhile if another process changed the file.
        """
        before = staged.before
        assert before is not None
        name = fresh_name()
        target = self._folder.journal / name
        parent, own, _ = self._ws.open_parent(place.path)
        try:
            source = os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            with open(source, "rb", buffering=0) as file:
                if identity(os.fstat(source)) != identity(before):
                    raise ChangedMeanwhile(f"{place.shown} has changed since you read it; read it again")
                if before.st_size > LINK_LIMIT and _keep_by_link(parent, own, target, before):
                    return f"journal/{name}", None
                sha: str | None = None
                with open(target, "xb", opener=_private) as out:
                    if before.st_size <= HASH_LIMIT:
                        content = file.readall()
                        sha = sha_of(content)
                        out.write(content)
                    else:
                        copy_content(source, out.fileno())
                if target.stat().st_size != before.st_size:
                    raise ChangedMeanwhile(f"{place.shown} is being changed by another process")
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(parent)
        return f"journal/{name}", sha

    def path(self, change: Change) -> Path:
        """Return the path of the earlier content. Raises ToolError if it was cleaned up."""
        path = self._folder.path / str(change.kept)
        if change.kept is None or not os.path.lexists(path):
            raise ToolError(f"the earlier content of {change.path} is no longer stored; it was cleaned up")
        return path

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


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
