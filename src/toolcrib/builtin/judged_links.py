"""Notice that a path leads to another file when it is opened than when its call was judged."""

from __future__ import annotations

from ..boundary.sensitive_names import sensitive_by
from ..boundary.workspace import Workspace
from ..core.errors import ToolError
from ..core.recent import Recent
from ..core.verdict import Judgement


class JudgedLinks:
    """The paths of recent calls about which nobody was asked: they led to ordinary files."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._harmless = Recent[str, None](1024)

    def note(self, path: str, verdict: Judgement | None) -> Judgement | None:
        """Remember the judgement of a path, and return it."""
        try:
            shown = self._workspace.relative(path)
        except ToolError:
            return verdict
        self._harmless.pop(shown, None)
        if verdict is None:
            self._harmless[shown] = None
        return verdict

    def check(self, fd: int, path: str) -> None:
        """Raise ToolError for a link that led to an ordinary file at the judgement, and leads to a secret now."""
        shown = self._workspace.relative(path)
        if shown in self._harmless and not sensitive_by(shown):
            real = self._workspace.name_of(fd)
            if real is not None and real != shown and sensitive_by(real):
                raise ToolError(f"{shown} leads to another file than a moment ago; try again")
