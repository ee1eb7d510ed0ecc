"""What are the built-in tools, without loading them? Read from `catalogue.json`, which a test holds to the tools.

For listings only: what stands for a tool here says what it is and cannot be called. Loading the tools themselves, and
building their schemas, takes half a second of CPU.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..core.tool import Tool, ToolCategory
from .hidden_words import search_description

if TYPE_CHECKING:
    from ..core.exposure import Exposure

Json = dict[str, Any]

FILE = os.path.join(os.path.dirname(__file__), "catalogue.json")
TOLD = (
    "title", "read_only", "destructive", "idempotent", "open_world", "timeout", "sequential", "exclusive", "max_output",
    "output_schema", "compact_description", "strict", "poll", "leads", "command_argument",
)  # fmt: skip
"""Attributes that are kept where they are not a tool's usual ones, beside those that `describe` names."""


def describe(tool: Tool) -> Json:
    """What is kept of a tool."""
    paths: Any = tool.paths
    more: Json = {name: getattr(tool, name) for name in TOLD if getattr(tool, name) != getattr(Tool, name)}
    more |= {"names": list(tool.names)} if tool.names else {}
    more |= {"aliases": dict(tool.aliases)} if tool.aliases else {}
    more |= {"paths": True if callable(paths) else dict(paths)} if paths else {}
    more |= {"judged": True} if tool.judge is not None else {}
    return {"name": tool.name, "category": str(tool.category), "description": tool.description, **more} | {
        "schema": tool.schema
    }


class Noted(Tool):
    """Stands for a tool in a listing."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self.name, self.description = kept["name"], kept["description"]
        self.category, self.categorized = ToolCategory(kept["category"]), True
        self.names = tuple(kept.get("names", ()))
        self.aliases = kept.get("aliases", {})
        paths = kept.get("paths", {})
        self.paths = _unknown if paths is True else paths
        self.judge = _unknown if kept.get("judged") else None
        self._schema: Json = kept["schema"]
        for name in TOLD:
            if name in kept:
                setattr(self, name, kept[name])

    @property
    def schema(self) -> Json:
        """The JSON Schema of its parameters."""
        return self._schema

    def prepare(self) -> None:
        """Nothing: a test has built what could fail."""


class _NotedSearch(Noted):
    def __init__(self, kept: Mapping[str, Any], exposure: Exposure) -> None:
        self._exposure = exposure
        super().__init__(kept)

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return search_description(self._exposure)

    @description.setter
    def description(self, value: str) -> None:
        pass


def _unknown(*_: Any) -> Any:
    raise RuntimeError("this stands for a tool in a listing; open the toolbox to call it")


def noted_tools() -> list[Noted]:
    """The tools of `default_tools` in its order, all of them, whatever is installed."""
    return [Noted(kept) for kept in _kept("tools")]


def noted_create_tool() -> Noted:
    """`create_tool`."""
    return Noted(_kept("create_tool")[0])


def noted_doors(exposure: Exposure) -> Iterable[Tool]:
    """The two tools over what an exposure does not list."""
    search, call = _kept("doors")
    return [_NotedSearch(search, exposure), Noted(call)]


_read: dict[str, list[Json]] = {}


def _kept(part: str) -> list[Json]:
    if not _read:
        with open(FILE, encoding="utf-8") as file:
            _read.update(cast("dict[str, list[Json]]", json.load(file)))
    return _read[part]
