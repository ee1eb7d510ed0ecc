"""The parts of a toolbox, or of a registry without one, that the MCP server needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..core.context import EMPTY_CONTEXT, ToolContext
from ..core.dataclass import dataclass
from ..core.output import ToolOutput
from ..core.registry import ToolRegistry

if TYPE_CHECKING:
    from ..core.exposure import Exposure
    from ..policy.approval import ApprovalService
    from ..policy.checker import Check
    from ..record.approvals import Approvals
    from ..sources.mcp.servers import McpServers
    from ..toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class ServedTools:
    """The parts that the MCP server uses.

    `call` runs one call through the pipeline; calls start from `context`. A registry alone stores no approvals,
    lists all its tools, and has no MCP servers.
    """

    registry: ToolRegistry
    call: Callable[..., Awaitable[ToolOutput]]
    context: ToolContext = EMPTY_CONTEXT
    approvals: Approvals | None = None
    approval_service: ApprovalService | None = None
    exposure: Exposure | None = None
    servers: Callable[[], McpServers | None] = lambda: None
    """Returns the MCP servers behind it, if there are any now."""
    check: Callable[..., Awaitable[Check]] | None = None
    """Says what would happen to a call."""
    end_session: Callable[[str], object] = lambda _: None
    """Forgets everything that is kept for a session."""


def served_tools(box: Toolbox | ToolRegistry) -> ServedTools:
    """Return the parts of a toolbox, or of a registry, that are served."""
    if isinstance(box, ToolRegistry):
        return ServedTools(box, box.execute)
    return ServedTools(
        box.registry,
        box.call,
        box.context,
        box.approvals,
        box.approval_service,
        box.exposure,
        lambda: box.servers,
        box.check,
        lambda session: box.session(session).end(),
    )
