"""Adds MCP servers to the user's configuration file and removes them. Everything else stays, comments too.

A TOML file gets a table at its end, and loses the tables of a server (`settings_file.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..boundary.programs import named_programs
from ..core.errors import ConfigError
from ..core.text import lazy_regex, one_line
from . import show
from .exit_codes import Usage
from .settings_file import Json, checked, parsed, toml_key, toml_value, with_setting, without_setting

SECTIONS = ("mcp_servers", "mcpServers", "McpServers")
_NAME = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
START_QUESTION = "Write this? Its programs run with your rights."


def check_name(name: str) -> None:
    """Raise Usage for what cannot be the name of a server."""
    if not _NAME.fullmatch(name):
        raise Usage(f"{one_line(name)!r}: a server's name has letters, digits, - _ . and begins with a letter or digit")


def warn_if_missing(command: str | None, env: Mapping[str, str]) -> None:
    """Warn if there is no such program on this machine."""
    if command and "${" not in command and not any(named_programs(command, env.get("PATH"))):
        show.warn(f"there is no program {command}; the server cannot start without it")


def with_server(text: str, suffix: str, name: str, entry: Mapping[str, Any]) -> str:
    """The file with one more server. Raises ConfigError where it has one of that name."""
    values = parsed(text, suffix)
    section, servers = _section(values)
    if name in servers:
        raise ConfigError(f"there is a server {name!r} already; remove it first")
    if suffix == ".json":
        return with_setting(text, suffix, (section, name), dict(entry))
    lines = [f"[{toml_key(section)}.{toml_key(name)}]"]
    lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in entry.items()]
    start = text if not text or text.endswith("\n") else f"{text}\n"
    made = "\n".join([*([start] if start else []), *lines, ""])
    return checked(made, {**values, section: {**servers, name: dict(entry)}})


def without_server(text: str, suffix: str, name: str) -> str:
    """The file without a server. Raises ConfigError where it has none of that name, or it cannot be cut out."""
    section, servers = _section(parsed(text, suffix))
    if name not in servers:
        raise ConfigError(f"there is no server {name!r} in this file")
    return without_setting(text, suffix, (section, name))


def _section(values: Json) -> tuple[str, Json]:
    """The name that the section of servers has in this file, and what is in it."""
    name = next((each for each in SECTIONS if each in values), SECTIONS[0])
    servers: Any = values.get(name, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"its {name} are written as a list; change that by hand")
    return name, cast("Json", servers)
