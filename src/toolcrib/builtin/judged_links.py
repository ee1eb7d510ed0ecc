"""Notice that a path leads to another file when it is opened than when its call was judged."""

from __future__ import annotations

import contextlib
import os

from ..boundary.sensitive_names import sensitive_by
from ..boundary.workspace import Workspace
from ..core.errors import ToolError
from ..core.recent import Recent
from ..core.verdict import Judgement
from .listing import Hider


class JudgedLinks:
    """The paths of recent calls about which nobody was asked: they led to ordinary files. `hider` says which files
    rules hide from a tool."""

    def __init__(self, workspace: Workspace, hider: Hider | None = None) -> None:
        self._workspace, self._hider = workspace, hider
        self._harmless = Recent[str, None](1024)
        self._led_to = Recent[str, str | None](1024)

    def note(self, path: str, verdict: Judgement | None) -> Judgement | None:
        """Remember the judgement of a path, and return it."""
        try:
            shown = self._workspace.relative(path)
        except ToolError:
            return verdict
        self._harmless.pop(shown, None)
        if verdict is None:
            self._harmless[shown] = None
        if self._hider is not None and self._hider("read_file", "/") is not None:
            with contextlib.suppress(OSError, ToolError):
                self._led_to[shown] = self._workspace.real(path)
        return verdict

    def check(self, fd: int, path: str, tool: str) -> None:
        """Raise ToolError if a link on the way to an open file or folder leads to what rules deny, or to another place
        than at the judgement and there to a secret or to what a rule asks about."""
        shown, real = self._workspace.relative(path), self._workspace.name_of(fd)
        if real is None or real == shown:
            return
        secret = shown in self._harmless and not sensitive_by(shown) and sensitive_by(real)
        if secret or (self._ruled(real, tool, real != self._led_to.get(shown))):
            raise ToolError(f"{shown} leads to another file than it did, or to one that a rule denies; try again")

    def _ruled(self, real: str, tool: str, asks: bool) -> bool:
        hides = None if self._hider is None else self._hider(tool, "/", asks)
        whole = os.path.normpath(os.path.join(self._workspace.root, real))
        return hides is not None and (hides(whole) or hides(f"{whole}/…"))
