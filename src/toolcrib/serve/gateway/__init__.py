"""The gateway: what a toolbox's MCP servers have besides tools, passed on to our own MCP clients.

A wing: without it the tools of all servers, and our own, are served all the same.
"""

from __future__ import annotations

from .gateway import Gateway

__all__ = ["Gateway"]
