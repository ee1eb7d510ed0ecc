"""The command of a local server, as a start of the host: its files are protected, and a change of them asks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ...boundary.environment import command_environment
from ...boundary.programs import loads_something
from ...policy.starts import DeclaredStart
from .config import ServerConfig

BIN = "Scripts" if os.name == "nt" else "bin"


def start_of(config: ServerConfig, workspace: Path) -> DeclaredStart | None:
    """Return the start of a local server outside the sandbox; None for any other server."""
    if config.command is None or config.fault is not None or config.sandbox not in (None, "none"):
        return None
    words = (config.command, *config.args)
    variables = tuple(
        f"{name}={value}" for name, value in sorted(config.env.items()) if loads_something(name) or name == "PATH"
    )
    folder = folder_of(config, workspace)
    path = server_environment(os.environ, config.env)["PATH"]
    places = (str(workspace), os.path.realpath(workspace))
    meant = any(place in word for word in (*words, *variables) for place in places)
    meant = meant or os.path.isabs(os.path.expanduser(config.cwd or ""))
    return DeclaredStart(
        f"MCP server {config.name}", words, folder, _REMEDY + config.name, variables, path,
        config.everywhere and not meant,
    )  # fmt: skip


def folder_of(config: ServerConfig, workspace: Path) -> Path:
    """Return the folder that a local server starts in."""
    return Path(os.path.abspath(workspace / os.path.expanduser(config.cwd or "")))


def server_environment(services: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Return a short list of harmless variables, plus those that are set for the server.

    Our own virtual environment is removed: a server that was installed for another version of the SDK fails in it.
    """
    env = command_environment((), services)
    env.pop("VIRTUAL_ENV", None)
    if sys.prefix != sys.base_prefix:
        own = os.path.realpath(os.path.join(sys.prefix, BIN))
        parts = [part for part in env["PATH"].split(os.pathsep) if os.path.realpath(part) != own]
        env["PATH"] = os.pathsep.join(parts)
    env.update(values)
    return env


_REMEDY = "toolcrib mcp accept "
