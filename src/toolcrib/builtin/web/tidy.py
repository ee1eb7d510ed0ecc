"""Prepares the lxml tree of a page for trafilatura.

It removes invisible elements and menus, gives links their whole addresses, and rewrites what trafilatura handles
wrongly on any page: code with other elements in it, sections that are named after their headings, and `<u>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from ...core.text import lazy_regex, one_line

# A list is a menu if it has hardly anything but links and the links are short.
MENU_LINKS = 4
MENU_SHARE = 0.8
MENU_LINK_CHARS = 30
# A section is prose if it has at least this length and at most this share of links.
SECTION_CHARS = 500
SECTION_SHARE = 0.3

_UNSEEN = lazy_regex(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)


def tidy(tree: Any, url: str) -> None:
    """Make all the repairs in `tree`, in place. `url` is the address of the page."""
    for element in list(tree.iter()):
        if isinstance(element.tag, str) and is_unseen(element.attrib):
            _drop(element)
    for element in list(tree.iter("ul", "ol")):
        if _is_menu(element):
            _drop(element)
    for element in list(tree.iter("u")):  # Markdown has no underlining
        if element.getparent() is not None:
            element.drop_tag()
    _sections(tree)
    _links(tree, url)
    _code(tree)


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
