"""What is raised where a server cannot be used."""

from __future__ import annotations

from ...core.errors import ToolError


class McpFailure(ToolError):
    """A server cannot be used now; the text says why and where it is set."""
