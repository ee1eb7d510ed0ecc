"""Join layers into one result: a trusted layer replaces values, an untrusted one can only tighten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from ..core.settings import Keys, Section, annotations_of
from ..core.tightening import Tightening
from .layers import Layer, code_layer
from .settings import Ignored, Settings

ADDING = frozenset({"rules", "hooks"})
"""Sections whose lists grow from layer to layer: a later layer cannot remove a refusal."""


class Merged:
    """Settings that are built layer by layer, starting with the defaults."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.sources: dict[str, str] = {}
        self.ignored: list[Ignored] = []

    def add(self, layer: Layer) -> None:
        """Add a trusted layer: its values replace those of earlier layers; rules are added, servers and tools merge by
        name."""
        for path, value, _ in _leaves(layer.shaped.values, layer.values):
            current: Any = _get(self.settings, path)
            joined = value
            if path[0] in ADDING:
                joined = (*current, *(item for item in value if item not in current))
            elif path == ("custom_tools",):
                names = {tool.name for tool in value}
                joined = (*(tool for tool in current if tool.name not in names), *value)
            self._set(path, joined, layer, joined=path[0] in ADDING)

    def tighten(self, layer: Layer) -> None:
        """Add an untrusted layer: each value through the tightening rule of its setting; a value without a rule is
        ignored."""
        for path, value, given in _leaves(layer.shaped.values, layer.values):
            current = _get(self.settings, path)
            rule = _rule(self.settings, path)
            joined, whole = rule(current, value) if rule else (current, value == current)
            if joined != current:
                self._set(path, joined, layer, joined=isinstance(joined, tuple))
            if not whole:
                file = layer.file.path if layer.file is not None else None
                self.ignored += [replace(each, file=file) for each in _ignored(path, value, given)]

    def _set(self, path: Keys, value: Any, layer: Layer, *, joined: bool) -> None:
        self.settings = _with(self.settings, path, value)
        dotted, origin = ".".join(path), layer.origin(path)
        before = self.sources.get(dotted)
        self.sources[dotted] = f"{before}, {origin}" if joined and before else origin


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Return settings from these values and the defaults. Raises ConfigError if a value is wrong."""
    result = Merged()
    result.add(code_layer(values))
    return result.settings


def _leaves(given: Mapping[str, Any], made: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any, Any]]:
    """Yield every setting: its path, its value, and the value as given. Maps are yielded entry by entry."""
    for key, said in given.items():
        value: Any = _get(made, (key,))
        if isinstance(value, Section):
            yield from _leaves(said, value, (*path, key))
        elif isinstance(value, dict):
            for name, entry in cast("dict[str, Any]", value).items():
                yield (*path, key, name), entry, said[name]
        else:
            yield (*path, key), value, said


def _get(settings: Any, path: Keys) -> Any:
    for key in path:
        settings = cast("dict[str, Any]", settings).get(key) if isinstance(settings, dict) else getattr(settings, key)
    return settings


def _with(settings: Any, path: Keys, value: Any) -> Any:
    """Return the same settings with one value changed."""
    key, *rest = path
    if rest:
        value = _with(_get(settings, (key,)), tuple(rest), value)
    if isinstance(settings, dict):
        return {**cast("dict[str, Any]", settings), key: value}
    return replace(settings, **{key: value})


def _rule(settings: Settings, path: Keys) -> Tightening | None:
    """Return how an untrusted file may change a setting; None if it may not."""
    section = _get(settings, path[:-1])
    if not isinstance(section, Section):  # an entry of a map: a server, a secret
        return None
    marks = getattr(annotations_of(type(section))[path[-1]], "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Tightening)), None)


def _ignored(path: Keys, value: Any, given: Any) -> list[Ignored]:
    dotted = ".".join(path)
    if path == ("custom_tools",):
        return [Ignored(f"{dotted}.{tool['name']}", tool) for tool in given]
    if isinstance(value, tuple):
        value = list(cast("tuple[Any, ...]", value))
    of_sections = isinstance(value, Section) or path == ("hooks",)
    return [Ignored(dotted, given if of_sections else value)]
