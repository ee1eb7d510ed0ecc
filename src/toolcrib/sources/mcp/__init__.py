"""MCP servers as a source of tools. `McpServers` is `box.mcp`. The SDK is loaded when the first server is needed."""

from __future__ import annotations

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
