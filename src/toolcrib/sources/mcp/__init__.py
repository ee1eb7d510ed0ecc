"""MCP servers as a source of tools. `McpServers` is `box.mcp`. Names load when they are first touched, and the SDK is
loaded when the first server is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client_services import ClientServices
    from .config import OAuthConfig, ServerConfig, ToolConfig, server_config
    from .connector import McpFailure
    from .servers import McpServers
    from .upstream import ServerStatus

__all__ = [
    "ClientServices",
    "McpFailure",
    "McpServers",
    "OAuthConfig",
    "ServerConfig",
    "ServerStatus",
    "ToolConfig",
    "server_config",
]

_HOMES = {
    "ClientServices": "client_services", "McpFailure": "connector", "McpServers": "servers", "OAuthConfig": "config",
    "ServerConfig": "config", "ServerStatus": "upstream", "ToolConfig": "config", "server_config": "config",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
