"""The MCP servers of a toolbox, and what of it they are given: its folders, secrets, walls and guard."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ..boundary.sandbox import Sandbox
    from ..sources.mcp import McpServers
    from .toolbox import Toolbox


def open_servers(box: Toolbox) -> McpServers:
    """The configured servers; none is started. Raises ConfigError for settings that make no sense."""
    from ..config.mcp import mcp_configs
    from ..policy.secrets.values import SHORTEST
    from ..sources.mcp import ClientServices, McpServers
    from ..sources.mcp.cache import ListCache
    from ..sources.mcp.pins import Pins

    folder = box.state.path.parent / "mcp"

    def learn(name: str, value: str) -> None:
        from ..config.hide import is_secret_name

        value = value.removeprefix("Bearer ").strip()
        if is_secret_name(name) and len(value) >= SHORTEST:
            box.redactor.grant(name, value)

    host = ClientServices(
        workspace=box.workspace.root, cache=ListCache(folder / "lists"), tokens=folder / "tokens",
        environ=dict(os.environ), resolve=box.secrets.resolve, walls=functools.partial(_walls, box),
        guard=lambda: box.network, learn=learn, pins=Pins(folder / "pins"),
    )  # fmt: skip
    servers = McpServers(mcp_configs(box.settings), host, box.registry)
    box.when_closed(servers.close)
    return servers


def _walls(box: Toolbox, profile: str, read: tuple[Path, ...]) -> Sandbox:
    """A sandbox for a server: that of commands, with the profile it is to have and what it may read beside."""
    from dataclasses import replace

    from ..boundary.sandbox import select_sandbox
    from ..config import sandbox_settings
    from ..config.homes import config_home

    settings = sandbox_settings(box.settings, box.state.path.parent, config_home())
    return select_sandbox(replace(settings, profile=profile, read=(*settings.read, *read)), box.workspace.root)
