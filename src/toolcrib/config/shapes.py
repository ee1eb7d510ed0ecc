"""Convert the spellings and shapes that people use to ours: key case, keys of ported files, lists of servers.

Our own keys may be written in snake_case, camelCase or PascalCase. Keys of maps (server names, variables, headers) are
names that a person chose, and are never changed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any, Union, cast, get_args, get_origin

from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.settings import Keys, Section, annotations_of, snake
from ..core.text import one_line
from .settings import Settings

# The place of a setting in the files of Nanobot, ZeptoClaw and NanoBot.Net, and its place here.
MOVED: dict[Keys, Keys] = {
    ("tools", "mcp_servers"): ("mcp_servers",),
    ("mcp", "servers"): ("mcp_servers",),
    ("tools", "custom_tools"): ("custom_tools",),
    ("tools", "web"): ("web",),
    ("tools", "shell"): ("tools", "exec"),
    ("exec",): ("tools", "exec"),
    ("restrict_to_workspace",): ("tools", "exec", "restrict_to_workspace"),
    ("tools", "restrict_to_workspace"): ("tools", "exec", "restrict_to_workspace"),
    ("http_request",): ("tools", "http_request"),
    ("permissions", "allow"): ("rules", "allow"),
    ("permissions", "ask"): ("rules", "ask"),
    ("permissions", "deny"): ("rules", "deny"),
    ("permissions", "default_mode"): ("mode",),
    ("permissions", "additional_directories"): ("sandbox", "write_roots"),
}
# Claude Code's modes. A mode with None allows more, or less, than any of our modes: the text says what to use instead.
MODES: dict[str, tuple[str | None, str]] = {
    "default": ("assistant", ""),
    "manual": ("assistant", ""),
    "acceptEdits": ("assistant", ""),
    "auto": ("assistant", ""),
    "plan": ("observer", ""),
    "dontAsk": ("assistant", ""),
    "bypassPermissions": (None, 'it does not count; say mode = "autonomous" to be asked nothing'),
}
SERVERS = ("mcp_servers",)
SILENT = {"$schema"}
CLOSE = 80  # rapidfuzz ratio above which an unknown key is a typing mistake, and not another program's key


@dataclass(slots=True)
class Shaped:
    """The values of one source in our shape. `spelling` maps our paths to those in the source."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    spelling: dict[Keys, Keys] = field(default_factory=dict[Keys, Keys])
    foreign: list[Keys] = field(default_factory=list[Keys])
    notes: list[str] = field(default_factory=list[str])

    def original(self, path: Keys) -> Keys:
        """Return the path as the source spells it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.spelling:
                return (*self.spelling[path[:length]], *path[length:])
        return path


def shape(raw: Mapping[str, Any]) -> Shaped:
    """Convert parsed values to our shape. Raises ConfigError (key and reason, without the file)."""
    shaped = Shaped()
    _section(raw, Settings, (), (), shaped)
    return shaped


class ShapeError(ConfigError):
    """An error about one key; `spelled` is its path in the source."""

    def __init__(self, spelled: Keys, text: str) -> None:
        super().__init__(one_line(text))
        self.spelled = spelled


def _is_slip(key: str, known: list[str]) -> bool:
    """Return whether a key is a typing mistake: one letter wrong, missing, added or swapped, or a very similar name."""
    from rapidfuzz import fuzz
    from rapidfuzz.distance import OSA

    name = snake(key)[:100]
    return any(fuzz.ratio(name, other) >= CLOSE or OSA.distance(name, other) <= 1 for other in known)


def settings_named(key: str) -> list[str]:
    """Return the settings of sections with this name: one of them may be meant by a key at the top."""
    sections = ((name, *_inner(hint)) for name, hint in annotations_of(Settings).items())
    return [
        f"{name}.{snake(key)}"
        for name, model, of in sections
        if model and not of and snake(key) in annotations_of(model)
    ]


def _section(raw: Mapping[str, Any], model: type[Section], path: Keys, spelled: Keys, out: Shaped) -> None:
    for key, value in raw.items():
        name = snake(key)
        here = (*spelled, key)
        name = model.spellings.get(name, name)
        if (*path, name) in MOVED:
            target = MOVED[*path, name]
            _value(value, annotation_at(target), target, here, out)
        elif name in annotations_of(model):
            if value is None and _is_number(annotations_of(model)[name]):
                continue  # null is the default of a number
            _value(value, annotations_of(model)[name], (*path, name), here, out)
        elif any(moved[: len(path) + 1] == (*path, name) for moved in MOVED):
            _container(value, (*path, name), here, out)
        elif key not in SILENT:
            _unknown(key, model, here, out)


def _container(value: Any, path: Keys, spelled: Keys, out: Shaped) -> None:
    """Convert a section that is not ours but contains settings that are."""
    if not isinstance(value, Mapping):
        out.foreign.append(spelled)
        return
    for key, inner in cast("Mapping[str, Any]", value).items():
        target = MOVED.get((*path, snake(key)))
        if target is None:
            out.foreign.append((*spelled, key))
        elif target == ("mode",):
            _mode(inner, (*spelled, key), out)
        else:
            _value(inner, annotation_at(target), target, (*spelled, key), out)


def _mode(value: Any, spelled: Keys, out: Shaped) -> None:
    """Convert `permissions.defaultMode` to one of our modes."""
    if not isinstance(value, str) or value not in MODES:
        raise ShapeError(spelled, f"{'.'.join(spelled)}: is {value!r}; it can be {', '.join(MODES)}")
    mode, note = MODES[value]
    if note:
        out.notes.append(f"{'.'.join(spelled)} = {value!r}: {note}")
    if mode is not None:
        _put(mode, ("mode",), spelled, out)
    if value == "dontAsk":
        _put(True, ("approval", "never_ask"), spelled, out)


def _rules(value: Any, spelled: Keys, out: Shaped) -> Any:
    """Convert tables that each have a verdict, in `[[rules.table]]` or `[[rules]]`, to the lists of the section."""
    section: dict[str, Any] = {}
    if isinstance(value, Mapping):
        section = dict(cast("Mapping[str, Any]", value))
        key = next((key for key in section if snake(key) == "table"), None)
        if key is None:
            return section
        value, spelled = section[key], (*spelled, key)
        section[key] = []
    if not isinstance(value, list):
        raise ShapeError(spelled, f"{'.'.join(spelled)}: should be a list of tables, each with a verdict")
    found: dict[str, list[Any]] = {}
    places: dict[str, list[Keys]] = {}
    for number, item in enumerate(cast("list[Any]", value)):
        verdict: Any = cast("Mapping[str, Any]", item).get("verdict") if isinstance(item, Mapping) else None
        if verdict not in ("allow", "ask", "deny"):
            where = (*spelled, str(number))
            raise ShapeError(where, f"{'.'.join(where)}: should be a table with verdict allow, ask or deny")
        found.setdefault(verdict, []).append(item)
        places.setdefault(verdict, []).append((*spelled, str(number)))
    for verdict, tables in found.items():
        key = next((key for key in section if snake(key) == verdict), verdict)
        standing = section.get(key, [])
        if not isinstance(standing, list):
            raise ShapeError((*spelled[:-1], key), f"{key}: should be a list of rules")
        begin = len(cast("list[Any]", standing))
        for offset, place in enumerate(places[verdict]):
            out.spelling["rules", verdict, str(begin + offset)] = place
        section[key] = [*cast("list[Any]", standing), *tables]
    return section


def _unknown(key: str, model: type[Section], spelled: Keys, out: Shaped) -> None:
    known = [*annotations_of(model), *model.spellings, *(m[-1] for m in MOVED if len(m) == 1 and model is Settings)]
    if model.foreign is not None and (snake(key) in model.foreign or not _is_slip(key, known)):
        out.foreign.append(spelled)
        return
    from ..core.near import near

    meant = near(key, known)
    hint = f"did you mean {meant[0]!r}?" if meant else f"known here: {', '.join(sorted(annotations_of(model)))}"
    raise ShapeError(spelled, f"{'.'.join(spelled)}: there is no such setting; {hint}")


def _value(value: Any, annotation: Any, path: Keys, spelled: Keys, out: Shaped) -> None:
    if path == SERVERS:
        value = _servers(value, spelled)
    elif path == ("rules",):
        value = _rules(value, spelled, out)
    model, of = _inner(annotation)
    if model is None or (of is None and not isinstance(value, Mapping)):
        _put(value, path, spelled, out)
    elif of is None:
        out.spelling.setdefault(path, spelled)
        _make(path, out)
        _section(cast("Mapping[str, Any]", value), model, path, spelled, out)
    elif of is dict and isinstance(value, Mapping):
        _make(path, out)
        out.spelling.setdefault(path, spelled)
        for key, inner in cast("Mapping[str, Any]", value).items():
            if (*path, key) in out.spelling:
                raise _twice((*path, key), (*spelled, key), out)
            _value(inner, model, (*path, key), (*spelled, key), out)
    elif of is tuple and isinstance(value, list):
        items: list[Any] = []
        for number, inner in enumerate(cast("list[Any]", value)):
            part = Shaped()
            if isinstance(inner, Mapping):
                _section(cast("Mapping[str, Any]", inner), model, (), (*spelled, str(number)), part)
            items.append(part.values if isinstance(inner, Mapping) else inner)
            out.foreign += part.foreign
            for inner_path, inner_spelled in part.spelling.items():
                out.spelling[*path, str(number), *inner_path] = inner_spelled
        _put(items, path, spelled, out)
    else:
        _put(value, path, spelled, out)


def _servers(value: Any, spelled: Keys) -> Any:
    """Convert servers: they may be written as a map or as a list of objects with a name."""
    if not isinstance(value, list):
        return value
    found: dict[str, Any] = {}
    for number, item in enumerate(cast("list[Any]", value)):
        where = (*spelled, str(number))
        if not isinstance(item, Mapping):
            raise ShapeError(where, f"{'.'.join(where)}: should be an object with a name and a command or url")
        entry = dict(cast("Mapping[str, Any]", item))
        name = next((entry.pop(key) for key in list(entry) if snake(key) == "name"), None)
        if not isinstance(name, str) or not name:
            raise ShapeError(where, f"{'.'.join(where)}: a server in a list needs a name")
        if name in found:
            raise ShapeError(where, f"{'.'.join(where)}: there is a server called {name!r} already")
        found[name] = entry
    return found


def _put(value: Any, path: Keys, spelled: Keys, out: Shaped) -> None:
    if path in out.spelling:
        raise _twice(path, spelled, out)
    out.spelling[path] = spelled
    _make(path[:-1], out)[path[-1]] = value


def _twice(path: Keys, spelled: Keys, out: Shaped) -> ShapeError:
    first = ".".join(out.spelling[path])
    return ShapeError(spelled, f"{'.'.join(spelled)}: the same setting is given as {first}; keep one")


def _make(path: Keys, out: Shaped) -> dict[str, Any]:
    place = out.values
    for done, key in enumerate(path, 1):
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):  # a section given first as a plain value, then as an object
            raise _twice(path[:done], path[:done], out)
        place = cast("dict[str, Any]", inner)
    return place


def annotation_at(path: Keys) -> Any:
    """Return the annotation of a setting. Raises KeyError if there is no such setting."""
    found: Any = Settings
    for key in path:
        if not (isinstance(found, type) and issubclass(found, Section)):
            raise KeyError(key)
        found = annotations_of(found)[found.spellings.get(key, key)]
    return found


def _is_number(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and annotation.__origin__ in (int, float)


def holds_list(annotation: Any) -> bool:
    """Return whether values of an annotation are lists."""
    return any(get_origin(kind) is tuple for kind in _kinds(annotation))


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value may have: those of a union, each without its marks."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    if get_origin(annotation) not in (Union, types.UnionType):
        yield annotation
        return
    for each in get_args(annotation):
        yield from _kinds(each)


def _inner(annotation: Any) -> tuple[type[Section] | None, type | None]:
    """Return the section that an annotation contains, and its container, dict or tuple: `dict[str, ServerConfig]` →
    both."""
    for kind in _kinds(annotation):
        origin, args = get_origin(kind), get_args(kind)
        held = args[0 if origin is tuple else -1] if origin in (dict, tuple) else kind
        if isinstance(held, type) and issubclass(held, Section):
            return held, origin
    return None, None
