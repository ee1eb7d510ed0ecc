"""The tool `echo`: does a call arrive, and does its answer?"""

from __future__ import annotations

from ..core.tool import Tool, tool


def echo_tool() -> Tool:
    """Return the tool, ready to register."""
    return tool(_echo, name="echo", category="memory", read_only=True, open_world=False)


async def _echo(message: str) -> str:
    """Return the message unchanged, to try out calls.

    Args:
        message: Any text.
    """
    return message
