"""Adds MCP servers to the user's configuration file and removes them. Everything else stays, comments too.

A TOML file gets a table at its end, and loses the tables of a server line by line. What comes out is read again before
it is written: it must be what was there, and the change, and nothing else.
"""

from __future__ import annotations

import json
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ..boundary.own_files import replace_file
from ..core.errors import ConfigError

Json = dict[str, Any]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
HEADER = re.compile(rf"\s*\[\s*({KEY}(?:\s*\.\s*{KEY})*)\s*\]\s*(?:#.*)?$")
SECTIONS = ("mcp_servers", "mcpServers", "McpServers")
START_QUESTION = "Write this? Its programs run with your rights."


def with_server(text: str, suffix: str, name: str, entry: Mapping[str, Any]) -> str:
    """The file with one more server. Raises ConfigError where it has one of that name."""
    values = parsed(text, suffix)
    section, servers = _section(values)
    if name in servers:
        raise ConfigError(f"there is a server {name!r} already; remove it first")
    if suffix == ".json":
        servers[name] = dict(entry)
        values[section] = servers
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    start = text if not text or text.endswith("\n") else f"{text}\n"
    made = f"{start}{'' if not start else chr(10)}{_table((section, name), entry)}"
    check(made, {**values, section: {**servers, name: dict(entry)}})
    return made


def without_server(text: str, suffix: str, name: str) -> str:
    """The file without a server. Raises ConfigError where it has none of that name, or it cannot be cut out."""
    values = parsed(text, suffix)
    section, servers = _section(values)
    if name not in servers:
        raise ConfigError(f"there is no server {name!r} in this file")
    left = {key: value for key, value in servers.items() if key != name}
    wanted = {**values, section: left}
    if not left:
        del wanted[section]
    if suffix == ".json":
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    kept: list[str] = []
    inside = False
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # splitlines would end lines at more than TOML does
        header = HEADER.match(line.rstrip("\r\n"))
        if header is not None or line.lstrip().startswith("[["):
            inside = header is not None and names(header[1])[:2] == (section, name)
        if not inside:
            kept.append(line)
    made = "".join(kept).rstrip("\n")
    made = f"{made}\n" if made else ""
    if not left and parsed(made, suffix).get(section) == {}:
        wanted[section] = {}
    check(made, wanted)
    return made


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file in one step; a new one gets this mode, and its folder is for this user alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else mode
    replace_file(path, text, mode)


def parsed(text: str, suffix: str) -> Json:
    try:
        found: Any = json.loads(text or "{}") if suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError("it holds no settings")
    return cast("Json", found)


def _section(values: Json) -> tuple[str, Json]:
    """The name that the section of servers has in this file, and what is in it."""
    name = next((each for each in SECTIONS if each in values), SECTIONS[0])
    servers: Any = values.get(name, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"its {name} are written as a list; change that by hand")
    return name, dict(cast("Json", servers))


def check(text: str, wanted: Json) -> None:
    try:
        good = tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        good = False
    if not good:
        raise ConfigError("it is written in a way that cannot be changed here without harm; change it by hand")


def names(dotted: str) -> tuple[str, ...]:
    return tuple(next(iter(tomllib.loads(f"{part} = 0"))) for part in re.findall(KEY, dotted))


def _table(path: tuple[str, ...], entry: Mapping[str, Any]) -> str:
    lines = [f"[{'.'.join(map(toml_key, path))}]"]
    lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{ " + ", ".join(f"{toml_key(key)} = {toml_value(each)}" for key, each in pairs) + " }"
    return _text(value)


def _text(value: Any) -> str:
    """Texts, numbers, true, false and lists of them are written alike in JSON and TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
