"""SearXNG, a server that the user or another person runs: https://docs.searxng.org/dev/search_api.html"""

from __future__ import annotations

from urllib.parse import urlencode

from ...boundary.network.exchange import WebRequest, WebResponse
from ...core.errors import ToolError
from .base import Asked, Provider, Result, results_of, text_of


def request(asked: Asked) -> WebRequest:
    """Make a GET request. The answer is JSON only if the server's setting search.formats has `json`."""
    query = urlencode({"q": asked.query, "format": "json"})
    private = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    return WebRequest("GET", f"{asked.base}/search?{query}", {"Accept": "application/json"}, private)


def read(answer: WebResponse) -> list[Result]:
    """Read the results from `results` of the answer."""
    if answer.status == 403:
        raise ToolError("it refuses JSON; its settings.yml needs `json` under search.formats")
    return [
        Result(text_of(row, "title"), text_of(row, "url"), text_of(row, "content"))
        for row in results_of(answer, "results")
    ]


PROVIDER = Provider("searxng", "", request, read, variable="SEARXNG_URL")
