"""What does `search_tools` say is behind it?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.exposure import Exposure
    from ..core.tool import Tool

MAX_SOURCES = 20
"""Servers and sources that are named."""


def search_description(exposure: Exposure) -> str:
    """The description of `search_tools`: it changes with the registry."""
    return (
        f"Find a tool by what it should do. {_behind(exposure)} Answers with the names, descriptions and parameters "
        "of the best matches; call one by its name, or through call_tool if your list of tools does not show it."
    )


def _behind(exposure: Exposure) -> str:
    hidden = exposure.hidden()
    if not hidden:
        return "All tools are listed."
    counts = Counter(_source_of(tool) for tool in hidden)
    told = [f"{source} ({count})" for source, count in counts.most_common(MAX_SOURCES)]
    more = f" and {len(counts) - MAX_SOURCES} more sources" if len(counts) > MAX_SOURCES else ""
    return f"{len(hidden):,} more tools are not listed: {', '.join(told)}{more}."


def _source_of(tool: Tool) -> str:
    return tool.origin.server if tool.origin is not None else "own tools" if tool.source == "own" else tool.source
