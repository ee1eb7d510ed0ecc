"""Finds the optional modules that tools need and that are not installed, without importing them."""

from __future__ import annotations

from importlib.util import find_spec

WEB = {
    "web_fetch": ("httpx2", "trafilatura", "turbohtml"),
    "http_request": ("httpx2",),
    "web_search": ("httpx2", "turbohtml"),
}
"""The modules that each web tool needs, in the order in which the tools are made."""


def missing(*modules: str) -> str | None:
    """Return why tools that need these modules are not available; None if they are. Does not import anything."""
    absent = [name for name in modules if find_spec(name) is None]
    if not absent:
        return None
    return f"needs {', '.join(absent)}: pip install 'toolcrib[web]'"
