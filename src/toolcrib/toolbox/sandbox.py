"""The sandbox of a toolbox's commands, variants of it, what can pass through it, and the effects of commands."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ..boundary.host_files import host_files_in
from ..boundary.network.settings import RULE_DOMAIN
from ..boundary.programs import check_grant
from ..boundary.real_path import real_path
from ..boundary.sandbox.spec import LazySandbox, Lift, WalledSandboxes
from ..core.errors import ToolcribError
from ..core.wings import has_wing

if TYPE_CHECKING:
    from pathlib import Path

    from ..boundary.host_file import HostFile
    from ..boundary.sandbox import Profile, Sandbox, SandboxSettings
    from ..boundary.sandbox.settings import Denied
    from ..core.context import ToolContext
    from ..core.tool import Tool
    from ..policy.shell.parts import CommandPlace
    from ..record.change import CommandChanges
    from ..record.state import StateFolder

_MAX_KEPT = 8  # sandboxes of approved commands
_SANDBOXED = frozenset({"own", "command"})
"""Sources of tools whose commands run in the sandbox; plugins' commands do so too."""


class Sandboxes:
    """The sandbox of commands (`own`), and variants of it. `root` is the workspace. Nothing is probed before a use."""

    def __init__(self, settings: SandboxSettings, root: Path) -> None:
        self.settings, self.root = replace(settings, denied=self._denied_paths), root
        settings = self.settings
        self.denied: Denied = lambda name: None
        """Which paths rules deny; the toolbox sets it when it has the rules."""
        self.own = _lazy_sandbox(settings, root)
        self.walled = self.walls_of(())

    def walls_of(self, read: tuple[Path, ...]) -> WalledSandboxes:
        """Return the sandboxes of commands with additional readable paths, by what the commands may do at most."""
        for path in read:
            check_grant(path, self.settings.writable(self.root))
        settings = replace(self.settings, read_roots=(*self.settings.read_roots, *read))
        root, own = self.root, self.own if not read else _lazy_sandbox(settings, self.root)

        def reading() -> Sandbox:
            from ..boundary.sandbox import select_for_reading

            return select_for_reading(settings, root)

        def changing() -> Sandbox:
            from ..boundary.sandbox import select_for_changing

            return select_for_changing(settings, root, own())

        def closed() -> Sandbox:
            from ..boundary.sandbox import select_closed

            return select_closed(settings, own())

        @functools.lru_cache(_MAX_KEPT)
        def lifted(lift: Lift) -> LazySandbox:
            if lift == ".git":
                return _lazy_sandbox(replace(settings, allow_protected=(*settings.allow_protected, lift)), root)
            return _lazy_sandbox(replace(settings, host_files_writable=lift), root)

        return WalledSandboxes(own, lifted, LazySandbox(reading), LazySandbox(changing), LazySandbox(closed))

    def _denied_paths(self, name: Literal["Read", "Edit"]) -> Callable[[str], bool] | None:
        return self.denied(name)

    def variant(
        self, read: tuple[Path, ...], profile: Profile | None = None, write: tuple[Path, ...] = ()
    ) -> LazySandbox:
        """Return the same sandbox with additional readable and writable paths, and optionally another profile."""
        if not read and not write and profile is None:
            return self.own
        own = self.settings
        for path in (*read, *write):
            check_grant(path, own.writable(self.root))
        changed = replace(
            own, read_roots=(*own.read_roots, *read), write_roots=(*own.write_roots, *write),
            profile=profile or own.profile,
        )  # fmt: skip
        return _lazy_sandbox(changed, self.root)

    def judge_in_thread(self, tools: Iterable[Tool]) -> None:
        """Judge these tools in a thread until the sandbox is chosen: its probes would block the event loop."""
        for tool in tools:
            if tool.judge_blocks:
                continue
            tool.judge_blocks = True
            if not self.own.when_chosen(functools.partial(setattr, tool, "judge_blocks", False)):
                tool.judge_blocks = False

    def reaches_out(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext, asks: bool) -> bool:
        """Return whether a shell call could reach the network: commands in an active sandbox without network cannot,
        but for hosts that a yes opens. `asks`: what is not known runs without a network, as a person would be asked."""
        sandboxed = tool.source in _SANDBOXED or tool.source.startswith("plugin:")
        if not sandboxed or tool.judge is None:
            return True
        try:
            isolated = self.own.is_isolated()
        except ToolcribError:
            return True
        judgement = tool.judge(arguments, ctx)
        if isolated or judgement is None:
            return not isolated or bool(judgement and judgement.hosts)
        if judgement.verdict == "allow":  # a command that only reads and prints sends nothing
            return judgement.rule == RULE_DOMAIN
        return judgement.wall is None or not asks or not self.own().active

    def brings_in(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether a shell call's output may come from the network, judged by its command."""
        command = tool.command_in(arguments)
        if command is None:
            return False
        from ..policy.shell.judge import brings_in

        return brings_in(command, str(self.root))

    def place(self, cwd: str) -> CommandPlace:
        """Return the place where a command would run without a sandbox: rules judge commands by it."""
        from ..policy.shell.parts import CommandPlace

        own = self.settings
        readable, writable = (tuple(map(real_path, roots)) for roots in (own.read_roots, own.write_roots))
        profile = "unrestricted" if own.backend == "none" else own.profile
        roots = (str(self.root), *writable)

        def host_files() -> tuple[HostFile, ...]:
            return tuple(each for root in roots for each in host_files_in(root, own.host_files, (cwd,)))

        return CommandPlace(
            str(self.root), cwd, os.path.expanduser("~"), profile, readable, writable,
            host_files=functools.cache(host_files), on_disk=True,
        )  # fmt: skip


def _lazy_sandbox(settings: SandboxSettings, root: Path) -> LazySandbox:
    """Return the sandbox for these settings, chosen at the first use."""

    def choose() -> Sandbox:
        from ..boundary.sandbox import select_sandbox

        return select_sandbox(settings, root)

    return LazySandbox(choose)


def recover_effects(state: StateFolder, *, prune: bool = False) -> list[str]:
    """Complete changes that a killed process had begun to apply or undo. Returns a line for each. `prune` also deletes
    changes that were held for too long."""
    if not has_wing("effects"):
        return []
    from ..effects import recover

    return recover(state, prune=prune)


def command_journal(state: StateFolder) -> Callable[[], CommandChanges] | None:
    """Return a function that makes the object to undo changes of commands; None without the package `effects`."""
    if not has_wing("effects"):
        return None
    from ..effects import command_changes

    return lambda: command_changes(state)
