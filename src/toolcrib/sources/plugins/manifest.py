"""Read and check a plugin's manifest: `plugin.json`, or `manifest.json` of a channel.

An unknown key is recorded as a note. It is not an error, because manifests are written for other hosts too.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from ...core.errors import ToolcribError
from ...core.text import clip
from ...core.tool import ToolCategory
from ..limited_json import json_object
from ..settings import DEFAULT_SECONDS

PLUGIN_FILE, CHANNEL_FILE = "plugin.json", "manifest.json"
MAX_BYTES = 1 << 20
MAX_TOOLS = 100
MAX_SECONDS = 3600.0
MAX_DESCRIPTION = 10_000  # characters
_MAX_VERSION = 64
_MAX_PATH = 500
_MAX_NOTES = 10  # notes about unknown keys

Execution = Literal["command", "binary", "channel"]

PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
# A plugin's command is one program with its arguments. Longer operators come first, because errors name the first
# match.
_FORBIDDEN = ("&&", "||", ";", "`", "|", "$(", "&", ">", "\n", "\r")

_KEYS = {"name", "version", "description", "author", "tools", "execution", "binary", "env", "timeout_secs"}
_TOOL_KEYS = {"name", "description", "parameters", "command", "working_dir", "timeout_secs", "env", "category"}
_BINARY_KEYS = {"path", "protocol", "timeout_secs", "sha256"}


class ManifestError(ToolcribError):
    """The manifest is invalid. The text is one line: the file, the key, the expected value."""


@dataclass(frozen=True, slots=True)
class PluginTool:
    """One tool of a plugin. If `seconds` is None, the limit of the plugin's program applies."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    command: str = ""
    working_dir: str | None = None
    seconds: float | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    category: str = "shell"


@dataclass(frozen=True, slots=True)
class PluginBinary:
    """A plugin's program: a path inside its folder, and the required SHA-256 (lower case), if any."""

    path: str
    seconds: float = DEFAULT_SECONDS
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checked manifest."""

    folder: Path
    name: str
    version: str
    description: str
    execution: Execution
    tools: tuple[PluginTool, ...] = ()
    binary: PluginBinary | None = None
    author: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()


def manifest_file(folder: Path) -> Path | None:
    """Return the manifest file of a folder; None if it is not a plugin."""
    for name in (PLUGIN_FILE, CHANNEL_FILE):
        path = folder / name
        if path.is_file():
            return path
    return None


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest. Raises ManifestError if it is invalid."""
    raw = json_object(path, MAX_BYTES, ManifestError)
    try:
        return _Reader(path).manifest(raw)
    except _Wrong as wrong:
        raise ManifestError(f"{path}: {wrong}") from None


class _Wrong(Exception):
    """An error text without the file name."""


class _Reader:
    """Reads one manifest and notes unknown keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_channel_file = path.name == CHANNEL_FILE
        self._notes: list[str] = []

    def manifest(self, raw: dict[str, Any]) -> Manifest:
        top = self._object(raw, "", _KEYS)
        name = _matching(top, "name", PLUGIN_NAME, "1 to 64 letters, digits and -, the first no -")
        version = _text(top, "version", "version")
        if len(version) > _MAX_VERSION or not version.isprintable():
            raise _Wrong(f"version is {_shown(version)}; it should be one line of at most {_MAX_VERSION} characters")
        description = _description(top, "description")
        execution = self._execution(top)
        binary = None if execution == "command" else self._binary(top, execution)
        if execution != "binary" and execution != "channel" and top.get("binary") is not None:
            self._notes.append("binary is ignored: execution is command")
        tools = self._tools(top, execution)
        author = top.get("author")
        if author is not None and not isinstance(author, str):
            raise _Wrong("author should be text")
        return Manifest(
            self._path.parent, name, version, description, execution, tools, binary, author, _env(top, "env"),
            tuple(self._notes),
        )  # fmt: skip

    def _execution(self, top: Mapping[str, Any]) -> Execution:
        found = top.get("execution", "channel" if self._is_channel_file else "command")
        if found not in ("command", "binary", "channel") or (self._is_channel_file and found != "channel"):
            known = "channel" if self._is_channel_file else "command, binary, channel"
            raise _Wrong(f"execution is {_shown(found)}; it can be {known}")
        return found

    def _tools(self, top: Mapping[str, Any], execution: Execution) -> tuple[PluginTool, ...]:
        given = top.get("tools", [])
        if not isinstance(given, list):
            raise _Wrong("tools should be a list")
        entries = cast("list[Any]", given)
        if execution == "channel":
            if entries:
                raise _Wrong("a channel carries messages and has no tools; give those a plugin of their own")
            return ()
        if not entries:
            raise _Wrong("tools should have at least one tool")
        if len(entries) > MAX_TOOLS:
            raise _Wrong(f"tools has {len(entries)} tools; {MAX_TOOLS} are possible")
        tools = tuple(self._tool(entry, f"tools.{number}", execution) for number, entry in enumerate(entries))
        names = [tool.name for tool in tools]
        for name in names:
            if names.count(name) > 1:
                raise _Wrong(f"tools has {name!r} more than once")
        return tools

    def _tool(self, raw: Any, where: str, execution: Execution) -> PluginTool:
        entry = self._object(raw, where, _TOOL_KEYS)
        name = _matching(entry, "name", _TOOL_NAME, "1 to 64 letters, digits and _, the first a letter", where)
        description = _description(entry, f"{where}.description")
        parameters = entry.get("parameters", {})
        if not isinstance(parameters, Mapping):
            raise _Wrong(f"{where}.parameters should be a JSON Schema")
        category = entry.get("category", "shell")
        if category not in tuple(ToolCategory):
            raise _Wrong(f"{where}.category is {_shown(category)}; it can be {', '.join(ToolCategory)}")
        working_dir = entry.get("working_dir")
        if working_dir is not None and not isinstance(working_dir, str):
            raise _Wrong(f"{where}.working_dir should be text")
        seconds = _seconds(entry, "timeout_secs", where)
        return PluginTool(
            name, description, cast("Mapping[str, Any]", parameters), _command(entry, where, execution), working_dir,
            seconds, _env(entry, f"{where}.env"), str(category),
        )  # fmt: skip

    def _binary(self, top: Mapping[str, Any], execution: Execution) -> PluginBinary:
        given = top.get("binary")
        if isinstance(given, str) and execution == "channel":  # the short form of a channel's manifest
            return PluginBinary(_inside(given, "binary"), _seconds(top, "timeout_secs", "") or DEFAULT_SECONDS)
        if given is None:
            raise _Wrong(f"binary is missing; execution {execution} needs its path")
        entry = self._object(given, "binary", _BINARY_KEYS)
        protocol = entry.get("protocol", "jsonrpc")
        if protocol != "jsonrpc":
            raise _Wrong(f'binary.protocol is {_shown(protocol)}; it can be "jsonrpc"')
        sha256 = entry.get("sha256")
        if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
            raise _Wrong("binary.sha256 should be 64 hexadecimal digits")
        seconds = _seconds(entry, "timeout_secs", "binary") or _seconds(top, "timeout_secs", "") or DEFAULT_SECONDS
        path = _inside(entry.get("path"), "binary.path")
        return PluginBinary(path, seconds, sha256.lower() if isinstance(sha256, str) else None)

    def _object(self, raw: Any, where: str, known: set[str]) -> Mapping[str, Any]:
        if not isinstance(raw, dict):
            raise _Wrong(f"{where or 'it'} should be an object")
        entry = cast("dict[str, Any]", raw)
        unknown = [f"{where}.{key}" if where else key for key in entry if key not in known]
        self._notes += [f"{_plain(key)} is not known" for key in unknown[:_MAX_NOTES]]
        if len(unknown) > _MAX_NOTES:
            self._notes.append(f"{len(unknown) - _MAX_NOTES} more keys of {where or 'it'} are not known")
        return entry


def _command(entry: Mapping[str, Any], where: str, execution: Execution) -> str:
    command = entry.get("command", "")
    if not isinstance(command, str):
        raise _Wrong(f"{where}.command should be text")
    if execution != "command":
        return ""
    if not command.strip():
        raise _Wrong(f"{where}.command is missing")
    for sign in _FORBIDDEN:
        if sign in command:
            raise _Wrong(f"{where}.command has {_shown(sign)}; it can be one program with its arguments")
    try:
        shlex.split(command)
    except ValueError as error:  # an unclosed quotation, or a backslash at the end
        raise _Wrong(f"{where}.command: {str(error)[:1].lower()}{str(error)[1:]}") from None
    return command


def _inside(path: Any, where: str) -> str:
    if not isinstance(path, str) or not path.strip() or not path.isprintable() or len(path) > _MAX_PATH:
        raise _Wrong(f"{where} should be the path of a program")
    plain = PurePosixPath(path)
    if plain.is_absolute() or path[:1] == "~" or ".." in plain.parts or "\\" in path or not plain.parts:
        raise _Wrong(f"{where} is {_shown(path)}; it should be a path inside the plugin's folder, without ..")
    return str(plain)


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(f"{where} is missing" if value in (None, "") else f"{where} should be text")
    return value


def _description(entry: Mapping[str, Any], where: str) -> str:
    text = _text(entry, "description", where)
    if len(text) > MAX_DESCRIPTION:
        raise _Wrong(f"{where} has {len(text):,} characters; {MAX_DESCRIPTION:,} are possible")
    return text


def _matching(entry: Mapping[str, Any], key: str, pattern: re.Pattern[str], rule: str, where: str = "") -> str:
    spelled = f"{where}.{key}" if where else key
    value = _text(entry, key, spelled)
    if not pattern.fullmatch(value):
        raise _Wrong(f"{spelled} is {_shown(value)}; it should have {rule}")
    return value


def _seconds(entry: Mapping[str, Any], key: str, where: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        value = -1
    if not 1 <= value <= MAX_SECONDS:
        spelled = f"{where}.{key}" if where else key
        raise _Wrong(f"{spelled} should be a number of seconds from 1 to {MAX_SECONDS:g}")
    return float(value)


def _env(entry: Mapping[str, Any], where: str) -> dict[str, str]:
    given: Any = entry.get("env") or {}
    if not isinstance(given, dict):
        raise _Wrong(f"{where} should be an object")
    found = cast("dict[str, Any]", given)
    for name, value in found.items():
        if not _VARIABLE.fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise _Wrong(f"{where}.{_plain(name)} should be a variable with a text")
    return found


def _plain(key: str) -> str:
    """Return an untrusted key as one short line."""
    text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in key[:101])
    return clip(text, 100)


def _shown(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__
    return clip(text, 100)
