"""Which programs can `toolcrib install` set up, and what goes where in their files?

From the programs' own documentation, November 2026.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from ...core.dataclass import dataclass

ClientName = Literal[
    "claude", "claude-desktop", "codex", "copilot", "cursor", "gemini", "goose", "vscode", "windsurf", "zed"
]


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a program lists what it starts: a file of the workspace, which a team shares, and one of the user.

    `fields` are those of an entry besides the command. `folder` is how the shared file names the workspace; without
    it the program starts its servers there.
    """

    in_workspace: str | None
    in_home: str
    key: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    folder: str | None = None
    command: str = "command"  # the name of the field


@dataclass(frozen=True, slots=True)
class HookPlace:
    """An agent's hooks: its files for a workspace (of this machine alone, where it has one; else `shared`) and for the
    user, the events that we answer, and the fields of an entry besides the command."""

    in_workspace: str
    in_home: str
    events: tuple[str, ...]
    fields: Mapping[str, Any]
    nested: bool = True  # entries are grouped by what they match
    command: str = "command"
    version: int | None = None
    shared: bool = True
    trust: str = ""  # what a person must do first


@dataclass(frozen=True, slots=True)
class Client:
    """A program: where it lists MCP servers, agents of the Agent Client Protocol, and hooks."""

    title: str
    servers: ServerPlace | None = None
    agents: ServerPlace | None = None
    hooks: HookPlace | None = None


def _settings(app: str, rest: str) -> str:
    """The folder of a desktop program's settings, relative to the home directory unless it is absolute."""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("APPDATA") or "AppData/Roaming", app, rest)
    return f"Library/Application Support/{app}/{rest}" if sys.platform == "darwin" else f".config/{app}/{rest}"


_STDIO = {"type": "stdio"}
CLIENTS: dict[ClientName, Client] = {
    "claude": Client(
        "Claude Code",
        ServerPlace(".mcp.json", ".claude.json", "mcpServers", _STDIO),
        hooks=HookPlace(".claude/settings.local.json", ".claude/settings.json",
                        ("PreToolUse", "PostToolUse", "PostToolUseFailure"), {"type": "command", "timeout": 30},
                        shared=False),
    ),
    "claude-desktop": Client(
        "Claude Desktop", ServerPlace(None, _settings("Claude", "claude_desktop_config.json"), "mcpServers")
    ),
    "codex": Client(
        "Codex",
        ServerPlace(".codex/config.toml", ".codex/config.toml", "mcp_servers"),
        hooks=HookPlace(".codex/hooks.json", ".codex/hooks.json",
                        ("PreToolUse", "PostToolUse"), {"type": "command", "timeout": 30},
                        trust="Codex skips a hook until you trust it: start codex, type /hooks and trust these two, "
                        "again after each change. The hooks of a project also need a project that you trust."),
    ),
    "copilot": Client(
        "GitHub Copilot",
        hooks=HookPlace(".github/hooks/toolcrib.json", ".copilot/hooks/toolcrib.json", ("preToolUse", "postToolUse"),
                        {"type": "command", "timeoutSec": 30}, nested=False, command="bash", version=1),
    ),
    "cursor": Client(
        "Cursor",
        ServerPlace(".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", folder="${workspaceFolder}"),
        hooks=HookPlace(".cursor/hooks.json", ".cursor/hooks.json",
                        ("beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeTabFileRead",
                         "preToolUse", "postToolUse"),
                        {"timeout": 30}, nested=False, version=1),
    ),
    "gemini": Client(
        "Gemini CLI",
        ServerPlace(".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
        hooks=HookPlace(".gemini/settings.json", ".gemini/settings.json", ("BeforeTool", "AfterTool"),
                        {"type": "command", "name": "toolcrib", "timeout": 30_000}),
    ),
    "goose": Client(
        "goose",
        ServerPlace(None, _settings("Block/goose/config" if sys.platform == "win32" else "goose", "config.yaml")
                    if sys.platform != "darwin" else ".config/goose/config.yaml", "extensions",
                    {"enabled": True, "type": "stdio", "name": "toolcrib", "description": "Toolcrib", "timeout": 300},
                    command="cmd"),
    ),
    "vscode": Client(
        "VS Code",
        ServerPlace(".vscode/mcp.json", _settings("Code", "User/mcp.json"), "servers", _STDIO, "${workspaceFolder}"),
    ),
    "windsurf": Client("Windsurf", ServerPlace(None, ".codeium/windsurf/mcp_config.json", "mcpServers")),
    "zed": Client(
        "Zed",
        ServerPlace(None, ".config/zed/settings.json", "context_servers"),
        ServerPlace(None, ".config/zed/settings.json", "agent_servers", {"type": "custom"}),
    ),
}  # fmt: skip
