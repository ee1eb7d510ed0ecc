"""Calls that stand for others: `call_tool(name, arguments)` is the call of that name, for everyone who judges it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import InvalidArguments, ToolExecutionDenied, Violation

if TYPE_CHECKING:
    from .registry import ToolRegistry
    from .tool import Tool


def meant(registry: ToolRegistry, tool: Tool, arguments: Mapping[str, Any] | str | bytes | None) -> tuple[str, Any]:
    """The name and arguments of the call that a forwarding tool stands for.

    Raises InvalidArguments, or ToolExecutionDenied where a rule denies the forwarding tool itself.
    """
    assert tool.forward is not None
    hides = getattr(registry.pipeline.authorizer, "hides", None)
    if hides is not None and hides(tool):
        raise ToolExecutionDenied(f"{tool.name} is denied by a rule")
    name, inner = tool.forward(tool.bind(arguments)[0])
    target = registry.find(name)
    if target is not None and target.forward is not None:
        raise InvalidArguments([Violation("name", f"{tool.name} calls other tools, not {name}")])
    return name, inner


def resolve(
    registry: ToolRegistry, name: str, arguments: Mapping[str, Any] | str | bytes | None
) -> tuple[Tool | None, str, Any]:
    """The tool that a call is for, its name and its arguments. Raises what `meant` raises."""
    tool = registry.find(name)
    if tool is None or tool.forward is None:
        return tool, name, arguments
    name, arguments = meant(registry, tool, arguments)
    return registry.find(name), name, arguments
