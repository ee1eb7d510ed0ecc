"""Makes all web tools that can be available, with their shared parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.tool import Tool
from . import needs
from .http import HttpRequestTool
from .outgoing import USER_AGENT, Gate, OutgoingRequests
from .settings import HttpSettings, WebSettings
from .web import Keep, WebFetchTool
from .websearch import WebSearchTool

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..policy.secrets.grants import Secrets
    from ..policy.secrets.redact import Redactor
    from .document_reading import DocumentReading


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
    documents: DocumentReading | None = None,
) -> list[Tool]:
    """Return web_fetch, http_request and web_search. Tools that cannot be available are named in `missing`.

    `gate` is asked about each address of a redirect. `keep` stores texts that are too long. `closers` gets the
    functions that end our processes.
    """
    settings = settings or WebSettings()
    resolve = None if secrets is None else secrets.resolve
    outgoing = OutgoingRequests(guard, gate, settings.user_agent or USER_AGENT, resolve)
    learn = None if redactor is None else redactor.grant
    found: list[Tool] = []
    fetch = WebFetchTool(outgoing, settings.fetch, keep, documents)
    http = HttpRequestTool(outgoing, http_settings)
    search = WebSearchTool(outgoing, settings.search, learn=learn)
    for name, made in (("web_fetch", fetch), ("http_request", http), ("web_search", search)):
        why = needs.missing(*needs.WEB[name])
        if why is None:
            found.append(made.tool())
        elif missing is not None:
            missing.append((name, why))
    if closers is not None:
        closers.append(fetch.close)
    return found
