"""The command of a local server, as a start of the host: its files are protected, and a change of them asks."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ...boundary.environment import command_environment
from ...boundary.programs import loads_something, named_programs
from ...boundary.real_path import real_path
from ...core.text import lazy_regex
from ...policy.starts import DeclaredStart
from .config import ServerConfig

_PYTHON, _OPTION_P = lazy_regex(r"python3\.(\d+)"), 11
BIN = "Scripts" if os.name == "nt" else "bin"
BEHIND = "TOOLCRIB_BEHIND"
"""The variable that says as which servers of Toolcrib a process was started, outermost first."""


def marks_of(environ: Mapping[str, str]) -> list[str]:
    """Return the marks of the servers as which this process, and those that started it, were started."""
    return [mark for mark in environ.get(BEHIND, "").split(",") if mark]


def mark_of(config: ServerConfig) -> str:
    """Return what tells a server from others, for the processes that it starts."""
    return hashlib.sha256(repr((config.name, config.command, config.args)).encode(errors="replace")).hexdigest()[:12]


def start_of(config: ServerConfig, workspace: Path) -> DeclaredStart | None:
    """Return the start of a local server outside the sandbox; None for any other server."""
    if config.command is None or config.fault is not None or config.sandbox not in (None, "none"):
        return None
    path = server_environment(os.environ, config.env)["PATH"]
    return DeclaredStart(
        f"MCP server {config.name}", words_of(config, workspace), folder_of(config, workspace), _REMEDY + config.name,
        _variables(config), path, _is_everywhere(config, workspace),
    )  # fmt: skip


def words_of(config: ServerConfig, workspace: Path) -> tuple[str, ...]:
    """Return the command of a local server. `python -m NAME` of the person's own settings gets -P where Python has that
    option (3.11 on): it looks for no module in whatever workspace is opened."""
    words = (config.command or "", *config.args)
    if words[1:2] != ("-m",) or not _is_everywhere(config, workspace):
        return words
    path = server_environment(os.environ, config.env)["PATH"]
    program = os.path.basename(real_path(next(named_programs(words[0], path), "")))
    version = _PYTHON.fullmatch(program)
    return (words[0], "-P", *words[1:]) if version and int(version[1]) >= _OPTION_P else words


def _is_everywhere(config: ServerConfig, workspace: Path) -> bool:
    """Return whether a server starts in every workspace, and its words, variables and folder do not name this one."""
    texts, places = (config.command or "", *config.args, *_variables(config)), (workspace, real_path(workspace))
    meant = os.path.isabs(os.path.expanduser(config.cwd or "")) or any(
        str(at) in each for each in texts for at in places
    )
    return config.everywhere and not meant


def _variables(config: ServerConfig) -> tuple[str, ...]:
    """Return the variables of a server that make a program load something, as `NAME=value`."""
    given = sorted(config.env.items())
    return tuple(f"{name}={value}" for name, value in given if loads_something(name) or name == "PATH")


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
        own = real_path(os.path.join(sys.prefix, BIN))
        parts = [part for part in env["PATH"].split(os.pathsep) if real_path(part) != own]
        env["PATH"] = os.pathsep.join(parts)
    env.update(values)
    return env


_REMEDY = "toolcrib mcp accept "
