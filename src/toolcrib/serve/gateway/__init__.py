"""The gateway: passes resources, prompts and other content of a toolbox's MCP servers on to our MCP clients.

It is a wing (optional part). Without it, the tools of all servers and our own tools are still served.
"""

from __future__ import annotations

from .gateway import Gateway

__all__ = ["Gateway"]
