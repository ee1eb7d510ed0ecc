"""Register the tools of one source: all of them or none, and never under a name that is already used."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.errors import ToolcribError
from ..core.registry import ToolRegistry
from ..core.tool import Tool


def register_all(registry: ToolRegistry, tools: Iterable[Tool]) -> list[Tool]:
    """Register the tools.

    Raises ToolConflictError or ToolDefinitionError if one fails; then none of them stays registered.
    """
    done: list[Tool] = []
    try:
        for tool in tools:
            registry.register(tool)
            done.append(tool)
    except ToolcribError:
        for tool in done:
            registry.unregister(tool.name)
        raise
    return done
