"""Finds the old and the new text of the files that a call changes: before it runs, and afterwards from the journal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from ...record.change import Change, sha_of

if TYPE_CHECKING:
    from ...core.context import ToolContext
    from ...core.verdict import PlannedFile
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
    if change.of_command or change.status == "pending":
        return None
    try:
        old, new = box.journal.contents(change, MAX_TEXT)
    except (OSError, ToolcribError):
        return None
    if new is not None and sha_of(new) != change.after_sha:
        return None  # something else has changed it since
    return _diff(box, os.path.join(change.root, change.path), old, new or b"")


def planned_diffs(box: Toolbox, name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> list[FileDiff]:
    """Return the changes that a call would make: all of them, or none if its preview must do. Reads files."""
    tool = box.registry.find(name)
    if tool is None or tool.plan is None:
        return []
    try:
        planned = tool.plan(arguments, ctx)
    except (OSError, ToolcribError):
        return []
    diffs = [_planned(box, file) for file in planned[: MAX_FILES + 1]]
    shown = [each for each in diffs if each is not None]
    return shown if len(shown) == len(planned) <= MAX_FILES else []


def _planned(box: Toolbox, file: PlannedFile) -> FileDiff | None:
    if max(len(file.before or b""), len(file.after or b"")) > MAX_TEXT:
        return None
    return _diff(box, os.path.join(box.workspace.root, file.path), file.before, file.after or b"")


def _diff(box: Toolbox, path: str, old: bytes | None, new: bytes) -> FileDiff | None:
    """Return a diff without secrets; None for what is not text."""
    redact = box.redactor.redact
    try:
        return FileDiff(path, None if old is None else redact(old.decode()), redact(new.decode()))
    except UnicodeDecodeError:
        return None
