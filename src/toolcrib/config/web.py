"""The `web` section, `tools.http_request` and `tools.documents` as the tools take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..builtin.outgoing import USER_AGENT
from ..core.errors import ConfigError

if TYPE_CHECKING:
    from ..builtin.documents.reader import DocumentSettings
    from ..builtin.http import HttpSettings
    from ..builtin.web import FetchSettings
    from ..builtin.web_tools import WebSettings
    from ..builtin.websearch import SearchSettings
    from .settings import Settings


def web_settings(settings: Settings) -> WebSettings:
    """The settings of all web tools. Raises ConfigError."""
    from ..builtin.web_tools import WebSettings

    return WebSettings(
        user_agent(settings), fetch_settings(settings), http_settings(settings), search_settings(settings)
    )


def user_agent(settings: Settings) -> str:
    """What requests say they come from. ConfigError for what no header can hold."""
    given = settings.web.user_agent or USER_AGENT
    if not given.isascii() or not given.isprintable():
        raise ConfigError("web.user_agent: should be plain ASCII on one line")
    return given


def fetch_settings(settings: Settings) -> FetchSettings:
    """How `web_fetch` fetches."""
    from ..builtin.web import FetchSettings

    fetch = settings.web.fetch
    given = {"max_chars": fetch.max_chars, "max_bytes": fetch.max_bytes, "seconds": fetch.timeout}
    return FetchSettings(robots=fetch.robots, **_said(given))


def document_settings(settings: Settings) -> DocumentSettings:
    """The limits of reading one document."""
    from ..builtin.documents.reader import DocumentSettings

    given = settings.tools.documents
    return DocumentSettings(**_said({"max_bytes": given.max_bytes, "seconds": given.timeout, "memory": given.memory}))


def http_settings(settings: Settings) -> HttpSettings:
    """Where `http_request` may go. ConfigError for what is no domain."""
    from ..builtin.http import RULE, HttpSettings

    http = settings.tools.http_request
    domains: tuple[str, ...] = ()
    if http.allowed_domains:
        from ..boundary.network.host_grants import domain_pattern

        domains = tuple(domain_pattern(each, RULE) for each in http.allowed_domains)
    return HttpSettings(domains, **_said({"seconds": http.timeout, "most_bytes": http.max_response_bytes}))


def search_settings(settings: Settings) -> SearchSettings:
    """Whom `web_search` asks. ConfigError for a provider that is not known, or an address that is none."""
    from ..builtin.websearch import MOST_RESULTS, SearchSettings

    search = settings.web.search
    if search == type(search)():
        return SearchSettings()
    from ..builtin.search_providers import PROVIDERS

    for key, names in (("provider", search.provider), ("fallback", search.fallback)):
        for name in names:
            if name not in PROVIDERS:
                raise ConfigError(f"web.search.{key}: unknown provider {name!r}; known: {', '.join(PROVIDERS)}")
    meant = search.provider or (["brave"] if search.api_key else ["searxng"] if search.base_url else [])
    if search.base_url and not search.base_url.startswith(("https://", "http://")):
        raise ConfigError("web.search.base_url: should be a URL like https://search.example.com")
    return SearchSettings(
        tuple(meant),
        tuple(search.fallback),
        search.api_key,
        search.base_url,
        min(search.max_results or MOST_RESULTS, MOST_RESULTS),
        **_said({"seconds": search.timeout}),
    )


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
