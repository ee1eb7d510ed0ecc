"""Tavily: https://docs.tavily.com/documentation/api-reference/endpoint/search"""

from __future__ import annotations

import json

from ...boundary.network.exchange import WebRequest, WebResponse
from .base import Asked, Provider, Result, results_of, text_of


def request(asked: Asked) -> WebRequest:
    """Make a POST request with a Bearer token."""
    body = {"query": asked.query, "max_results": asked.count, "search_depth": "basic", "include_answer": False}
    return WebRequest(
        "POST",
        f"{asked.base}/search",
        {"Content-Type": "application/json", "Accept": "application/json"},
        {"Authorization": f"Bearer {asked.key}"},
        json.dumps(body).encode(),
    )


def read(answer: WebResponse) -> list[Result]:
    """Read the results from `results` of the answer. `content` is the part of the page that fits the query."""
    return [
        Result(text_of(row, "title"), text_of(row, "url"), text_of(row, "content"))
        for row in results_of(answer, "results")
    ]


PROVIDER = Provider("tavily", "https://api.tavily.com", request, read, variable="TAVILY_API_KEY", needs_key=True)
