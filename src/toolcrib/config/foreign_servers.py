"""Read the MCP servers in files of other programs: Claude Desktop and Code, Cursor, Windsurf, VS Code, Zed, Gemini CLI,
Codex, opencode, Cline.

Each program has keys of its own for the same things. They are translated. What has no counterpart here is left out with
a warning, and an entry that would not work is left out as a whole: neither takes the other servers away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.settings import annotations_of, snake
from ..core.text import clip, lazy_regex, one_line
from ..sources.mcp.config import ServerConfig, server_config
from .files import ConfigFile

Json = dict[str, Any]

_PLACES = (
    ("mcp_servers",), ("servers",), ("mcp", "servers"), ("tools", "mcp_servers"), ("context_servers",), ("mcp",),
)  # fmt: skip
"""Where the servers are, in snake case."""

_KEYS = {
    "server_url": "url", "http_url": "url", "environment": "env", "http_headers": "headers", "include_tools": "tools",
    "exclude_tools": "disabled_tools", "startup_timeout_sec": "start_timeout", "tool_timeout_sec": "timeout",
}  # fmt: skip
_DROPPED = {
    "trust": "every call is judged as the settings here say",
    "env_file": "name its variables in env",
    "headers_helper": "write the header with ${VAR} or ${secret:NAME}",
    "auth": "log in with `toolcrib mcp login`",
    "oauth": "log in with `toolcrib mcp login`",
}
_SILENT = {"source", "gallery", "version", *(ServerConfig.foreign or ())}
_INPUT = lazy_regex(r"\$\{input:([^{}]*)\}")
_ENVIRONMENT = lazy_regex(r"\$?\{env:([A-Za-z_]\w*)\}")
_FOLDER = lazy_regex(r"\$\{(?:workspaceFolder|workspaceRoot|CLAUDE_PROJECT_DIR)\}")
_FILE = lazy_regex(r"\$?\{file:[^{}]*\}")
_OTHER = lazy_regex(r"\$\{(userHome|pathSeparator|workspaceFolderBasename|command:[^{}]*|config:[^{}]*)\}")
_BARE = lazy_regex(r"\$[A-Za-z_]\w*$")
"""A variable as Gemini CLI writes it. Elsewhere it may be the end of a password."""
MILLISECONDS = 1_000
"""A time limit of so many or more is in milliseconds: nobody lets one call take seventeen minutes without a word."""


@dataclass(frozen=True, slots=True)
class ForeignServers:
    """The usable servers of a file, as entries of `mcp_servers`, and what was left out."""

    entries: Mapping[str, Json]
    warnings: tuple[str, ...]


def foreign_servers(file: ConfigFile) -> ForeignServers:
    """Return the servers that a file names; none if it has no place for them."""
    entries: dict[str, Json] = {}
    warnings: list[str] = []
    place, found = _found(file.values)
    for name, entry in found.items():
        where = f"{file.path}: {place}{name}"
        notes: list[str] = []
        try:
            if not isinstance(entry, Mapping):
                raise ConfigError("should be a table of settings")
            made = _translated(cast("Mapping[str, Any]", entry), notes)
            server_config(name, made)
        except ConfigError as error:
            said = str(error).removeprefix(f"mcp_servers.{name}").removeprefix(": ")
            between = "" if said.startswith(".") else ": "
            warnings.append(one_line(f"an MCP server is not used: {where}{between}{clip(said, 500)}"))
        else:
            entries[name] = made
            warnings += [one_line(f"{where}: {note}") for note in notes]
    return ForeignServers(entries, tuple(warnings))


def _found(values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the place of the servers, as the file spells it, and the entries by name."""
    for place in _PLACES:
        at: Any = values
        shown = ""
        for key in place:
            spelled, at = next(((k, v) for k, v in _items(at) if snake(k) == key), ("", None))
            shown += f"{spelled}."
        if isinstance(at, list):  # a list whose entries have names
            named = [cast("Json", each) for each in cast("list[Any]", at) if isinstance(each, dict)]
            return shown, {str(each.get("name", "")): each for each in named}
        if isinstance(at, Mapping) and (place != ("mcp",) or any(isinstance(v, Mapping) for _, v in _items(at))):
            return shown, dict(_items(at))
    entries = dict(_items(values))
    is_map = entries and all(isinstance(each, Mapping) and _starts(each) for each in entries.values())
    return "", entries if is_map else {}


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(cast("Mapping[str, Any]", value).items()) if isinstance(value, Mapping) else []


def _starts(entry: Any) -> bool:
    return bool({snake(key) for key, _ in _items(entry)} & {"command", "url", "server_url", "http_url"})


def _translated(entry: Mapping[str, Any], notes: list[str]) -> Json:
    """Return an entry with our own keys. Raises ConfigError if it needs something that there is not here."""
    given = {snake(key): value for key, value in entry.items() if value is not None}
    if isinstance(given.get("command"), Mapping):  # Zed's older form
        inner = {snake(key): value for key, value in _items(given.pop("command"))}
        given |= {"command" if key == "path" else key: value for key, value in inner.items()}
    made: Json = {}
    for key, value in sorted(given.items(), key=lambda item: item[0] == "type"):
        _take(key, value, made, notes)
    return cast("Json", _without_variables(made))


def _take(key: str, value: Any, made: Json, notes: list[str]) -> None:
    if key == "enabled":
        if value is False:
            made["disabled"] = True
    elif key == "bearer_token_env_var":
        _add_headers(made, {"Authorization": f"Bearer ${{{value}}}"})
    elif key == "env_http_headers":
        _add_headers(made, {name: f"${{{variable}}}" for name, variable in _items(value)})
    elif key == "startup_timeout_ms":
        made["start_timeout"] = value / 1_000 if isinstance(value, int | float) else value
    elif key == "type" and value in ("local", "remote"):  # opencode's: the other keys say the same
        if isinstance(command := made.get("command"), list) and command:
            made["command"], *made["args"] = cast("list[Any]", command)
    elif key in _DROPPED:
        notes.append(f"{key} is left out; {_DROPPED[key]}")
    elif key in _SILENT:
        pass
    elif (ours := _KEYS.get(key, key)) not in _KNOWN:
        notes.append(f"{key} is not known here, and left out")
    else:
        if ours in ("timeout", "tool_timeout") and isinstance(value, int | float) and value >= MILLISECONDS:
            value = value / 1_000
            notes.append(f"its {key} is taken as milliseconds: {value:g} s")
        if ours == "headers":
            _add_headers(made, value)
        else:
            made[ours] = value
        for name, given in _items(value) if ours in ("env", "headers") else ():
            if isinstance(given, str) and _BARE.search(given):
                notes.append(f"{ours}.{name} is taken as it is written; a variable is written ${{NAME}}")


def _add_headers(made: Json, more: Any) -> None:
    if not isinstance(more, Mapping):
        raise ConfigError("headers: should be a table of texts")
    made["headers"] = {**made.get("headers", {}), **cast("Mapping[str, Any]", more)}


_KNOWN = frozenset({*annotations_of(ServerConfig), *ServerConfig.spellings})


def _without_variables(value: Any) -> Any:
    """Return the value with variables as they are written here. Raises ConfigError for those that there are not."""
    if isinstance(value, str):
        for pattern, why in (
            (_INPUT, "set an environment variable, and write ${{{0}}}"),
            (_FILE, "use ${{secret:NAME}} with secrets.NAME.file"),
            (_OTHER, "write what it stands for"),
        ):
            if found := pattern.search(value):
                raise ConfigError(f"{found[0]} is not known here; {why.format(*found.groups())}")
        return _ENVIRONMENT.sub(r"${\1}", _FOLDER.sub(".", value))
    if isinstance(value, list):
        return [_without_variables(each) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {key: _without_variables(each) for key, each in _items(value)}
    return value
