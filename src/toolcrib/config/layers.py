"""One source of settings at a time: its values in our shape, checked, with the place each one came from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..core.errors import ConfigError
from ..core.text import clip, one_line
from .files import ConfigFile, check_depth
from .hide import is_secret_name
from .model import Invalid, Wrong, from_text
from .sections.base import Section
from .settings import Settings
from .shapes import Shaped, ShapeError, shape, suggestion

PathLike = str | os.PathLike[str]
Keys = tuple[str, ...]

ENV_PREFIX = "TOOLCRIB_"
ENV_OTHER = {"TOOLCRIB_CONFIG", "TOOLCRIB_HTTP_TOKEN", "TOOLCRIB_COMMAND"}
"""No settings: the file to read, the token of `serve --http`, the mark on a command's processes."""


@dataclass(slots=True)
class Layer:
    """One source: its checked values in our shape, only what it sets."""

    name: str
    values: dict[str, Any]
    shaped: Shaped
    file: ConfigFile | None = None
    names: Mapping[Keys, str] = field(default_factory=dict[Keys, str])  # our path → what to call its source

    def origin(self, path: Keys) -> str:
        """Where a value came from, for people."""
        if self.file is not None:
            return self.file.at(self.shaped.original(path))
        return next((self.names[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.names), self.name)


def file_layer(file: ConfigFile) -> Layer:
    return _layer(str(file.path), file.values, file.path.parent, file)


def flag_layer(said: Mapping[str, Any]) -> Layer:
    raw: dict[str, Any] = {}
    names: dict[Keys, str] = {}
    for dotted, value in said.items():
        path = tuple(dotted.split("."))
        _put(raw, path, value)
        names[path] = f"--{path[-1].replace('_', '-')}"
    return _layer("flags", raw, Path.cwd(), None, names)


def env_layer(env: Mapping[str, str]) -> Layer:
    """`TOOLCRIB_SANDBOX__BACKEND=none`: two underscores between the parts; lists by comma or as JSON."""
    raw: dict[str, Any] = {}
    names: dict[Keys, str] = {}
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX) or name in ENV_OTHER or len(name) == len(ENV_PREFIX):
            continue
        path = tuple(name[len(ENV_PREFIX) :].lower().split("__"))
        value = _from_text(env[name], _field(path))
        _put(raw, path, value)
        names[path] = name
    return _layer("the environment", raw, Path.cwd(), None, names)


def _from_text(text: str, annotation: Any) -> Any:
    """What a variable says, as its setting wants it; the text itself where that fails, to be reported later."""
    if annotation is None:
        return text
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return from_text(text, annotation)


def _field(path: Keys) -> Any:
    model: Any = Settings
    annotation: Any = None
    for key in path:
        if not (isinstance(model, type) and issubclass(model, Section)):
            return None
        name = model.spellings.get(key, key)
        if name not in model.model_fields:
            return None
        annotation = model = model.model_fields[name].annotation
    return annotation


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
    base: Path,
    file: ConfigFile | None,
    names: Mapping[Keys, str] | None = None,
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
    checked = check(layer.shaped.values, name, layer.shaped, layer)
    layer.values = _absolute_paths(checked.model_dump(exclude_unset=True), base, name)
    return layer


def check(values: Mapping[str, Any], name: str, shaped: Shaped, layer: Layer | None) -> Settings:
    try:
        return Settings.model_validate(values)
    except Invalid as error:
        lines = [_explain(each, name, shaped, layer) for each in error.wrongs]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def _explain(wrong: Wrong, name: str, shaped: Shaped, layer: Layer | None) -> str:
    path, given = wrong.loc, wrong.given
    spelled = one_line(".".join(shaped.original(path)))
    where = layer.origin(path) if layer else name
    shown = "the value given" if is_secret_name(path[-1] if path else "") else _short(given)
    text = wrong.text
    if wrong.kind == "literal":
        meant = suggestion(given, list(wrong.words)) if isinstance(given, str) else ""
        text = f"is {shown}; it {text}" + (f'; did you mean "{meant}"?' if meant else "")
    elif wrong.kind == "kind":
        text = f"{text}, not {shown}"
    return f"{where}: {spelled}: {text}"


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


def _absolute_paths(values: Any, base: Path, name: str) -> Any:
    if isinstance(values, Path):
        return absolute(values, base, name)
    if isinstance(values, dict):
        return {key: _absolute_paths(inner, base, name) for key, inner in cast("dict[str, Any]", values).items()}
    if isinstance(values, list):
        return [_absolute_paths(inner, base, name) for inner in cast("list[Any]", values)]
    return values


def absolute(path: PathLike, base: Path, name: str) -> Path:
    """`~` expanded, relative paths against the folder of the file that names them (flags: the current one)."""
    text = os.fspath(path)
    if "\0" in text:
        raise ConfigError(f"{name}: a path cannot contain a NUL character")
    return Path(os.path.abspath(base / os.path.expanduser(text)))
