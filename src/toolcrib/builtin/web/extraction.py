"""The work of the extraction process: it makes the text of a page from untrusted bytes.

`article` finds the main text with trafilatura. `page` turns the whole page into Markdown with turbohtml, which is quick
but does not know which parts are important. Both leave out the text that a person would not see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...core.bound import safe
from ...core.text import lazy_regex, one_line
from ..response_bodies import decode
from .tidy import absolute, is_unseen, tidy

KEPT = 1_000_000  # the most characters of a text in the answer
LITTLE = 200  # characters: an article shorter than this may be a mistake, or has lost its links and lines
DIFFER = 1.5  # the longer of two main texts is this many times longer than the other one: one of them is a mistake
MAX_TWICE = 2_000_000  # characters of a page in which the main text is looked for in two ways
LINKS, LINK_CHARS = 100, 8_000  # how many links of an article are listed
_INDENTED = 2
_TITLE_CHARS = 300

_NO_TEXT = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas")
_LINK = lazy_regex(r"(!?)\[((?:\\.|[^\[\]\\]){0,500})\]\(([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,2000})?)\)")
# Matches a link, or code (in which no link counts), whichever begins first.
_LINK_OR_CODE = lazy_regex(rf"{_LINK.pattern}|^```.*?^```[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_BLANK = lazy_regex(r"\n{3,}")
# Characters that people do not see but models read: Unicode tags and the second block of variation selectors.
_SMUGGLED = lazy_regex("[\U000e0000-\U000e01ef]")


def work(job: Mapping[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """Do one job: `what` is article, page, json or text; `charset`, `url` and `style` (markdown or text) are options.

    Returns `extractor`, `title`, `links`, `length` (the characters of the whole text), perhaps `doubt` (why the text
    may not be the whole article), and the text itself.
    """
    what, style = job["what"], job.get("style", "markdown")
    found: dict[str, Any] = {"extractor": "raw", "title": "", "links": []}
    text = decode(data, job.get("charset"), markup=what in ("article", "page") or bool(job.get("markup")))
    if what == "article":
        text = _article(text, job["url"], style, found)
    elif what == "page":
        text = _page(text, job["url"], style, found)
    elif what == "json":
        text = _json(text, found)
    text = safe(_SMUGGLED.sub("", text.replace("\r\n", "\n")))
    found["length"] = len(text)
    return found, text[:KEPT].encode("utf-8", "replace")


def _json(text: str, found: dict[str, Any]) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or JSON that was cut off
        return text
    found["extractor"] = "json"
    return json.dumps(value, indent=_INDENTED, ensure_ascii=False)


# --- the main text


def _article(html: str, url: str, style: str, found: dict[str, Any]) -> str:
    """Return the main text, or the whole page if the main text is short.

    The main text is looked for in two ways. If their results differ much in length, the first has lost most of the text
    or taken the menus, and the second is better.
    """
    text, doubt = main_text(html, url, style), ""
    if len(html) <= MAX_TWICE:
        other = main_text(html, url, style, careful=True)
        lengths = [len(without_targets(each)[0]) for each in (text, other)]
        if other and max(lengths) > DIFFER * min(lengths):
            text = other
            given = f"{lengths[0]:,} and {lengths[1]:,} characters"
            doubt = f"two ways to find the main text gave {given}; this is the second, without links"
    if len(text) < LITTLE and (page := _page(html, url, style, found)):
        return page
    found["extractor"] = "trafilatura"
    found["title"] = _title(html)
    if doubt:
        found["doubt"] = doubt
    text = without_title(text, found["title"])
    if style == "markdown":
        text, found["links"] = without_targets(text)
    return text


def main_text(html: str, url: str, style: str, careful: bool = False) -> str:
    """Return the main text that trafilatura finds with these settings, or "" if it finds none. `careful` lets it
    take more of the elements that may be text, and no links: many links in a text make it look like a menu."""
    import trafilatura
    from trafilatura.utils import load_html

    tree = load_html(html)
    if tree is None:
        return ""
    tidy(tree, url)
    text = trafilatura.extract(
        tree,
        fast=True,
        favor_recall=careful,
        include_comments=False,
        include_links=style == "markdown" and not careful,
        output_format="markdown" if style == "markdown" else "txt",
    )
    return text or ""


def without_title(text: str, title: str) -> str:
    """Return a text without a first line that repeats the title. The answer has the title in a separate field."""
    first, _, rest = text.lstrip().partition("\n")
    words = re.findall(r"\w+", _LINK.sub(r"\2", first))
    said = re.findall(r"\w+", title)
    repeated = len(words) > 1 and words == said[: len(words)]
    return rest.lstrip() if repeated and rest.strip() else text


def without_targets(markdown: str) -> tuple[str, list[list[str]]]:
    """Return Markdown with `[text]` for `[text](address)`, and the (text, address) of each link, in order, once.

    Addresses cost more tokens than the text around them, and interrupt its sentences. Code does not change.
    """
    links: dict[tuple[str, str], None] = {}
    room = LINK_CHARS

    def note(match: re.Match[str]) -> str:
        nonlocal room
        image, text, address = match.groups()
        if address is None:  # code
            return match[0]
        pair = (one_line(text), address)
        if not image and address and len(links) < LINKS and pair not in links and sum(map(len, pair)) <= room:
            links[pair] = None
            room -= sum(map(len, pair))
        return text if image else f"[{text}]"

    return _LINK_OR_CODE.sub(note, markdown), [list(pair) for pair in links]


# --- the whole page


def _page(html: str, url: str, style: str, found: dict[str, Any]) -> str:
    import turbohtml

    document = turbohtml.parse(html)
    found["extractor"] = "turbohtml"
    title = document.select_one("title")
    found["title"] = one_line(title.text)[:_TITLE_CHARS] if title is not None else ""
    body = document.select_one("body") or document
    for element in body.select(",".join(_NO_TEXT)):
        element.decompose()
    for element in body.select("[hidden],[style]"):
        if is_unseen(element.attrs):
            element.decompose()
    for image in body.select("img"):
        image.replace_with(turbohtml.Text(str(image.attrs.get("alt") or "")))
    for link in body.select("a[href]"):
        whole = absolute(url, str(link.attrs["href"]))
        if whole is None:
            link.unwrap()
        else:
            link.attrs["href"] = whole
    text = body.to_markdown() if style == "markdown" else body.to_text()
    return _BLANK.sub("\n\n", text).strip()


_TITLE = lazy_regex(r"<title\b[^>]{0,200}>([^<]{0,1000})", re.IGNORECASE)


def _title(html: str) -> str:
    import html as entities

    found = _TITLE.search(html[:500_000])
    return one_line(entities.unescape(found[1]))[:_TITLE_CHARS] if found else ""
