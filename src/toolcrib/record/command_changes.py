"""The interface that undoes and redoes the changes of whole commands in the journal."""

from __future__ import annotations

from typing import Protocol

from ..boundary.workspace_paths import WorkspacePath
from .change_table import ChangeTable
from .rows import ChangeRow


class CommandChanges(Protocol):
    """Undoes and redoes the changes of commands. The package `effects` implements it."""

    def conflict(self, row: ChangeRow) -> str | None:
        """Return why a row cannot be reversed now; None if it can. Raises ToolError if its changes were cleaned up."""
        ...

    def reverse(self, table: ChangeTable, workspace: WorkspacePath, row: ChangeRow, undo_id: str) -> str | None:
        """Reverse a row. Returns a line about it; None if its changes were never applied. Raises ToolError if that
        fails."""
        ...

    def restored(self, root: str, path: str, was: str, now: str) -> None:
        """Note that an undo of an edit replaced the file `was`: it is now the file `now`."""
        ...
