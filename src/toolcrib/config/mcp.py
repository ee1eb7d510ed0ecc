"""The `mcp_servers` section as the client takes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ..sources.mcp.settings import server_config

if TYPE_CHECKING:
    from ..sources.mcp.config import ServerConfig
    from .settings import Settings


def mcp_configs(settings: Settings) -> list[ServerConfig]:
    """Every server that is configured, in the order of the files. Raises ConfigError for one that makes no sense."""
    return [server_config(name, asdict(given)) for name, given in settings.mcp_servers.items()]
