"""Which tools from elsewhere does a toolbox have? Those of the configuration, handed what they run in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ConfigError, ToolConflictError, ToolDefinitionError

if TYPE_CHECKING:
    from ..builtin.command_rules import CommandJudge
    from ..builtin.runner import CommandRunner
    from ..core.tool import Tool
    from ..core.verdict import Judgement
    from ..sources.running import Around
    from .toolbox import Toolbox


def add_sources(box: Toolbox) -> None:
    """Register what the configuration adds. Raises ConfigError for an entry that is wrong."""
    settings = box.settings
    if settings.custom_tools:
        _command_tools(box, around_of(box))


def around_of(box: Toolbox) -> Around:
    """What commands of tools from elsewhere are given: the same as those of `exec`."""
    from ..builtin.command_rules import CommandJudge
    from ..builtin.default_tools import open_spill
    from ..builtin.runner import CommandRunner
    from ..builtin.shell import default_shell
    from ..config import command_rules
    from ..sources.running import Around

    rules = command_rules(box.settings)

    @functools.cache
    def runner(read: tuple[Path, ...]) -> CommandRunner:
        return CommandRunner(
            box.workspace, functools.partial(box.walls.reading, read), env=box.settings.sandbox.env,
            open_spill=open_spill(box.spill, box.redactor), move_to_trash=box.journal.move_to_trash,
            secrets=box.secrets,
        )  # fmt: skip

    @functools.cache
    def judge_of(read: tuple[Path, ...]) -> CommandJudge:
        granted = replace(rules, readable=(*rules.readable, *map(str, read)))
        return CommandJudge(str(box.workspace.root), granted, box.sandbox)

    def judge(command: str, cwd: str, read: tuple[Path, ...], *, bare: bool = False) -> Judgement:
        return judge_of(read).judge(command, cwd, bare=bare)

    return Around(runner, judge, default_shell(), box.redactor.redact)


def _command_tools(box: Toolbox, around: Around) -> None:
    from ..sources.command import CommandToolSpec, command_tool

    for entry in box.settings.custom_tools:
        spec = CommandToolSpec(
            entry.name, entry.description, entry.command, entry.parameters, entry.working_dir, entry.timeout,
            entry.env, entry.category, tuple(entry.read),
        )  # fmt: skip
        _add(box, "custom_tools", functools.partial(command_tool, spec, around, box.workspace.root))


def _add(box: Toolbox, name: str, make: Callable[[], Tool]) -> None:
    try:
        tool = box.registry.register(make())
    except (ToolDefinitionError, ToolConflictError) as error:
        raise ConfigError(f"{box.settings.sources.get(name) or 'settings'}: {error}") from None
    box.walls.judged_in_thread([tool])
