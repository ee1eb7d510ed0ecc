"""Brave Search: https://api-dashboard.search.brave.com/app/documentation/web-search/get-started"""

from __future__ import annotations

from urllib.parse import urlencode

from ...boundary.network.exchange import WebRequest, WebResponse
from .base import Asked, Provider, Result, results_of, text_of

MAX_QUERY = 400  # characters, by its documentation


def request(asked: Asked) -> WebRequest:
    """Make a GET request with the query in the address and the key in a special header."""
    query = urlencode({"q": asked.query[:MAX_QUERY], "count": asked.count, "text_decorations": "false"})
    url = f"{asked.base}/res/v1/web/search?{query}"
    return WebRequest("GET", url, {"Accept": "application/json"}, {"X-Subscription-Token": asked.key})


def read(answer: WebResponse) -> list[Result]:
    """Read the results from `web.results` of the answer."""
    return [
        Result(text_of(row, "title"), text_of(row, "url"), text_of(row, "description", "extra_snippets"))
        for row in results_of(answer, "web", "results")
    ]


PROVIDER = Provider(
    "brave", "https://api.search.brave.com", request, read, variable="BRAVE_API_KEY", needs_key=True, pause=1.0
)
