"""The client of ours behind a call that came in over MCP: what a server that the call reaches may have of it.

Servers ask (a form, a message of a model, roots), tell (logs), and answer in the protocol's own form. Where the call
came in by another door there is no such client, and `downstream_of` returns None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import mcp_types
    from mcp.shared.exceptions import MCPError

    from ...core.context import ToolContext

KEY = "mcp"
"""Where `ToolContext.metadata` has it."""


class Downstream(Protocol):
    """A client of ours. `modern`: it speaks 2026-07-28. `exact`: it made a request of the protocol's own (a resource, a
    prompt), and wants the answer as the server gave it, in `delivered`, or the server's own error, in `failure`.
    """

    modern: bool
    exact: bool
    delivered: dict[str, Any] | None
    failure: MCPError | None

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """What it declared."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of its request, for the server that answers."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe log messages that it wants; None for none."""
        ...

    def can_answer(self, request: mcp_types.InputRequest) -> bool:
        """Whether it can be asked this."""
        ...

    async def exchange(self, requests: Mapping[str, mcp_types.InputRequest]) -> dict[str, mcp_types.InputResponse]:
        """Ask it several things at once. Raises ToolError where it cannot be asked."""
        ...

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Tell it a log message, if it wants such."""
        ...


def downstream_of(ctx: ToolContext) -> Downstream | None:
    """The client behind a call."""
    found = ctx.metadata.get(KEY)
    return cast("Downstream", found) if hasattr(found, "exchange") else None
