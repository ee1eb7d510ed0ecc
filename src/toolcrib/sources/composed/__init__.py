"""Composed tools: instructions with parameters that a model writes and later runs as a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .composed_store import ComposedStore
from .create_tool import ComposedTools

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.registry import ToolRegistry

__all__ = ["ComposedStore", "ComposedTools", "add_composed_tools"]

FILE = "composed_tools.json"


def add_composed_tools(registry: ToolRegistry, folder: Path, missing: list[tuple[str, str]]) -> None:
    """Register `create_tool` and the stored tools of a state folder. Tools that cannot be registered go to `missing`.

    They are registered last: the model created them, and they must not take a name from another tool.
    """
    tools = ComposedTools(ComposedStore(folder / FILE), registry, lambda: {name for name, _ in missing})
    registry.register(tools.tool())
    missing += tools.register()
