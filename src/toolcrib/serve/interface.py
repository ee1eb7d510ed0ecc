"""What a door serves: anything with a registry and a way to call."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..core.context import EMPTY_CONTEXT, ToolContext
from ..core.exposure import Exposure
from ..core.output import ToolOutput
from ..core.registry import ToolRegistry

if TYPE_CHECKING:
    from ..record.approvals import Approvals
    from ..sources.mcp import McpServers


@runtime_checkable
class ToolboxInterface(Protocol):
    """A toolbox, as far as a door needs it."""

    @property
    def registry(self) -> ToolRegistry:
        """The tools."""
        ...

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, ctx: ToolContext | None = None
    ) -> Awaitable[ToolOutput]:
        """Run one call through the pipeline."""
        ...


class RegistryInterface:
    """A registry without a toolbox around it: what its own policy allows runs, nothing is stored."""

    def __init__(self, registry: ToolRegistry) -> None:
        self.registry = registry

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, ctx: ToolContext | None = None
    ) -> Awaitable[ToolOutput]:
        """Run one call through the pipeline."""
        return self.registry.execute(name, arguments, ctx)


def as_interface(box: ToolboxInterface | ToolRegistry) -> ToolboxInterface:
    """The same thing, or a registry made callable like a toolbox."""
    return RegistryInterface(box) if isinstance(box, ToolRegistry) else box


def approvals_of(box: ToolboxInterface) -> Approvals | None:
    """Where the box keeps approval requests; None where it keeps none."""
    return getattr(box, "approvals", None)


def exposure_of(box: ToolboxInterface) -> Exposure | None:
    """What decides which of its tools are listed; None where all are."""
    return getattr(box, "exposure", None)


def state_path(box: ToolboxInterface) -> Path | None:
    """The folder of the box's private state; None where it has none."""
    return getattr(getattr(box, "state", None), "path", None)


def context_of(box: ToolboxInterface) -> ToolContext:
    """What every call in this box starts from: its workspace, the host's own things."""
    return getattr(box, "context", EMPTY_CONTEXT)


def servers_of(box: ToolboxInterface) -> McpServers | None:
    """The MCP servers of the box; None where none are configured or connected yet."""
    return getattr(box, "servers", None)
