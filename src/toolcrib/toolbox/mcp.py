"""Make the MCP servers of a toolbox, with its folders, secrets, sandbox and address guard."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ..boundary.sandbox import Profile, Sandbox
    from ..sources.mcp import McpServers
    from .parts import House


def open_servers(house: House) -> McpServers:
    """Return the configured servers; none is started yet. Raises ConfigError for invalid settings."""
    from ..policy.secrets.values import MIN_SECRET
    from ..sources.mcp import ClientServices, McpServers
    from ..sources.mcp.cache import ListCache
    from ..sources.mcp.pins import Pins

    ground = house.ground
    folder = ground.state.path.parent / "mcp"

    def learn(name: str, value: str) -> None:
        from ..config.hide import is_secret_name

        value = value.removeprefix("Bearer ").strip()
        if is_secret_name(name) and len(value) >= MIN_SECRET:
            ground.redactor.grant(name, value)

    def sandbox(profile: Profile, read: tuple[Path, ...]) -> Sandbox:
        return ground.sandboxes.variant(read, profile)()

    host = ClientServices(
        workspace=ground.workspace.root, cache=ListCache(folder / "lists"), tokens=folder / "tokens",
        environ=dict(os.environ), resolve=ground.secrets.resolve, walls=sandbox,
        guard=ground.network, learn=learn, pins=Pins(folder / "pins"),
    )  # fmt: skip
    configs = [replace(config, name=name) for name, config in ground.settings.mcp_servers.items()]
    servers = McpServers(configs, host, house.registry)
    ground.closing.callback(servers.close)
    return servers
