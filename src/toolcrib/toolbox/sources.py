"""Add the tools that come from the configuration: commands, APIs, MCP servers, plugins, composed tools."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import TrustStore
from ..config.files import ConfigFile
from ..core.errors import ConfigError, ToolConflictError, ToolcribError, ToolDefinitionError
from ..core.wings import absent, has_wing
from .parts import House, Lazy

if TYPE_CHECKING:
    from ..boundary.sandbox.spec import WalledSandboxes
    from ..builtin.command_rules import CommandJudge
    from ..builtin.command_runner import CommandRunner
    from ..core.tool import Tool
    from ..core.verdict import Judgement
    from ..sources.command_tools import CommandServices
    from ..sources.mcp.config import ServerConfig
    from ..sources.mcp.servers import McpServers
    from ..sources.plugins import Plugins


def add_sources(
    house: House, missing: list[tuple[str, str]], *, builtin: bool = True
) -> tuple[Lazy[McpServers], Lazy[Plugins]]:
    """Register the tools from the configuration. Returns the MCP servers and the plugins.

    `missing` gets the tools that are absent. `builtin`: whether the built-in tools are there, including `create_tool`.
    Raises ConfigError for a wrong entry.
    """
    settings = house.ground.settings
    added: list[ServerConfig] = []
    servers, plugins = Lazy(lambda: _open_servers(house, added)), Lazy(lambda: _open_plugins(house))
    if settings.custom_tools:
        _command_tools(house, services_of(house))
    for name in settings.openapi:
        _api_tools(house, name, missing)
    if settings.plugins.enabled:
        missing += plugins().problems
        added += _plugin_servers(plugins(), missing)
        missing += _python_plugins(house)
    if settings.mcp_servers or added:
        servers()  # registers the tools that its servers listed last time
    if builtin and has_wing("composed"):
        _composed_tools(house, missing)
    return servers, plugins


def services_of(house: House) -> CommandServices:
    """Return the services for commands of configured tools: the same as those of `exec`."""
    from ..builtin.command_rules import CommandJudge, CommandRules
    from ..builtin.command_runner import CommandRunner
    from ..builtin.default_tools import open_spill
    from ..builtin.shell import default_shell
    from ..sources.command_tools import CommandServices

    ground = house.ground
    rules = CommandRules.of(ground.sandboxes.settings, ground.settings.tools.exec)

    @functools.cache
    def walls(read: tuple[Path, ...]) -> WalledSandboxes:
        return ground.sandboxes.walls_of(read) if read else ground.sandboxes.walled

    @functools.cache
    def runner(read: tuple[Path, ...]) -> CommandRunner:
        return CommandRunner(
            ground.workspace, walls(read), env=ground.settings.sandbox.env,
            open_spill=open_spill(ground.spill, ground.redactor), move_to_trash=ground.journal.move_to_trash,
            secrets=ground.secrets, effects=house.effects, saver=house.saver,
        )  # fmt: skip

    @functools.cache
    def judge_of(read: tuple[Path, ...]) -> CommandJudge:
        granted = replace(rules, readable=(*rules.readable, *map(str, read)))
        return CommandJudge(str(ground.workspace.root), granted, ground.sandboxes.own, walls(read).reading)

    def judge(command: str, cwd: str, read: tuple[Path, ...], *, bare: bool = False) -> Judgement:
        return judge_of(read).judge(command, cwd, bare=bare)

    return CommandServices(runner, judge, default_shell(), ground.redactor.redact)


def _command_tools(house: House, services: CommandServices) -> None:
    from ..sources.command_tools import command_tool

    ground = house.ground
    where = ground.settings.origin.sources.get("custom_tools") or "settings"
    for entry in ground.settings.custom_tools:
        try:
            tool = house.registry.register(command_tool(entry, services, ground.workspace.root))
        except (ToolDefinitionError, ToolConflictError, OSError) as error:
            raise ConfigError(f"{where}: custom tool {entry.name!r}: {error}") from None
        ground.sandboxes.judge_in_thread([tool])


def _open_plugins(house: House) -> Plugins:
    """Load the plugin folders of the configuration."""
    if not has_wing("plugins"):
        raise ConfigError(f"plugins: {absent('plugins')}")
    from ..sources.plugins import Plugins

    def judge_in_thread(tool: Tool) -> None:
        house.ground.sandboxes.judge_in_thread([tool] if tool.judge is not None else [])

    settings, writable = house.ground.settings, house.ground.workspace.writable
    plugins = Plugins(settings.plugins, writable, house.registry, services_of(house), judge_in_thread)
    house.ground.closing.callback(plugins.close)
    plugins.load()
    return plugins


def _api_tools(house: House, name: str, missing: list[tuple[str, str]]) -> None:
    ground, settings = house.ground, house.ground.settings
    why: str | None = absent("openapi")
    if has_wing("openapi"):
        from ..sources.openapi import add_api

        for header, value in settings.openapi[name].headers.items():
            ground.secrets.learn(header, value)
        try:
            why = add_api(
                house.registry, name, settings.openapi[name], ground.network, ground.secrets.resolve,
                settings.web.user_agent,
            )  # fmt: skip
        except ToolcribError as error:
            where = settings.origin.sources.get(f"openapi.{name}") or "settings"
            raise ConfigError(f"{where}: openapi.{name}: {error}") from None
    if why is not None:
        missing.append((f"openapi {name}", why))


def _plugin_servers(plugins: Plugins, missing: list[tuple[str, str]]) -> Iterator[ServerConfig]:
    """Yield the servers of Agent Plugins whose `mcp.json` the person trusted, exactly as it is. `missing` gets the
    others."""
    for plugin in plugins:
        mcp = plugin.package.mcp if plugin.state == "loaded" and plugin.package is not None else None
        if mcp is None or not mcp.servers:
            continue
        if TrustStore().status(ConfigFile(mcp.path, mcp.text, mcp.digest, {})) == "trusted":
            yield from mcp.servers.values()
        else:
            why = f"{mcp.path} is not trusted: `toolcrib trust` shows and trusts it"
            missing.append((f"MCP servers of plugin {plugin.name}", why))


def _open_servers(house: House, added: Iterable[ServerConfig]) -> McpServers:
    """Return the configured MCP servers, and those of plugins with other names; none is started yet. Raises ConfigError
    for invalid settings."""
    from ..sources.mcp.cache import ListCache, Pins
    from ..sources.mcp.client_services import ClientServices
    from ..sources.mcp.servers import McpServers

    ground = house.ground
    folder, clean = ground.state.path.parent / "mcp", ground.redactor.redact

    host = ClientServices(
        workspace=ground.workspace.root, cache=ListCache(folder / "lists", clean), tokens=folder / "tokens",
        environ=dict(os.environ), resolve=ground.secrets.resolve, guard=ground.network,
        learn=ground.secrets.learn,
        walls=lambda profile, read, write: ground.sandboxes.variant(read, profile, write)(),
        pins=Pins(folder / "pins", clean), starts=ground.starts,
    )  # fmt: skip
    configs = {name: replace(config, name=name) for name, config in ground.settings.mcp_servers.items()}
    configs = {**{config.name: config for config in added}, **configs}
    servers = McpServers(configs.values(), host, house.registry)
    ground.closing.callback(servers.close)
    return servers


def _python_plugins(house: House) -> list[tuple[str, str]]:
    from ..sources.plugins import load_entry_points

    given = house.ground.settings.plugins
    found = load_entry_points(house.registry, given.allowed_plugins, given.blocked_plugins)
    return [(f"plugin {name}", problem) for name, problem in found if problem]


def _composed_tools(house: House, missing: list[tuple[str, str]]) -> None:
    if not house.ground.settings.tools.has("create_tool"):
        missing.append(("create_tool", "disabled by tools.disabled"))
        return
    from ..sources.composed import add_composed_tools

    add_composed_tools(house.registry, house.ground.state.path, missing)
