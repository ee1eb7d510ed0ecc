"""Read one source of settings at a time: convert its values to our shape, check them, and remember where each came
from."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.settings import Keys, WrongValue, annotations_of, check
from ..core.text import clip, one_line
from .files import ConfigFile, check_depth
from .hide import is_secret_name
from .settings import Settings
from .shapes import Shaped, ShapeError, annotation_at, holds_list, shape

ENV_PREFIX = "TOOLCRIB_"
ENV_OTHER = {
    "TOOLCRIB_CONFIG", "TOOLCRIB_HTTP_TOKEN", "TOOLCRIB_COMMAND", "TOOLCRIB_HOOKD",
    "TOOLCRIB_BEHIND", "TOOLCRIB_PLUGIN_DIR", "TOOLCRIB_CHANNEL_LISTEN", "TOOLCRIB_CHANNEL_ALLOWED",
}  # fmt: skip
"""Variables that are not settings: the file to read, the token of `serve --http`, the mark on a command's processes,
whether hooks start `toolcrib hookd`; and what we set for our own MCP servers, plugins and channels."""


@dataclass(slots=True)
class Layer:
    """One source of settings. `values` are its top-level settings, checked; `shaped` says which parts it set."""

    name: str
    values: dict[str, Any]
    shaped: Shaped
    file: ConfigFile | None = None
    names: Mapping[Keys, str] = field(default_factory=dict[Keys, str])  # our path → the name of its source

    def origin(self, path: Keys) -> str:
        """Return where a value came from, as text for people."""
        if self.file is not None:
            return self.file.at(self.shaped.original(path))
        return next((self.names[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.names), self.name)


def file_layer(file: ConfigFile) -> Layer:
    return _layer(str(file.path), file.values, file)


def flag_layer(said: Mapping[str, Any], dashes: str = "--") -> Layer:
    """Return the layer of a command line's options; `dashes` is "" for the arguments of a program."""
    raw: dict[str, Any] = {}
    names: dict[Keys, str] = {}
    for dotted, value in said.items():
        path = tuple(dotted.split("."))
        _put(raw, path, value)
        word = "db" if dotted == "record.url" else path[-1]  # the one option that has another name than its setting
        names[path] = f"{dashes}{word.replace('_', '-')}"
    return _layer("flags", raw, names=names)


def code_layer(values: Mapping[str, Any]) -> Layer:
    """Return the layer of values that a program gives, in any shape that a file may have."""
    return _layer("settings", values)


def env_layer(env: Mapping[str, str]) -> Layer:
    """Return the layer of the environment: `TOOLCRIB_SANDBOX__BACKEND=none`. Two underscores separate the parts of a
    key; lists are separated by commas or written as JSON. Raises ConfigError where one underscore separates them."""
    raw: dict[str, Any] = {}
    names: dict[Keys, str] = {}
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX) or name in ENV_OTHER or len(name) == len(ENV_PREFIX):
            continue
        path = tuple(name[len(ENV_PREFIX) :].lower().split("__"))
        if not _is_setting(path[:1]) and (meant := _meant(path)):
            raise ConfigError(f"{name}: there is no such setting; did you mean {ENV_PREFIX}{'__'.join(meant).upper()}?")
        _put(raw, path, _parsed(env[name], path))
        names[path] = name
    return _layer("the environment", raw, names=names, from_text=True)


def _is_setting(path: Keys) -> bool:
    try:
        annotation_at(path)
    except KeyError:
        return False
    return True


def _meant(path: Keys) -> Keys | None:
    """Return the setting whose parts are these words, if they are separated in another way."""
    words = "_".join(path).split("_")[:10]
    ways = itertools.product(("_", "__"), repeat=len(words) - 1)
    said = ("".join(map("".join, zip(words, (*way, ""), strict=True))) for way in ways)
    return next((each for text in said if _is_setting(each := tuple(text.split("__")))), None)


def _parsed(text: str, path: Keys) -> Any:
    """Return the list or table that a variable contains. Any other text is returned as it is; the check converts it."""
    try:
        annotation = annotation_at(tuple(path))
    except KeyError:
        return text
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    if holds_list(annotation):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text.strip()


def _put(raw: dict[str, Any], path: Keys, value: Any) -> None:
    for key in path[:-1]:
        inner = raw.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(path)}: {key} is given as a single value, too; keep one")
        raw = cast("dict[str, Any]", inner)
    if path[-1] in raw and isinstance(raw[path[-1]], dict):
        raise ConfigError(f"{'.'.join(path)}: is given in parts, too; keep one")
    raw[path[-1]] = value


def _layer(
    name: str,
    raw: Mapping[str, Any],
    file: ConfigFile | None = None,
    *,
    names: Mapping[Keys, str] | None = None,
    from_text: bool = False,
) -> Layer:
    check_depth(raw, name)
    layer = Layer(name, {}, Shaped(), file, names or {})
    try:
        layer.shaped = shape(raw)
    except ShapeError as error:
        where = file.at(error.spelled) if file else layer.origin(error.spelled)
        raise ConfigError(f"{where}: {error}") from None
    if name == "flags" and layer.shaped.foreign:
        raise ConfigError(f"{'.'.join(layer.shaped.foreign[0])}: there is no such setting")
    folder = file.path.parent if file else Path.cwd()
    violations: list[WrongValue] = []
    for key, value in layer.shaped.values.items():
        layer.values[key], found = check(annotations_of(Settings)[key], value, (key,), folder, from_text=from_text)
        violations += found
    if violations:
        raise ConfigError("\n".join(dict.fromkeys(_explain(each, layer) for each in violations)))
    return layer


def _explain(violation: WrongValue, layer: Layer) -> str:
    """Return one line for a person: where the mistake is, which setting, what is wrong, and which values are
    allowed."""
    path, given, text = violation.path, violation.given, violation.text
    shown = "the value given" if is_secret_name(path[-1]) else _short(given)
    if violation.words:
        from ..core.near import near

        meant = near(given, violation.words) if isinstance(given, str) else []
        text = f"is {shown}; it {text}" + (f'; did you mean "{meant[0]}"?' if meant else "")
    elif violation.shows_value:
        text = f"{text}, not {shown}"
    if layer.name == "flags":
        return f"{layer.origin(path)} {text}"
    return f"{layer.origin(path)}: {one_line('.'.join(layer.shaped.original(path)))}: {text}"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return clip(text, 80)
