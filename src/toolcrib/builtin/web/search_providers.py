"""The search providers: each is data and two functions, which make a request from a query and read the answer.

`websearch.py` sends the request, applies the limits, and asks the next provider if one fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from ...boundary.network.exchange import WebRequest, WebResponse
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.json_values import as_object, objects_of

if TYPE_CHECKING:
    import turbohtml

BRAVE_MAX_QUERY = 400  # characters, by its documentation
DDGS_SECONDS = 15
_DUCKDUCKGO = "https://html.duckduckgo.com/html/"
_JSON = {"Accept": "application/json"}


class Blocked(ToolError):
    """Says that the provider refuses more requests from us for now."""


@dataclass(frozen=True, slots=True)
class Result:
    """One search result. All three fields are untrusted text from outside."""

    title: str
    url: str
    description: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One search request to a provider: `base` is its server's address, without a slash at its end."""

    query: str
    count: int
    base: str
    key: str


@dataclass(frozen=True, slots=True)
class Provider:
    """A search provider. `variable` names the environment variable of its key, or of its address if `base` is empty.

    `pause` is the least time between two requests, in seconds. `direct` searches without our address guard; a provider
    with `direct` has neither `request` nor `read`.
    """

    name: str
    base: str = ""
    request: Callable[[Asked], WebRequest] | None = None
    read: Callable[[WebResponse], list[Result]] | None = None
    variable: str = ""
    needs_key: bool = False
    pause: float = 0.0
    direct: Callable[[str, int], list[Result]] | None = None


# --- reading JSON


def _rows(answer: WebResponse, *path: str) -> list[dict[str, Any]]:
    """Return the list of objects at a path in a JSON answer; it may be empty. Raises ToolError if it is not JSON."""
    try:
        value: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ToolError("its answer is not JSON") from None
    for name in path:
        value = as_object(value).get(name)
    return objects_of(value)


def _text(row: Mapping[str, Any], *names: str) -> str:
    """Return the first of the fields that is a text. From a field that is a list, return its texts."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list):
            joined = " … ".join(each for each in cast("list[Any]", value) if isinstance(each, str))
            if joined:
                return joined
    return ""


def _result(row: Mapping[str, Any], url: str, *description: str) -> Result:
    return Result(_text(row, "title"), _text(row, url), _text(row, *description))


def _posted(asked: Asked, private: Mapping[str, str], body: Mapping[str, Any]) -> WebRequest:
    """Make a POST request with a JSON body; `private` are the headers with the key."""
    headers = {"Content-Type": "application/json", **_JSON}
    return WebRequest("POST", f"{asked.base}/search", headers, private, json.dumps(body).encode())


# --- Brave Search: https://api-dashboard.search.brave.com/app/documentation/web-search/get-started


def _brave_request(asked: Asked) -> WebRequest:
    query = urlencode({"q": asked.query[:BRAVE_MAX_QUERY], "count": asked.count, "text_decorations": "false"})
    return WebRequest("GET", f"{asked.base}/res/v1/web/search?{query}", _JSON, {"X-Subscription-Token": asked.key})


def _brave_read(answer: WebResponse) -> list[Result]:
    return [_result(row, "url", "description", "extra_snippets") for row in _rows(answer, "web", "results")]


# --- Tavily: https://docs.tavily.com/documentation/api-reference/endpoint/search


def _tavily_request(asked: Asked) -> WebRequest:
    body = {"query": asked.query, "max_results": asked.count, "search_depth": "basic", "include_answer": False}
    return _posted(asked, {"Authorization": f"Bearer {asked.key}"}, body)


def _content_read(answer: WebResponse) -> list[Result]:
    """Read the answer of Tavily or SearXNG. `content` is the part of the page that fits the query."""
    return [_result(row, "url", "content") for row in _rows(answer, "results")]


# --- Exa: https://docs.exa.ai/reference/search


def _exa_request(asked: Asked) -> WebRequest:
    """Make a request. Exa's `highlights` serve as descriptions."""
    body = {"query": asked.query, "numResults": asked.count, "type": "auto", "contents": {"highlights": True}}
    return _posted(asked, {"x-api-key": asked.key}, body)


def _exa_read(answer: WebResponse) -> list[Result]:
    return [_result(row, "url", "highlights", "summary") for row in _rows(answer, "results")]


# --- SearXNG, a server that the user or another person runs: https://docs.searxng.org/dev/search_api.html


def _searxng_request(asked: Asked) -> WebRequest:
    """Make a GET request. The answer is JSON only if the server's setting search.formats has `json`."""
    query = urlencode({"q": asked.query, "format": "json"})
    private = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    return WebRequest("GET", f"{asked.base}/search?{query}", _JSON, private)


def _searxng_read(answer: WebResponse) -> list[Result]:
    if answer.status == 403:
        raise ToolError("it refuses JSON; its settings.yml needs `json` under search.formats")
    return _content_read(answer)


# --- The library ddgs, which asks several search engines. It is used only if the settings name it, because it sends the
# requests itself, through a client that looks like a browser: our address rules, proxy and limits do not apply to them.


def _ddgs_search(query: str, count: int) -> list[Result]:
    """Search with ddgs. Blocks. Raises ToolError if the search fails."""
    try:
        ddgs: Any = import_module("ddgs")
    except ImportError:
        raise ToolError("the package ddgs is not installed; pip install ddgs") from None
    try:
        rows: list[dict[str, Any]] = ddgs.DDGS(timeout=DDGS_SECONDS).text(query, max_results=count)
    except Exception as error:  # each engine has different errors
        raise ToolError(f"{type(error).__name__}: {str(error)[:200]}") from None
    return [_result(row, "href", "body") for row in rows]


# --- DuckDuckGo without a key: the page that it serves to browsers without JavaScript. Its JSON interface has few
# results. A result leads to its page directly or through `duckduckgo.com/l/?uddg=…`; advertisements lead through
# `duckduckgo.com/y.js` and are left out. After too many requests, the answer is a puzzle (CAPTCHA) with status 202.


def _duckduckgo_request(asked: Asked) -> WebRequest:
    """Make a POST request like the form of the page."""
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "text/html",
        "Accept-Language": "en-US,en;q=0.8",
        "Referer": "https://html.duckduckgo.com/",
    }
    body = urlencode({"q": asked.query, "b": "", "kl": ""})
    return WebRequest("POST", f"{asked.base}/html/", headers, {}, body.encode())


def _duckduckgo_read(answer: WebResponse) -> list[Result]:
    """Return the results of the page, in order. Raises Blocked if the page is the puzzle."""
    import turbohtml

    html = answer.body.decode("utf-8", "replace")
    blocks = turbohtml.parse(html).select(".result")
    results = (_duckduckgo_result(each) for each in blocks if "result--ad" not in str(each.attrs.get("class") or ""))
    found = [each for each in results if each is not None]
    if not found and (answer.status == 202 or "anomaly-modal" in html or "anomaly.js" in html):
        raise Blocked("it takes us for a robot and shows a puzzle; wait a while, or use a provider with a key")
    return found


def _duckduckgo_result(block: turbohtml.Element) -> Result | None:
    link = block.select_one("a.result__a")
    url = unwrapped(str(link.attrs.get("href") or "")) if link is not None else None
    if link is None or url is None:
        return None
    snippet = block.select_one(".result__snippet")
    return Result(link.text, url, snippet.text if snippet is not None else "")


def unwrapped(href: str) -> str | None:
    """Return the real target of a link, or None for an advertisement or a page of DuckDuckGo itself."""
    try:
        whole = urljoin(_DUCKDUCKGO, href)
        parts = urlsplit(whole)
        host = parts.hostname or ""
    except ValueError:
        return None
    if host != "duckduckgo.com" and not host.endswith(".duckduckgo.com"):
        return whole if parts.scheme in ("http", "https") else None
    if parts.path.rstrip("/") != "/l":
        return None
    target = parse_qs(parts.query).get("uddg", [""])[0]
    return target if target.startswith(("http://", "https://")) else None


PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider("duckduckgo", "https://html.duckduckgo.com", _duckduckgo_request, _duckduckgo_read, pause=1.5),
        Provider("brave", "https://api.search.brave.com", _brave_request, _brave_read, "BRAVE_API_KEY", True, 1.0),
        Provider("tavily", "https://api.tavily.com", _tavily_request, _content_read, "TAVILY_API_KEY", True),
        Provider("exa", "https://api.exa.ai", _exa_request, _exa_read, "EXA_API_KEY", True),
        Provider("searxng", "", _searxng_request, _searxng_read, "SEARXNG_URL"),
        Provider("ddgs", direct=_ddgs_search),
    )
}
"""The providers, by their names in the setting `web.search.provider`."""
