"""The gateway: what a toolbox's MCP servers have besides tools, passed on to our own MCP clients.

A wing of its own. `McpServer` knows one line of it (`open_gateway`); without it our own tools are served all the same,
and without an MCP client in front of us `sources.mcp` never needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gateway import Gateway

if TYPE_CHECKING:
    from ..calls import CallHandler

__all__ = ["Gateway", "open_gateway"]


def open_gateway(calls: CallHandler) -> Gateway | None:
    """The gateway for the toolbox whose calls these are; None where it has no MCP servers."""
    return Gateway(calls.box.servers, calls) if calls.box.servers is not None else None
