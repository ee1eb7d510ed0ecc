"""Registers what one source brings: all of its tools or none, and no name is taken from anybody."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.errors import ToolConflictError, ToolcribError
from ..core.registry import ToolRegistry
from ..core.tool import Tool


def register_all(registry: ToolRegistry, tools: Iterable[Tool]) -> list[Tool]:
    """Register them. Raises ToolConflictError or ToolDefinitionError, and then none of them is there."""
    done: list[Tool] = []
    try:
        for tool in tools:
            owner = registry.find(tool.name)
            if owner is not None:
                raise ToolConflictError(f"a tool named {tool.name!r} is registered already ({owner.source})")
            done.append(registry.register(tool))
    except ToolcribError:
        for tool in done:
            registry.unregister(tool.name)
        raise
    return done
