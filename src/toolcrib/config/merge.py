"""Layers joined into one result: a trusted one replaces, an untrusted one can only tighten."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..core.text import one_line
from .hide import hidden
from .layers import Keys, Layer
from .sections.base import Section
from .settings import Settings

ADDING = frozenset({"rules", "hooks"})
"""Sections whose lists grow from layer to layer: a later one cannot take a refusal back."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting of an untrusted file that did not count, or not in full: its dotted key and what was proposed."""

    key: str
    value: Any

    def __str__(self) -> str:
        return one_line(self._described())

    def _described(self) -> str:
        shown: Any = hidden(self.value, self.key.rsplit(".", 1)[-1])
        if isinstance(shown, Mapping):
            entry = cast("Mapping[str, Any]", shown)
            args = cast("list[Any]", entry.get("args") or [])
            runs: list[str] = [str(entry["command"]), *map(str, args)] if "command" in entry else []
            if runs:
                return f"{self.key} (runs `{' '.join(runs)}`)"
            if "url" in entry:
                return f"{self.key} ({entry['url']})"
            shown = entry
        text = ", ".join(map(str, cast("list[Any]", shown))) if isinstance(shown, list) else str(shown)
        return f"{self.key} = {text if len(text) <= 200 else text[:200] + '…'}"


class Merged:
    """Full values, growing layer by layer."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.sources: dict[str, str] = {}
        self.ignored: list[Ignored] = []

    def add(self, layer: Layer) -> None:
        """A trusted layer: what it sets replaces what stands; rules add up, servers and tools go by name."""
        for path, value, _ in _leaves(layer.values, Settings):
            place, key = self._place(path)
            standing: list[Any] = place.get(key) or []
            joined = value
            if path[0] in ADDING:
                joined = [*standing, *(item for item in value if item not in standing)]
            elif path == ("custom_tools",):
                names = {tool["name"] for tool in value}
                joined = [*(tool for tool in standing if tool["name"] not in names), *value]
            self._set(path, copy.deepcopy(joined), layer, joined=path[0] in ADDING)

    def tighten(self, layer: Layer) -> None:
        """An untrusted layer: each value through its rule; one without a rule does not count."""
        for path, value, rule in _leaves(layer.values, Settings):
            place, key = self._place(path)
            standing = place.get(key)
            if rule is None:
                joined, whole = standing, value == standing
            else:
                joined, whole = rule(standing, value)
            if joined != standing:
                self._set(path, joined, layer, joined=isinstance(joined, list))
            if not whole:
                self.ignored += _ignored(path, value)

    def _place(self, path: Keys) -> tuple[dict[str, Any], str]:
        place = self.values
        for key in path[:-1]:
            place = place.setdefault(key, {})
        return place, path[-1]

    def _set(self, path: Keys, value: Any, layer: Layer, *, joined: bool) -> None:
        place, key = self._place(path)
        place[key] = value
        dotted, origin = ".".join(path), layer.origin(path)
        before = self.sources.get(dotted)
        self.sources[dotted] = f"{before}, {origin}" if joined and before else origin


def _leaves(values: Mapping[str, Any], model: type[Section], path: Keys = ()) -> Iterator[tuple[Keys, Any, Any]]:
    """Every setting that a layer sets: path, value, and its rule for untrusted files. Maps go entry by entry."""
    for key, value in values.items():
        field_ = model.model_fields[key]
        inner = field_.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _leaves(value, inner, (*path, key))
        elif isinstance(value, dict):  # servers, channels …: none of them may come from an untrusted file
            for name, entry in cast("dict[str, Any]", value).items():
                yield (*path, key, name), entry, None
        else:
            rule = next((m for m in field_.metadata if type(m).__module__ == "toolcrib.config.tighten"), None)
            yield (*path, key), value, rule


def _ignored(path: Keys, value: Any) -> list[Ignored]:
    dotted = ".".join(path)
    if path == ("custom_tools",):
        return [Ignored(f"{dotted}.{tool['name']}", tool) for tool in value]
    return [Ignored(dotted, value)]
