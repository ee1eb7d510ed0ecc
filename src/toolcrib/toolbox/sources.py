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
    from ..sources.plugins.plugins import Plugins
    from ..sources.running import Around
    from .toolbox import Toolbox


COMPOSED = "composed_tools.json"
"""The file in the state folder that holds the tools that a model has composed."""


def add_sources(box: Toolbox, *, builtin: bool = True) -> None:
    """Register what the configuration adds. Raises ConfigError for an entry of it that is wrong.

    `builtin`: whether our own tools are there, and `create_tool` with them.
    """
    settings = box.settings
    if settings.custom_tools:
        _command_tools(box, around_of(box))
    for name in settings.openapi:
        _api_tools(box, name)
    if settings.plugins.enabled:
        box.missing += box.plugins.problems
        box.missing += _python_plugins(box)
    if settings.mcp_servers:
        _ = box.mcp  # registers what its servers listed last time
    if builtin:
        _composed_tools(box)


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
            secrets=box.secrets, effects=box.effects,
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


def open_plugins(box: Toolbox) -> Plugins:
    """The plugin folders of the configuration, loaded."""
    from ..config.plugins import plugin_settings
    from ..sources.plugins.plugins import Plugins

    plugins = Plugins(plugin_settings(box.settings), box.registry, around_of(box), _judged_in_thread(box))
    box.when_closed(plugins.close)
    plugins.load()
    return plugins


def _api_tools(box: Toolbox, name: str) -> None:
    from ..builtin.needs import missing
    from ..config.web import user_agent
    from ..core.errors import AddressRefused
    from ..sources.openapi.calling import Api
    from ..sources.openapi.document import Document, OpenApiError
    from ..sources.openapi.operations import server_url
    from ..sources.openapi.tools import api_tools
    from ..sources.registering import register_all

    given = box.settings.openapi[name]
    absent = missing("httpx2")
    if absent is not None:
        box.missing.append((f"openapi {name}", absent))
        return
    try:
        document = Document.read(given.spec)
        api = Api(
            name, given.base_url or server_url(document), lambda: box.network, given.headers, box.secrets.resolve,
            given.timeout or 30.0, user_agent(box.settings),
        )  # fmt: skip
        box.network.target(api.base_url)
        tools = api_tools(
            document, api, only=given.operations, without=given.disabled_operations, prefix=given.prefix,
            category=given.category,
        )  # fmt: skip
        register_all(box.registry, tools)
    except (OpenApiError, ToolDefinitionError, ToolConflictError, AddressRefused) as error:
        where = box.settings.origin.sources.get(f"openapi.{name}.spec") or "settings"
        raise ConfigError(f"{where}: openapi.{name}: {error}") from None


def _judged_in_thread(box: Toolbox) -> Callable[[Tool], None]:
    return lambda tool: box.walls.judged_in_thread([tool] if tool.judge is not None else [])


def _python_plugins(box: Toolbox) -> list[tuple[str, str]]:
    from ..sources.entrypoints import load_entry_points

    given = box.settings.plugins
    found = load_entry_points(box.registry, given.allowed_plugins, given.blocked_plugins)
    return [(f"plugin {each.name}", each.problem) for each in found if each.problem]


def _composed_tools(box: Toolbox) -> None:
    """The stored ones, which come last: they are the model's, and take no name from anybody."""
    if "create_tool" in box.settings.tools.disabled:
        box.missing.append(("create_tool", "disabled by tools.disabled"))
        return
    from ..sources.composed_store import ComposedStore
    from ..sources.create_tool import ComposedTools

    store = ComposedStore(box.state.path / COMPOSED)
    tools = ComposedTools(store, box.registry, lambda: {name for name, _ in box.missing})
    box.registry.register(tools.tool())
    box.missing += tools.register()


def _add(box: Toolbox, name: str, make: Callable[[], Tool]) -> None:
    try:
        tool = box.registry.register(make())
    except (ToolDefinitionError, ToolConflictError) as error:
        raise ConfigError(f"{box.settings.origin.sources.get(name) or 'settings'}: {error}") from None
    box.walls.judged_in_thread([tool])
