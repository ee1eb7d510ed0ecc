"""DuckDuckGo without a key: the page that it serves to browsers without JavaScript, https://html.duckduckgo.com/html/

Its JSON interface has hardly any results. Results lead to their pages directly or through `duckduckgo.com/l/?uddg=…`;
advertisements lead through `duckduckgo.com/y.js` and are left out. After too many requests, the answer is a puzzle
(CAPTCHA) with status 202.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from ...boundary.network.exchange import WebRequest, WebResponse
from .base import Asked, Blocked, Provider, Result

if TYPE_CHECKING:
    import turbohtml

_HOME = "https://html.duckduckgo.com/html/"


def request(asked: Asked) -> WebRequest:
    """Make a POST request like the form of the page."""
    body = urlencode({"q": asked.query, "b": "", "kl": ""})
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "text/html",
        "Accept-Language": "en-US,en;q=0.8",
        "Referer": "https://html.duckduckgo.com/",
    }
    return WebRequest("POST", f"{asked.base}/html/", headers, {}, body.encode())


def read(answer: WebResponse) -> list[Result]:
    """Return the results of the page, in order. Raises Blocked if the page is the puzzle."""
    import turbohtml

    html = answer.body.decode("utf-8", "replace")
    page = turbohtml.parse(html)
    found: list[Result] = []
    for block in page.select(".result"):
        if "result--ad" in str(block.attrs.get("class") or ""):
            continue
        result = _result(block)
        if result is not None:
            found.append(result)
    if not found and (answer.status == 202 or "anomaly-modal" in html or "anomaly.js" in html):
        raise Blocked("it takes us for a robot and shows a puzzle; wait a while, or use a provider with a key")
    return found


def _result(block: turbohtml.Element) -> Result | None:
    link = block.select_one("a.result__a")
    if link is None:
        return None
    url = unwrapped(str(link.attrs.get("href") or ""))
    if url is None:
        return None
    snippet = block.select_one(".result__snippet")
    return Result(link.text, url, snippet.text if snippet is not None else "")


def unwrapped(href: str) -> str | None:
    """Return the real target of a link, or None for an advertisement or a page of DuckDuckGo itself."""
    try:
        whole = urljoin(_HOME, href)
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


PROVIDER = Provider("duckduckgo", "https://html.duckduckgo.com", request, read, pause=1.5)
