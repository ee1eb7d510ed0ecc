"""Add the tools that come from the configuration: commands, APIs, MCP servers, plugins, composed tools."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ConfigError, ToolConflictError, ToolDefinitionError
from ..core.wings import absent, has_wing
from .lazy import Lazy
from .mcp import open_servers

if TYPE_CHECKING:
    from ..builtin.command_rules import CommandJudge
    from ..builtin.runner import CommandRunner
    from ..core.tool import Tool
    from ..core.verdict import Judgement
    from ..sources.mcp import McpServers
    from ..sources.plugins import Plugins
    from ..sources.running import CommandServices
    from .parts import House


def add_sources(
    house: House, missing: list[tuple[str, str]], *, builtin: bool = True
) -> tuple[Lazy[McpServers], Lazy[Plugins]]:
    """Register the tools from the configuration. Returns the MCP servers and the plugins.

    `missing` gets the tools that are absent. `builtin`: whether the built-in tools are there, including `create_tool`.
    Raises ConfigError for a wrong entry.
    """
    settings = house.ground.settings
    servers, plugins = Lazy(lambda: open_servers(house)), Lazy(lambda: _open_plugins(house))
    if settings.custom_tools:
        _command_tools(house, services_of(house))
    for name in settings.openapi:
        if has_wing("openapi"):
            _api_tools(house, name, missing)
        else:
            missing.append((f"openapi {name}", absent("openapi")))
    if settings.plugins.enabled:
        missing += plugins().problems
        missing += _python_plugins(house)
    if settings.mcp_servers:
        servers()  # registers the tools that its servers listed last time
    if builtin and has_wing("composed"):
        _composed_tools(house, missing)
    return servers, plugins


def services_of(house: House) -> CommandServices:
    """Return the services for commands of configured tools: the same as those of `exec`."""
    from ..builtin.command_rules import CommandJudge, CommandRules
    from ..builtin.default_tools import open_spill
    from ..builtin.runner import CommandRunner
    from ..builtin.shell import default_shell
    from ..sources.running import CommandServices

    ground = house.ground
    rules = CommandRules.of(ground.settings.sandbox, ground.settings.tools.exec)

    @functools.cache
    def runner(read: tuple[Path, ...]) -> CommandRunner:
        return CommandRunner(
            ground.workspace, ground.sandboxes.variant(read), env=ground.settings.sandbox.env,
            open_spill=open_spill(ground.spill, ground.redactor), move_to_trash=ground.journal.move_to_trash,
            secrets=ground.secrets, effects=house.effects,
        )  # fmt: skip

    @functools.cache
    def judge_of(read: tuple[Path, ...]) -> CommandJudge:
        granted = replace(rules, readable=(*rules.readable, *map(str, read)))
        return CommandJudge(str(ground.workspace.root), granted, ground.sandboxes.own)

    def judge(command: str, cwd: str, read: tuple[Path, ...], *, bare: bool = False) -> Judgement:
        return judge_of(read).judge(command, cwd, bare=bare)

    return CommandServices(runner, judge, default_shell(), ground.redactor.redact)


def _command_tools(house: House, services: CommandServices) -> None:
    from ..sources.command import CommandToolSpec, command_tool

    ground = house.ground
    where = ground.settings.origin.sources.get("custom_tools") or "settings"
    for entry in ground.settings.custom_tools:
        spec = CommandToolSpec(
            entry.name, entry.description, entry.command, entry.parameters, entry.working_dir, entry.timeout,
            entry.env, entry.category, tuple(entry.read),
        )  # fmt: skip
        try:
            tool = house.registry.register(command_tool(spec, services, ground.workspace.root))
        except (ToolDefinitionError, ToolConflictError) as error:
            raise ConfigError(f"{where}: {error}") from None
        ground.sandboxes.judge_in_thread([tool])


def _open_plugins(house: House) -> Plugins:
    """Load the plugin folders of the configuration."""
    if not has_wing("plugins"):
        raise ConfigError(f"plugins: {absent('plugins')}")
    from ..config.plugins import plugin_settings
    from ..sources.plugins import Plugins

    def judge_in_thread(tool: Tool) -> None:
        house.ground.sandboxes.judge_in_thread([tool] if tool.judge is not None else [])

    plugins = Plugins(plugin_settings(house.ground.settings), house.registry, services_of(house), judge_in_thread)
    house.ground.closing.callback(plugins.close)
    plugins.load()
    return plugins


def _api_tools(house: House, name: str, missing: list[tuple[str, str]]) -> None:
    from ..builtin.needs import missing as why_missing
    from ..builtin.outgoing import USER_AGENT
    from ..core.errors import AddressRefused
    from ..sources.openapi import Api, OpenApiDocument, OpenApiError, api_tools, server_url
    from ..sources.registering import register_all

    ground = house.ground
    given = ground.settings.openapi[name]
    why = why_missing("httpx2")
    if why is not None:
        missing.append((f"openapi {name}", why))
        return
    try:
        document = OpenApiDocument.read(given.spec)
        api = Api(
            name, given.base_url or server_url(document), ground.network, given.headers, ground.secrets.resolve,
            given.timeout or 30.0, ground.settings.web.user_agent or USER_AGENT,
        )  # fmt: skip
        ground.network().target(api.base_url)
        tools = api_tools(
            document, api, only=given.operations, without=given.disabled_operations, prefix=given.prefix,
            category=given.category,
        )  # fmt: skip
        register_all(house.registry, tools)
    except (OpenApiError, ToolDefinitionError, ToolConflictError, AddressRefused) as error:
        where = ground.settings.origin.sources.get(f"openapi.{name}.spec") or "settings"
        raise ConfigError(f"{where}: openapi.{name}: {error}") from None


def _python_plugins(house: House) -> list[tuple[str, str]]:
    from ..sources.plugins import load_entry_points

    given = house.ground.settings.plugins
    found = load_entry_points(house.registry, given.allowed_plugins, given.blocked_plugins)
    return [(f"plugin {each.name}", each.problem) for each in found if each.problem]


def _composed_tools(house: House, missing: list[tuple[str, str]]) -> None:
    if "create_tool" in house.ground.settings.tools.disabled:
        missing.append(("create_tool", "disabled by tools.disabled"))
        return
    from ..sources.composed import add_composed_tools

    add_composed_tools(house.registry, house.ground.state.path, missing)
