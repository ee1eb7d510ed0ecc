"""The search providers: one file for each provider, all with the same few parts.

A provider makes a request from a query and reads the results from the answer. `builtin/websearch.py` sends the request,
applies the limits, and asks the next provider if one fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import brave, ddgs, duckduckgo, exa, searxng, tavily
from .base import Asked, Blocked, Provider, Result

PROVIDERS: Mapping[str, Provider] = {
    module.PROVIDER.name: module.PROVIDER for module in (duckduckgo, brave, tavily, exa, searxng, ddgs)
}
"""The providers, by their names in the setting `web.search.provider`."""

__all__ = ["PROVIDERS", "Asked", "Blocked", "Provider", "Result"]
