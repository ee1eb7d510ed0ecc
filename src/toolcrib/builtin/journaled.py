"""The base of all tools that change files: a workspace, its journal, and a record of the files that were read."""

from __future__ import annotations

from ..boundary.workspace import Workspace
from ..record.journal import Journal
from .masked import LostBy
from .seen import Seen


class JournaledTools:
    """Tools that change files and journal each change. `lost_by` finds secrets that a new text would destroy."""

    def __init__(
        self, workspace: Workspace, journal: Journal, seen: Seen | None = None, *, lost_by: LostBy | None = None
    ) -> None:
        self.ws = workspace
        self.journal = journal
        self.seen = seen or Seen()
        self._lost_by = lost_by
