"""What becomes of what a command made and must not make: files that other programs run or trust, or that rules deny."""

from __future__ import annotations

import functools
import logging
import os
import secrets
import stat
from collections.abc import Callable, Sequence

from ..boundary.descriptors import closing_fd, patiently
from ..boundary.workspace import Workspace
from ..core.errors import ToolError
from .transcript import appeared

log = logging.getLogger(__name__)

MoveToTrash = Callable[..., object]
"""`move_to_trash(workspace_path, call_id, reason, tool=)` moves a file or folder away, so that undo can restore it."""


def move_away(
    paths: Sequence[str],
    workspace: Workspace,
    move_to_trash: MoveToTrash | None,
    call_id: str | None,
    forget: Callable[[str], object] | None,
) -> list[str]:
    """Move files away, and return notes about them for the reader. `forget` is called for each that was moved.

    It is an undo of its own: the undo of the call leaves it away. One of a link has to be forced, because what it leads
    to would count, too.
    """
    links = any(os.path.islink(workspace.root / path) for path in paths)
    undo_id = f"undo-{secrets.token_hex(4)}"
    reason = f"a command made it ({call_id or 'exec'}), and it is protected or denied"
    moved: list[str] = []
    renamed: list[str] = []
    failed: list[str] = []
    for path in paths:
        if move_to_trash is None:
            failed.append(path)
            continue
        try:
            move = functools.partial(move_to_trash, path, undo_id, reason, tool="undo")
            try:
                patiently(move)
            except PermissionError:
                _make_movable(workspace, path)
                move()
            moved.append(path)
            if forget is not None:
                forget(path)
        except Exception:  # the person must learn about the file, even if the journal fails
            if not os.path.lexists(workspace.root / path):
                continue  # another command's end has moved it away
            log.warning("%s was made by a command and could not be moved away", path, exc_info=True)
            new = _renamed(workspace, path)
            (renamed if new else failed).append(f"{path} (now {new})" if new else path)
    return appeared(moved, renamed, failed, f"--force {undo_id}" if links else undo_id)


def _renamed(workspace: Workspace, path: str) -> str:
    """Give what the trash does not take (the disk may be full) a name that nothing runs; return it, or ""."""
    try:
        parent, name, _ = workspace.open_parent(path)
        with closing_fd(parent):
            new = f"moved-away-{secrets.token_hex(4)}"
            os.rename(name, new, src_dir_fd=parent, dst_dir_fd=parent)
    except (OSError, ToolError):
        return ""
    return new


def _make_movable(workspace: Workspace, path: str) -> None:
    """Give this user the rights on a path, and on its folder, that a command has taken."""
    for each in (os.path.dirname(path) or ".", path):
        mode = workspace.lstat(each).st_mode
        if stat.S_ISDIR(mode):
            workspace.chmod(each, mode | stat.S_IRWXU)
