"""Who can be asked what the web has: one file for each provider, the same few things in each.

A provider makes a request of a query and reads results out of the answer; sending, limits and falling back are not its
business (`builtin/websearch.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from . import brave, ddgs, duckduckgo, exa, searxng, tavily
from .base import Asked, Blocked, Provider, Result

PROVIDERS: Mapping[str, Provider] = {
    module.PROVIDER.name: module.PROVIDER for module in (duckduckgo, brave, tavily, exa, searxng, ddgs)
}
"""By the name that the setting `web.search.provider` has."""

__all__ = ["PROVIDERS", "Asked", "Blocked", "Provider", "Result"]
