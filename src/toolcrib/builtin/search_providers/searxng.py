"""SearXNG, a server of one's own or of somebody else: https://docs.searxng.org/dev/search_api.html"""

from __future__ import annotations

from urllib.parse import urlencode

from ...boundary.network.exchange import WebRequest, WebResponse
from ...core.errors import ToolError
from .base import Asked, Provider, Result, results_of, text_of


def request(asked: Asked) -> WebRequest:
    """GET; the answer is JSON only where the server's settings have `json` among search.formats."""
    query = urlencode({"q": asked.query, "format": "json"})
    private = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    return WebRequest("GET", f"{asked.base}/search?{query}", {"Accept": "application/json"}, private)


def read(answer: WebResponse) -> list[Result]:
    """`results` of the answer."""
    if answer.status == 403:
        raise ToolError("it refuses JSON; its settings.yml needs `json` under search.formats")
    return [
        Result(text_of(row, "title"), text_of(row, "url"), text_of(row, "content"))
        for row in results_of(answer, "results")
    ]


PROVIDER = Provider("searxng", "", request, read, variable="SEARXNG_URL")
