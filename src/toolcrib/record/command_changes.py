"""Changes of whole commands in the journal: who undoes and redoes them."""

from __future__ import annotations

from typing import Protocol

from ..boundary.workspace_paths import WorkspacePath
from .change_table import ChangeTable
from .rows import ChangeRow


class CommandChanges(Protocol):
    """Undoes and redoes what commands changed. The room `effects` has it."""

    def conflict(self, row: ChangeRow) -> str | None:
        """Why a row cannot be reversed now; None if it can. Raises ToolError where its changes were cleaned away."""
        ...

    def reverse(self, table: ChangeTable, workspace: WorkspacePath, row: ChangeRow, undo_id: str) -> str | None:
        """Reverse a row. Returns a line about it; None if its changes were never applied. Raises ToolError."""
        ...

    def restored(self, root: str, path: str, was: str, now: str) -> None:
        """Note that an undo of an edit wrote the file `was` anew: it is now the file `now`."""
        ...
