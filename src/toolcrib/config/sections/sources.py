"""Settings of tools from elsewhere: MCP servers, commands, plugins."""

from __future__ import annotations

from typing import Annotated, Literal

from ..tighten import More, Only
from .base import AnyPath, Json, Seconds, Section


class McpServer(Section):
    """An MCP server whose tools become ours: `command` for a local one, `url` for a remote one."""

    spellings = {
        "tool_timeout": "timeout",
        "timeout_secs": "timeout",
        "type": "transport",
        "enabled_tools": "tools",
    }
    foreign = frozenset({"always_allow", "auto_approve", "description", "icon", "name"})

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    transport: str | None = None
    timeout: Seconds | None = None
    disabled: bool = False
    tools: list[str] | None = None
    disabled_tools: list[str] = []
    trust: Literal["none", "hints"] = "none"
    category: str | None = None
    sandbox: str | None = None
    prefix: str | None = None


class CustomTool(Section):
    """A tool that is a command: `{{name}}` in it is replaced by the argument of that name."""

    spellings = {"timeout_secs": "timeout"}

    name: str
    description: str
    command: str
    parameters: Json = {}
    working_dir: str | None = None
    timeout: Seconds | None = None
    env: dict[str, str] = {}
    category: str | None = None
    read: list[str] = []


class Plugins(Section):
    """Folders with a `plugin.json`."""

    enabled: Annotated[bool, Only(False)] = False
    plugin_dirs: list[AnyPath] = []
    allowed_plugins: list[str] = []
    """Empty: all that are not blocked."""
    blocked_plugins: Annotated[list[str], More()] = []
