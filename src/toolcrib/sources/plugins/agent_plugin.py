"""Agent Plugins 1.0 (agent-plugins.org): a root `plugin.json` with that `$schema`, `skills/` and `mcp.json`.

Its skills are texts for the agent, its servers MCP servers in our sandbox. Neither counts before a person has trusted
the text (`toolcrib trust`); who reads this checks that. A bad `mcp.json` takes only the servers down, a bad server only
itself.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ...boundary.own_files import read_regular
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.homes import data_home
from ...core.text import clip, lazy_regex
from ...policy.plain import plain_line
from ..limited_json import json_object, parsed_object
from ..mcp.config import ServerConfig, server_config
from .manifest import MAX_BYTES, ManifestError

SITE = "https://agent-plugins.org/schemas/"
PLUGIN_SCHEMA = lazy_regex(re.escape(SITE) + r"(1\.[0-9]+\.[0-9]+)/plugin\.schema\.json")
MCP_FILE, SKILLS = "mcp.json", "skills"
MAX_SERVERS = 50
_NAME = lazy_regex(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_MAX_NAME = 64
_KNOWN = frozenset({
    "$schema", "name", "version", "description", "author", "homepage", "repository", "license", "keywords",
    "extensions",
})  # fmt: skip
_TYPES: Mapping[str, tuple[str, frozenset[str]]] = {
    "stdio": ("command", frozenset({"type", "command", "args", "env", "cwd"})),
    "streamable-http": ("url", frozenset({"type", "url", "headers"})),
    "sse": ("url", frozenset({"type", "url", "headers"})),
}
_VARIABLE = lazy_regex(r"\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class McpText:
    """The `mcp.json` of a plugin as it was read, and the servers in it, by name."""

    path: Path
    text: str
    digest: str
    servers: Mapping[str, ServerConfig]


@dataclass(frozen=True, slots=True)
class AgentPlugin:
    """A checked Agent Plugin. `notes` say what in it is not used, and why."""

    folder: Path
    name: str
    version: str
    description: str
    mcp: McpText | None = None
    notes: tuple[str, ...] = ()

    @property
    def skills(self) -> Path:
        """The folder of its skills, which may be absent."""
        return self.folder / SKILLS


def is_agent_plugin(path: Path) -> bool:
    """Return whether a manifest is one of an Agent Plugin, and not our own: its `$schema` says so."""
    if path.name != "plugin.json":
        return False
    try:
        given = json_object(path, MAX_BYTES, ManifestError).get("$schema")
    except ManifestError:  # `read_manifest` says what is wrong
        return False
    return isinstance(given, str) and given.startswith(SITE)


def read_agent_plugin(path: Path) -> AgentPlugin:
    """Read and check an Agent Plugin by its manifest. Raises ManifestError if it is invalid."""
    raw = json_object(path, MAX_BYTES, ManifestError)
    schema = PLUGIN_SCHEMA.fullmatch(str(raw.get("$schema")))
    if schema is None:
        raise ManifestError(f"{path}: $schema {_shown(raw.get('$schema'))} is not version 1 of Agent Plugins")
    name = raw.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ManifestError(f"{path}: name should be lower-case letters and digits, joined by - or ., at most 64")
    for key in ("version", "description"):
        if not isinstance(raw.get(key, ""), str):
            raise ManifestError(f"{path}: {key} should be text")
    notes = [f"{_shown(key)} is not known" for key in sorted(raw.keys() - _KNOWN)[:10]]
    mcp: McpText | None = None
    try:
        mcp = _read_mcp(path.parent, name, schema[1], notes)
    except ManifestError as error:
        notes.append(f"its MCP servers are not used: {error}")
    about = plain_line(clip(raw.get("description", ""), 1_000))
    return AgentPlugin(path.parent, name, plain_line(raw.get("version", ""))[:64], about, mcp, tuple(notes))


def _read_mcp(folder: Path, plugin: str, version: str, notes: list[str]) -> McpText | None:
    path = folder / MCP_FILE
    if not os.path.lexists(path):
        return None
    try:
        data = None if path.is_symlink() else read_regular(path, MAX_BYTES)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror or error}") from None
    if data is None:
        raise ManifestError(f"{path}: is not a regular file")
    raw = parsed_object(data, path, MAX_BYTES, ManifestError)
    if raw.get("$schema") != f"{SITE}{version}/mcp.schema.json":
        raise ManifestError(f"{path}: $schema should be {SITE}{version}/mcp.schema.json, as that of plugin.json")
    given = raw.get("mcpServers")
    if not isinstance(given, dict):
        raise ManifestError(f"{path}: mcpServers should be an object")
    servers: dict[str, ServerConfig] = {}
    for key, entry in list(cast("dict[str, Any]", given).items())[:MAX_SERVERS]:
        try:
            made = _server(folder, plugin, key, entry)
            servers[made.name] = made
        except (ConfigError, ManifestError, ValueError) as error:
            notes.append(f"server {_shown(key)} is not used: {plain_line(clip(str(error), 300))}")
    return McpText(path, data.decode("utf-8", "replace"), hashlib.sha256(data).hexdigest(), servers)


def _server(folder: Path, plugin: str, key: str, entry: Any) -> ServerConfig:
    """Return the settings of a server: a local one runs in the sandbox, reads the plugin's folder, and writes its data.

    Raises ManifestError or ConfigError if it is invalid.
    """
    if not isinstance(entry, dict):
        raise ManifestError("it should be an object")
    given = cast("dict[str, Any]", entry)
    needed, known = _TYPES.get(str(given.get("type")), ("", frozenset[str]()))
    if not needed:
        raise ManifestError(f"its type should be one of {', '.join(_TYPES)}")
    if given.keys() - known or not given.get(needed):
        unknown = ", ".join(map(_shown, sorted(given.keys() - known))) or "nothing else"
        raise ManifestError(f"a server of type {given['type']} needs {needed}; not known here: {unknown}")
    data = data_home() / "plugin-data" / plugin
    values = {"PLUGIN_ROOT": str(folder), "PLUGIN_DATA": str(data)}
    filled = {name: _filled(value, values) for name, value in given.items() if name != "type"}
    name = clip(key if key == plugin else f"{plugin}-{key}", 100)
    if needed == "url":
        return server_config(name, {**filled, "transport": "sse" if given["type"] == "sse" else "http"})
    filled["cwd"] = str(folder / str(filled.get("cwd") or ""))
    filled["env"] = {**(filled.get("env") or {}), **values}
    return server_config(name, {**filled, "sandbox": "workspace-write", "read": [str(folder)]}).writing(data)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Return the value with the variables of plugins replaced in all its texts. Raises ManifestError for others."""
    if isinstance(value, str):
        unknown = [name for name in _VARIABLE.findall(value) if name not in values]
        if unknown:
            raise ManifestError(f"it uses ${{{_shown(unknown[0])}}}; there are {' and '.join(values)}")
        return _VARIABLE.sub(lambda found: values[found[1]], value)
    if isinstance(value, list):
        return [_filled(each, values) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in cast("dict[str, Any]", value).items()}
    return value


def _shown(value: Any) -> str:
    return plain_line(clip(str(value), 100))
