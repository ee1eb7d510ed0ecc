"""The command of a local server, as a start of the host: its files are protected, and a change of them asks."""

from __future__ import annotations

import os
from pathlib import Path

from ...boundary.programs import loads_something
from ...policy.starts import DeclaredStart
from .config import ServerConfig


def start_of(config: ServerConfig, workspace: Path) -> DeclaredStart | None:
    """Return the start of a local server outside the sandbox; None for any other server."""
    if config.command is None or config.fault is not None or config.sandbox not in (None, "none"):
        return None
    words = (config.command, *config.args)
    variables = tuple(
        f"{name}={value}" for name, value in sorted(config.env.items()) if loads_something(name) or name == "PATH"
    )
    folder = folder_of(config, workspace)
    return DeclaredStart(f"MCP server {config.name}", words, folder, _REMEDY + config.name, variables)


def folder_of(config: ServerConfig, workspace: Path) -> Path:
    """Return the folder that a local server starts in."""
    return Path(os.path.abspath(workspace / os.path.expanduser(config.cwd or "")))


_REMEDY = "toolcrib mcp accept "
