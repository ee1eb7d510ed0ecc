"""Exa: https://docs.exa.ai/reference/search"""

from __future__ import annotations

import json

from ...boundary.network.exchange import WebRequest, WebResponse
from .base import Asked, Provider, Result, results_of, text_of


def request(asked: Asked) -> WebRequest:
    """Make a POST request with the key in a special header. Exa's `highlights` serve as descriptions."""
    body = {"query": asked.query, "numResults": asked.count, "type": "auto", "contents": {"highlights": True}}
    return WebRequest(
        "POST",
        f"{asked.base}/search",
        {"Content-Type": "application/json", "Accept": "application/json"},
        {"x-api-key": asked.key},
        json.dumps(body).encode(),
    )


def read(answer: WebResponse) -> list[Result]:
    """Read the results from `results` of the answer."""
    return [
        Result(text_of(row, "title") or text_of(row, "url"), text_of(row, "url"), text_of(row, "highlights", "summary"))
        for row in results_of(answer, "results")
    ]


PROVIDER = Provider("exa", "https://api.exa.ai", request, read, variable="EXA_API_KEY", needs_key=True)
