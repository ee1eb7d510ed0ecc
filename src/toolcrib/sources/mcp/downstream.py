"""Our client behind a call that came in over MCP, in the form that the called server may use.

Servers ask questions (a form, a message of a model, roots), send logs, and answer in the protocol's own form. If
the call did not come in over MCP, there is no such client, and `downstream_of` returns None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import mcp_types
    from mcp.shared.exceptions import MCPError

    from ...core.context import ToolContext

KEY = "mcp"
"""The key in `ToolContext.metadata`."""


class Downstream(Protocol):
    """One of our clients.

    `modern`: it uses 2026-07-28. `exact`: it made a request of the protocol's own (a resource, a prompt). It wants
    the server's unchanged answer in `delivered`, or the server's own error in `failure`.
    """

    modern: bool
    exact: bool
    delivered: dict[str, Any] | None
    failure: MCPError | None

    @property
    def session(self) -> int:
        """Which session of the handshake era it is, among those that are open."""
        ...

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """The capabilities that it declared."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of its request, for the server that answers."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe level of log messages that it wants; None if it wants no logs."""
        ...

    def can_answer(self, request: mcp_types.InputRequest) -> bool:
        """Whether this request can be sent to it."""
        ...

    async def exchange(self, requests: Mapping[str, mcp_types.InputRequest]) -> dict[str, mcp_types.InputResponse]:
        """Send it several requests at once and return the answers. Raises ToolError if it cannot be asked."""
        ...

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Send it a log message, if it wants messages of that level."""


def downstream_of(ctx: ToolContext) -> Downstream | None:
    """Return the client behind a call; None if the call did not come in over MCP."""
    found = ctx.metadata.get(KEY)
    return cast("Downstream", found) if hasattr(found, "exchange") else None
