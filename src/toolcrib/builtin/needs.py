"""What do tools need that may not be installed? Asked without importing any of it."""

from __future__ import annotations

from importlib.util import find_spec

WEB = {
    "web_fetch": ("httpx2", "trafilatura", "turbohtml"),
    "http_request": ("httpx2",),
    "web_search": ("httpx2", "turbohtml"),
}
"""The modules that each web tool needs, in the order in which the tools are made."""


def missing(*modules: str) -> str | None:
    """Why tools that need these modules cannot be there; None if they can. Nothing is imported."""
    absent = [name for name in modules if find_spec(name) is None]
    if not absent:
        return None
    return f"needs {', '.join(absent)}: pip install 'toolcrib[web]'"
