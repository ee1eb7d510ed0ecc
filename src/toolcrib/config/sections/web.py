"""Settings of requests: which may leave this machine, and the tools that make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...core.settings import AnyPath, Bounds, Checked, Count, OneOrMore, Seconds, Section
from ...core.tightening import Fewer, Only, Smaller


def _private_target(text: str) -> str:
    from ...boundary.network.host_grants import HostGrants
    from ...core.errors import ConfigError

    try:
        HostGrants.parse([text])
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("web.allow_private: ")) from None
    return text


@dataclass(frozen=True, slots=True)
class WebSearch(Section):
    """The tool `web_search`."""

    spellings = {"count": "max_results", "providers": "provider"}

    provider: OneOrMore = ()
    """duckduckgo, brave, tavily, exa, searxng or ddgs; several are asked in order. Unset: those with a key in the
    environment (BRAVE_API_KEY, TAVILY_API_KEY, EXA_API_KEY, SEARXNG_URL); with api_key alone brave, with base_url
    alone searxng."""
    fallback: Annotated[tuple[str, ...], Fewer()] = ("duckduckgo",)
    """Who is asked where those fail. Empty: nobody."""
    api_key: str | None = None
    """The key of the first provider; `${secret:NAME}` is a granted secret. Unset: the one in the environment."""
    base_url: str | None = None
    """The address of the first provider's server: of a SearXNG, or of a proxy in front of another."""
    max_results: Annotated[Count | None, Smaller(lambda: 10)] = None
    """Most results of one search."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 20.0)] = None
    """Seconds that one provider gets. Unset: 20."""


@dataclass(frozen=True, slots=True)
class WebFetch(Section):
    """The tool `web_fetch`."""

    max_chars: Annotated[Count | None, Smaller(lambda: 50_000)] = None
    """Most characters of one answer, whatever a call asks for. Unset: 100,000, and 50,000 where it asks for nothing."""
    max_bytes: Annotated[Count | None, Smaller(lambda: 10 << 20)] = None
    """Bytes of a body that are read, decompressed. Unset: 10 MiB."""
    timeout: Annotated[Seconds | None, Smaller(lambda: 30.0)] = None
    """Seconds for a request with its redirects and pauses. Unset: 30."""
    robots: Annotated[bool, Only(True)] = False
    """Obey robots.txt."""


@dataclass(frozen=True, slots=True)
class Web(Section):
    """What requests may leave this machine, and for where."""

    allowed_domains: Annotated[tuple[str, ...], Fewer()] = ()
    allow_private: Annotated[tuple[Annotated[str, Checked(_private_target)], ...], Fewer()] = ()
    """Private targets that may be dialled: CIDR ranges or host names."""
    ports: Annotated[tuple[Annotated[int, Bounds(ge=1, le=65_535)], ...], Fewer()] = ()
    """Ports beside 80, 443 and 8000-9999."""
    proxy: str | None = None
    proxy_ca: AnyPath | None = None
    user_agent: str | None = None
    """What our requests say they come from. Unset: Toolcrib, with its address."""
    search: WebSearch = WebSearch()
    fetch: WebFetch = WebFetch()
