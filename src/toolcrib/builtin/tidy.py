"""Makes a page's tree (lxml's) ready for trafilatura: what nobody sees is out, what it stumbles over is put plainly.

Each of the repairs has a page in benchmarks/pages.json that lost text without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..core.text import one_line

# A list is a menu if it is hardly more than links and these are short.
MENU_LINKS = 4
MENU_SHARE = 0.8
MENU_LINK_CHARS = 30
# A section is prose if it is this long and no more of it than this is links.
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
    """All of it, in place. `url` is the page's."""
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
    """Whether an element says of itself that it is not shown."""
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = attributes.get("style")
    return bool(style) and _UNSEEN.search(str(style)) is not None


def absolute(base: str, href: str) -> str | None:
    """A link's whole address; None for what is no web address."""
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
    """A section of documentation is named after its heading: `id="related-objects"` is no list of related articles."""
    for section in list(tree.iter("section", "div")):
        named = section.get("id")
        if not named or (section.tag == "div" and "section" not in (section.get("class") or "").split()):
            continue
        whole = _size(section)
        if whole >= SECTION_CHARS and sum(map(_size, section.iter("a"))) < SECTION_SHARE * whole:
            del section.attrib["id"]


def _links(tree: Any, url: str) -> None:
    """Links get their whole address; those that lead nowhere, or have nothing to be seen, are none.

    An empty one in a heading (`<h2><a class="anchor"/>Title</h2>`) makes trafilatura lose the heading's text.
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
    """Code in the form that becomes a fenced block; a link in code is a link, or the text behind it is lost."""
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
    """A table of one row that holds headings is there to place things side by side."""
    for table in list(tree.iter("table")):
        if len(table.findall(".//tr")) == 1 and next(table.iter(*_HEADINGS), None) is not None:
            for part in list(table.iter("table", "tbody", "tr", "td", "th")):
                part.tag = "div"


def _paragraphs(tree: Any) -> None:
    """A `div` of text and nothing but what stands in lines is a paragraph."""
    for div in list(tree.iter("div")):
        own = (div.text or "").strip() or any((child.tail or "").strip() for child in div)
        if own and _in_line(div):
            div.tag = "p"


def _answers(tree: Any) -> None:
    """The answer under what it quotes, in one `div` with it as in forums, is a paragraph: short, it would be lost."""
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
    """What is quoted, and what that stands in, each once."""
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
