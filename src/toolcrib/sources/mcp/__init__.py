"""MCP servers as a source of tools. `McpServers` is `box.mcp`; the SDK is loaded when the first server is needed."""

from __future__ import annotations

from .config import OAuthConfig, ServerConfig, ToolConfig
from .failure import McpFailure
from .host import Host
from .manager import McpServers
from .server import ServerStatus
from .settings import server_config

__all__ = [
    "Host",
    "McpFailure",
    "McpServers",
    "OAuthConfig",
    "ServerConfig",
    "ServerStatus",
    "ToolConfig",
    "server_config",
]
