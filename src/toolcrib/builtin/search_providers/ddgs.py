"""The library ddgs, which asks several search engines. It is used only if the settings name it.

The reason: it sends the requests itself, through a client that looks like a browser. So our address rules, our proxy
setting and our limits do not apply to them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...core.errors import ToolError
from .base import Provider, Result, text_of

SECONDS = 15


def search(query: str, count: int) -> list[Result]:
    """Search with ddgs. Blocks. Raises ToolError if the search fails."""
    try:
        ddgs: Any = import_module("ddgs")
    except ImportError:
        raise ToolError("the package ddgs is not installed; pip install ddgs") from None
    try:
        rows: list[dict[str, Any]] = ddgs.DDGS(timeout=SECONDS).text(query, max_results=count)
    except Exception as error:  # each engine has different errors
        raise ToolError(f"{type(error).__name__}: {str(error)[:200]}") from None
    return [Result(text_of(row, "title"), text_of(row, "href"), text_of(row, "body")) for row in rows]


PROVIDER = Provider("ddgs", "", direct=search)
