"""Prepares the lxml tree of a page for trafilatura.

It removes invisible elements and rewrites elements that trafilatura handles wrongly. For each of these repairs there is
a page in benchmarks/pages.json that lost text without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..core.text import one_line

# A list is a menu if it has hardly anything but links and the links are short.
MENU_LINKS = 4
MENU_SHARE = 0.8
MENU_LINK_CHARS = 30
# A section is prose if it has at least this length and at most this share of links.
SECTION_CHARS = 500
SECTION_SHARE = 0.3

_UNSEEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_INLINE = frozenset(
    {
        "a", "abbr", "b", "bdi", "bdo", "big", "br", "cite", "code", "del", "dfn", "em", "font", "i", "img", "ins",
        "kbd", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var",
        "wbr",
    }
)  # fmt: skip


def tidy(tree: Any, url: str) -> None:
    """Make all the repairs in `tree`, in place. `url` is the address of the page."""
    for element in list(tree.iter()):
        if isinstance(element.tag, str) and is_unseen(element.attrib):
            _drop(element)
    for element in list(tree.iter("nav")):
        _drop(element)
    for element in list(tree.iter("ul", "ol")):
        if _is_menu(element):
            _drop(element)
    _sections(tree)
    _links(tree, url)
    _code(tree)
    _frames(tree)
    _paragraphs(tree)
    _answers(tree)


def is_unseen(attributes: Mapping[str, Any]) -> bool:
    """Return whether the attributes of an element say that the element is not shown."""
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = attributes.get("style")
    return bool(style) and _UNSEEN.search(str(style)) is not None


def absolute(base: str, href: str) -> str | None:
    """Return the absolute address of a link, or None if it is not a web address."""
    try:
        whole = urljoin(base, href.strip())
        scheme = urlsplit(whole).scheme
    except ValueError:
        return None
    return whole if scheme in ("http", "https", "mailto") else None


def _drop(element: Any) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _is_menu(element: Any) -> bool:
    links = list(element.iter("a"))
    if len(links) < MENU_LINKS or element.getparent() is None:
        return False
    whole = _size(element)
    linked = sum(map(_size, links))
    return bool(whole) and linked / whole >= MENU_SHARE and linked / len(links) < MENU_LINK_CHARS


def _size(element: Any) -> int:
    return len(one_line(element.text_content()))


def _sections(tree: Any) -> None:
    """Repair sections whose names come from their headings.

    In documentation, `id="related-objects"` is the name of such a section and not of a list of related articles.
    """
    for section in list(tree.iter("section", "div")):
        named = section.get("id")
        if not named or (section.tag == "div" and "section" not in (section.get("class") or "").split()):
            continue
        whole = _size(section)
        if whole >= SECTION_CHARS and sum(map(_size, section.iter("a"))) < SECTION_SHARE * whole:
            del section.attrib["id"]


def _links(tree: Any, url: str) -> None:
    """Give each link its absolute address, or none if it leads nowhere. Remove links without visible content.

    An empty link in a heading (`<h2><a class="anchor"/>Title</h2>`) makes trafilatura lose the heading's text.
    """
    for link in list(tree.iter("a")):
        if link.getparent() is None:
            continue
        if not link.text_content().strip() and next(link.iter("img"), None) is None:
            link.drop_tree()
            continue
        href = link.get("href")
        if href is not None:
            whole = absolute(url, href)
            if whole is None:
                del link.attrib["href"]
            else:
                link.set("href", whole)


def _code(tree: Any) -> None:
    """Rewrite code into the form that becomes a fenced block. Inline code with a link becomes ordinary text.

    Otherwise trafilatura would lose the text behind the link.
    """
    for block in list(tree.iter("pre")):
        if block.getparent() is None:
            continue
        text = block.text_content().strip("\n")
        for child in list(block):
            block.remove(child)
        block.text = None
        inner = block.makeelement("code")
        inner.text = text
        block.append(inner)
    for code in list(tree.iter("code")):
        if code.getparent() is not None and code.find(".//a") is not None:
            code.drop_tag()


def _frames(tree: Any) -> None:
    """Replace layout tables: a table of one row with headings only places things side by side."""
    for table in list(tree.iter("table")):
        if len(table.findall(".//tr")) == 1 and next(table.iter(*_HEADINGS), None) is not None:
            for part in list(table.iter("table", "tbody", "tr", "td", "th")):
                part.tag = "div"


def _paragraphs(tree: Any) -> None:
    """Turn each `div` that has only text and inline elements into a paragraph."""
    for div in list(tree.iter("div")):
        own = (div.text or "").strip() or any((child.tail or "").strip() for child in div)
        if own and _in_line(div):
            div.tag = "p"


def _answers(tree: Any) -> None:
    """Turn an answer that shares one `div` with its quotation, as in forums, into a paragraph.

    Without that, trafilatura loses short answers.
    """
    for block in _quotations(tree):
        parent = block.getparent()
        if block.tag in _INLINE or parent is None or parent.tag != "div":
            continue
        behind: list[Any] = list(takewhile(_is_in_line, block.itersiblings()))
        if any((each.tail or "").strip() for each in (block, *behind)):
            answer = parent.makeelement("p")
            answer.text, block.tail = block.tail, None
            answer.extend(behind)
            block.addnext(answer)


def _quotations(tree: Any) -> list[Any]:
    """Return the quotations and the elements around them, each once."""
    found: dict[Any, None] = {}
    for start in tree.iter("*"):
        each: Any = start
        if each.tag == "blockquote" or "quote" in each.get("class", "").lower():
            while each is not None and each not in found:
                found[each] = None
                each = each.getparent()
    return list(found)


def _is_in_line(element: Any) -> bool:
    return element.tag in _INLINE and _in_line(element)


def _in_line(element: Any) -> bool:
    return all(each.tag in _INLINE for each in element.iterdescendants() if isinstance(each.tag, str))
