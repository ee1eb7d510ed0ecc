"""Read and check a plugin's manifest: `plugin.json`, or `manifest.json` of a channel.

An unknown key is recorded as a note. It is not an error, because manifests are written for other hosts too.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, cast

from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from ...core.settings import Bounds, Converted, ErrorText, Json, NotASetting, Section, annotations_of, check
from ...core.text import clip, lazy_regex
from ...core.tool import ToolCategory
from ..limited_json import json_object
from ..settings import DEFAULT_SECONDS

PLUGIN_FILE, CHANNEL_FILE = "plugin.json", "manifest.json"
MAX_BYTES = 1 << 20
MAX_TOOLS = 100
_MAX_PATH = 500
_MAX_NOTES = 10  # notes about unknown keys
PLUGIN_NAME = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
# A plugin's command is one program with its arguments. Longer operators come first, because errors name the first
# match.
_FORBIDDEN = ("&&", "||", ";", "`", "|", "$(", "&", ">", "\n", "\r")


class ManifestError(ToolcribError):
    """The manifest is invalid. The text is one line: the file, the key, the expected value."""


def _inside(path: str) -> str:
    if not path.strip() or not path.isprintable() or len(path) > _MAX_PATH:
        raise ValueError("should be the path of a program")
    plain = PurePosixPath(path)
    if plain.is_absolute() or path[:1] == "~" or ".." in plain.parts or "\\" in path or not plain.parts:
        raise ValueError(f"is {_shown(path)}; it should be a path inside the plugin's folder, without ..")
    return str(plain)


_PluginName = Annotated[
    str,
    Bounds(pattern=f"^{PLUGIN_NAME.pattern}$"),
    ErrorText("should have 1 to 64 letters, digits and -, the first no -"),
]
_ToolName = Annotated[
    str,
    Bounds(pattern="^[A-Za-z][A-Za-z0-9_]{0,63}$"),
    ErrorText("should have 1 to 64 letters, digits and _, the first a letter"),
]
_Description = Annotated[
    str, Bounds(min_length=1, max_length=10_000), ErrorText("should be a text of 1 to 10,000 characters")
]
_Version = Annotated[
    str, Bounds(pattern=r"^[ [^\p{C}\p{Z}]]{1,64}$"), ErrorText("should be one line of at most 64 characters")
]
_Seconds = Annotated[float, Bounds(ge=1, le=3600), ErrorText("should be a number of seconds from 1 to 3600")]
_Variable = Annotated[
    str, Bounds(pattern="^[A-Za-z_][A-Za-z0-9_]{0,99}$"), ErrorText("should be the name of a variable")
]
_Value = Annotated[str, Bounds(pattern=r"^[^\x00]*$"), ErrorText("should be a text")]
_Env = dict[_Variable, _Value]
_Hash = Annotated[str, Bounds(pattern="^[0-9A-Fa-f]{64}$", to_lower=True), ErrorText("should be 64 hexadecimal digits")]


class _Part(Section):
    """A part of a manifest."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "ignore"}


@dataclass(frozen=True, slots=True)
class PluginTool(_Part):
    """One tool of a plugin. If `timeout_secs` is None, the limit of the plugin's program applies."""

    name: _ToolName
    description: _Description
    parameters: Annotated[Json, ErrorText("should be a JSON Schema")] = field(default_factory=Json)
    command: str = ""
    working_dir: str | None = None
    timeout_secs: _Seconds | None = None
    env: _Env | None = None
    category: Annotated[ToolCategory, ErrorText(f"can be {', '.join(ToolCategory)}")] = ToolCategory.SHELL


@dataclass(frozen=True, slots=True)
class PluginBinary(_Part):
    """A plugin's program: a path inside its folder, and the required SHA-256 (lower case), if any."""

    path: Annotated[str, Converted(_inside)]
    protocol: Literal["jsonrpc"] = "jsonrpc"
    timeout_secs: _Seconds | None = None
    sha256: _Hash | None = None


@dataclass(frozen=True, slots=True)
class Manifest(_Part):
    """A checked manifest."""

    folder: Annotated[Path, NotASetting()]
    name: _PluginName
    version: _Version
    description: _Description
    execution: Annotated[Literal["command", "binary", "channel"], ErrorText("can be command, binary, channel")] = (
        "command"
    )
    tools: tuple[PluginTool, ...] = ()
    binary: PluginBinary | None = None
    timeout_secs: _Seconds | None = None
    author: str | None = None
    env: _Env | None = None
    notes: Annotated[tuple[str, ...], NotASetting()] = ()

    @property
    def seconds(self) -> float:
        """The time limit of its program."""
        return (self.binary and self.binary.timeout_secs) or self.timeout_secs or DEFAULT_SECONDS


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
    given = {**raw, "folder": path.parent, "notes": ()}
    if path.name == CHANNEL_FILE and given.setdefault("execution", "channel") != "channel":
        raise ManifestError(f"{path}: execution is {_shown(raw['execution'])}; it can be channel")
    if given.get("execution", "command") == "command":  # it has no program, so these say nothing
        given |= {"binary": None, "timeout_secs": None}
    elif isinstance(given.get("binary"), str):  # the short form
        given["binary"] = {"path": given["binary"]}
    manifest, violations = check(Manifest, given, ())
    for each in violations:
        place = ".".join(map(_plain, each.path))
        said = f"is {_shown(each.given)}; it {each.text}" if each.shows_value else each.text
        raise ManifestError(f"{path}: {place} {said}")
    for problem in _problems(manifest):
        raise ManifestError(f"{path}: {problem}")
    return replace(manifest, notes=tuple(_notes(raw, manifest)))


def _problems(manifest: Manifest) -> Iterator[str]:
    """Yield what is wrong between the keys of a manifest."""
    if manifest.execution != "command" and manifest.binary is None:
        yield f"binary is missing; execution {manifest.execution} needs its path"
    names = [tool.name for tool in manifest.tools]
    if manifest.execution == "channel":
        if names:
            yield "a channel carries messages and has no tools; give those a plugin of their own"
    elif not names:
        yield "tools should have at least one tool"
    if len(names) > MAX_TOOLS:
        yield f"tools has {len(names)} tools; {MAX_TOOLS} are possible"
    yield from (f"tools has {name!r} more than once" for name in names if names.count(name) > 1)
    for number, tool in enumerate(manifest.tools if manifest.execution == "command" else ()):
        problem = _command_problem(tool.command)
        if problem:
            yield f"tools.{number}.command{problem}"


def _command_problem(command: str) -> str:
    if not command.strip():
        return " is missing"
    for sign in _FORBIDDEN:
        if sign in command:
            return f" has {_shown(sign)}; it can be one program with its arguments"
    try:
        shlex.split(command)
    except ValueError as error:  # an unclosed quotation, or a backslash at the end
        return f": {str(error)[:1].lower()}{str(error)[1:]}"
    return ""


def _notes(raw: dict[str, Any], manifest: Manifest) -> Iterator[str]:
    if manifest.execution == "command" and raw.get("binary") is not None:
        yield "binary is ignored: execution is command"
    yield from _unknown_keys(raw, Manifest)
    for number, tool in enumerate(raw.get("tools", ())):
        yield from _unknown_keys(tool, PluginTool, f"tools.{number}")
    if manifest.binary is not None:
        yield from _unknown_keys(raw["binary"], PluginBinary, "binary")


def _unknown_keys(given: Any, model: type[Section], where: str = "") -> Iterator[str]:
    unknown = [key for key in cast("Mapping[str, Any]", given) if key not in annotations_of(model)]
    for key in unknown[:_MAX_NOTES]:
        yield f"{_plain(f'{where}.{key}' if where else key)} is not known"
    if len(unknown) > _MAX_NOTES:
        yield f"{len(unknown) - _MAX_NOTES} more keys of {where or 'it'} are not known"


def _plain(key: str) -> str:
    """Return an untrusted key as one short line."""
    text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in key[:101])
    return clip(text, 100)


def _shown(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__
    return clip(text, 100)
