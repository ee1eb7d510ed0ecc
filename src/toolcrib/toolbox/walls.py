"""The walls around a toolbox's commands: chosen at the first use, and asked what passes them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.errors import ToolcribError

if TYPE_CHECKING:
    from pathlib import Path

    from ..boundary.sandbox import Sandbox, SandboxSettings
    from ..config import Settings
    from ..core.context import ToolContext
    from ..core.tool import Tool
    from ..policy.shell.parts import Place
    from ..record.state import StateFolder

_WALLED = frozenset({"own", "command"})  # sources of tools whose commands run in the sandbox, as do those of plugins


class Walls:
    """The sandbox of one toolbox. `root` is its workspace; the state folders of all workspaces stay hidden."""

    def __init__(self, settings: Settings, root: Path, state: StateFolder) -> None:
        self._settings, self._root, self._state = settings, root, state
        self._sandbox: Sandbox | None = None
        self._lock = threading.Lock()
        self._waiting: list[Tool] = []

    def judged_in_thread(self, tools: list[Tool]) -> None:
        """Judge these tools in a thread until the sandbox is chosen: its probes would keep the loop waiting."""
        with self._lock:
            new = [tool for tool in tools if not tool.judge_blocks] if self._sandbox is None else []
            self._waiting += new
            for tool in new:
                tool.judge_blocks = True

    def sandbox(self) -> Sandbox:
        """The sandbox for commands. Raises SandboxUnavailable with what to install."""
        from ..boundary.sandbox import select_sandbox

        with self._lock:
            if self._sandbox is None:
                self._sandbox = select_sandbox(self._confinement(), self._root)
                while self._waiting:
                    self._waiting.pop().judge_blocks = False
            return self._sandbox

    def reading(self, paths: tuple[Path, ...]) -> Sandbox:
        """The same sandbox, in which commands may also read these paths. Raises SandboxUnavailable."""
        if not paths:
            return self.sandbox()
        from ..boundary.sandbox import select_sandbox

        settings = self._confinement()
        return select_sandbox(replace(settings, read=(*settings.read, *paths)), self._root)

    def _confinement(self) -> SandboxSettings:
        from ..config import sandbox_settings
        from ..config.homes import config_home

        # all workspaces' state, not this one's alone: a granted folder may take it in
        return sandbox_settings(self._settings, self._state.path.parent, config_home())

    def active(self) -> bool:
        """Whether commands run in an active sandbox without network, domains of their own included. Raises
        SandboxUnavailable."""
        box = self.sandbox()
        return box.active and not box.domains

    def reaches_out(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> bool:
        """Whether a shell call could reach the network: commands in an active sandbox without network cannot."""
        walled = tool.source in _WALLED or tool.source.startswith("plugin:")
        if not walled or tool.judge is None:  # it runs outside the sandbox
            return True
        try:
            if self.active():
                return False
        except ToolcribError:
            return True
        judgement = tool.judge(arguments, ctx)
        return judgement is None or judgement.verdict != "allow"  # what only reads and prints sends nothing

    def brings_in(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Whether a shell call's output came from the network, as far as its command says."""
        command = arguments.get(tool.command_argument or "")
        if not isinstance(command, str):
            return False
        from ..policy.shell.judge import all_effects
        from ..policy.shell.reading import read_script

        script = read_script(command, str(self._root), os.path.expanduser("~"))
        return any(effect.kind in ("network", "container") for _, effect in all_effects(script))

    def place(self, cwd: str) -> Place:
        """Where a command would run, for what is judged beside rules: as if there were no sandbox."""
        from ..policy.shell.parts import Place

        box = self._settings.sandbox
        readable, writable = (tuple(map(os.path.realpath, roots)) for roots in (box.read_roots, box.write_roots))
        profile = "unrestricted" if box.backend == "none" else box.profile
        return Place(str(self._root), cwd, os.path.expanduser("~"), profile, readable, writable)
