"""Finds the old and the new text of the files that a call changes: before it runs, and afterwards from the journal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import ToolcribError
from ...record.change import Change, sha_of

if TYPE_CHECKING:
    from ...toolbox import Toolbox

MAX_FILES = 20
"""Files of one call that are shown."""
MAX_TEXT = 256 * 1024
"""Bytes of a file that is shown: the journal keeps the hash of a file up to this size."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A changed file: its absolute path, the text before (None for a new file) and after."""

    path: str
    old: str | None
    new: str


def made_diffs(box: Toolbox, call_id: str) -> list[FileDiff]:
    """Return the changes that a call made, as far as both texts are still there."""
    if not box.journal.knows(call_id):
        return []
    changes = box.journal.changes(call_id, MAX_FILES)
    found = (_made(box, change) for change in reversed(changes) if change.undoes is None)
    return [each for each in found if each is not None]


def _made(box: Toolbox, change: Change) -> FileDiff | None:
    if change.of_command or {change.before_kind, change.after_kind} - {"file", "absent"} or change.status == "pending":
        return None
    path = os.path.join(change.root, change.path)
    old, new = None, b""
    try:
        if change.before_kind == "file":
            kept = box.journal.images.path(change)
            if kept.stat().st_size > MAX_TEXT:
                return None
            old = kept.read_bytes()
        if change.after_kind == "file":
            new = _current(box, path)
            if new is None or sha_of(new) != change.after_sha:
                return None  # something else has changed it since
    except (OSError, ToolcribError):
        return None
    return _diff(box, path, old, new)


def planned_diffs(box: Toolbox, tool: str, arguments: Mapping[str, Any]) -> list[FileDiff]:
    """Return the changes that a call of a file tool would make, where they are plain; else its preview must do."""
    path, content = arguments.get("path"), arguments.get("content")
    if not isinstance(path, str) or tool not in ("write_file", "edit_file"):
        return []
    place = os.path.normpath(os.path.join(box.workspace.root, path))
    try:
        before = _current(box, path)
    except FileNotFoundError:
        before = None
    except (OSError, ToolcribError):
        return []
    if tool == "edit_file":
        content = _edited(before, arguments)
    if not isinstance(content, str) or (before is None and os.path.lexists(place)):
        return []
    found = _diff(box, place, before, content.encode(errors="replace"))
    return [] if found is None else [found]


def _edited(before: bytes | None, arguments: Mapping[str, Any]) -> str | None:
    """Return the text after an edit whose passage is in the file exactly once."""
    old, new = arguments.get("old_text"), arguments.get("new_text")
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    if before is None:
        return new if not old else None
    try:
        text = before.decode()
    except UnicodeDecodeError:
        return None
    return text.replace(old, new) if old and text.count(old) == 1 else None


def _current(box: Toolbox, path: str | Path) -> bytes | None:
    """Return the content of a file; None if it is too large. Raises OSError or ToolError."""
    with open(box.workspace.open_read(path, follow=False), "rb") as file:
        data = file.read(MAX_TEXT + 1)
    return data if len(data) <= MAX_TEXT else None


def _diff(box: Toolbox, path: str, old: bytes | None, new: bytes) -> FileDiff | None:
    """Return a diff without secrets; None for what is not text."""
    redact = box.redactor.redact
    try:
        return FileDiff(path, None if old is None else redact(old.decode()), redact(new.decode()))
    except UnicodeDecodeError:
        return None
