"""The tools for the web: `web_fetch`, `http_request` and `web_search`. Each page is read in a separate process, which
loads this package: so the tools are imported where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...boundary.network.address_guard import AddressGuard
    from ...core.tool import Tool
    from ...policy.secrets.grants import Secrets
    from ...policy.secrets.redact import Redactor
    from ..documents import DocumentReader
    from ..outgoing import Gate
    from ..settings import HttpSettings, WebSettings
    from .fetch import Keep


def web_tools(
    guard: Callable[[], AddressGuard],
    settings: WebSettings | None = None,
    http_settings: HttpSettings | None = None,
    *,
    gate: Gate | None = None,
    secrets: Secrets | None = None,
    redactor: Redactor | None = None,
    keep: Keep | None = None,
    missing: list[tuple[str, str]] | None = None,
    closers: list[Callable[[], object]] | None = None,
    documents: DocumentReader | None = None,
) -> list[Tool]:
    """Return web_fetch, http_request and web_search. Tools that cannot be available are named in `missing`.

    `gate` is asked about each address of a redirect. `keep` stores texts that are too long. `closers` gets the
    functions that end our processes.
    """
    from ..outgoing import USER_AGENT, OutgoingRequests, why_missing
    from ..settings import WebSettings
    from .fetch import WebFetchTool
    from .http_request import HttpRequestTool
    from .websearch import WebSearchTool

    settings = settings or WebSettings()
    resolve = None if secrets is None else secrets.resolve
    outgoing = OutgoingRequests(guard, gate, settings.user_agent or USER_AGENT, resolve)
    fetch = WebFetchTool(outgoing, settings.fetch, keep, documents)
    search = WebSearchTool(outgoing, settings.search, learn=None if redactor is None else redactor.grant)
    if closers is not None:
        closers.append(fetch.workers.close)
    found: list[Tool] = []
    for name, made, modules in (
        ("web_fetch", fetch, ("httpx2", "trafilatura", "turbohtml")),
        ("http_request", HttpRequestTool(outgoing, http_settings), ("httpx2",)),
        ("web_search", search, ("httpx2", "turbohtml")),
    ):
        why = why_missing(*modules)
        if why is None:
            found.append(made.tool())
        elif missing is not None:
            missing.append((name, why))
    return found
