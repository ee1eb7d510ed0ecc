"""The error that is raised if a server cannot be used."""

from __future__ import annotations

from ...core.errors import ToolError


class McpFailure(ToolError):
    """A server cannot be used now. The text says why, and which setting it concerns."""
