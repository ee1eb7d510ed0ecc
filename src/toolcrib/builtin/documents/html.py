"""Turns mammoth's HTML of a Word document into Markdown. This HTML is well-formed and uses few elements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, XMLParser

from ...core.text import one_line
from .tables import cell, table_lines

_BLOCKS = frozenset({"p", "ul", "ol", "table", "dl", "dd", "dt", "div", "h1", "h2", "h3", "h4", "h5", "h6", "hr"})
_AROUND = {"strong": "**", "em": "*", "s": "~~"}
_KEPT = frozenset({"sup", "sub"})
_WEB = ("http://", "https://", "mailto:")
_MAX_SPAN = 1000


def to_markdown(html: str) -> str:
    """Return the Markdown of an HTML fragment."""
    parser = XMLParser()  # noqa: S314  # mammoth wrote it: only the five standard entities
    parser.feed(f"<div>{html}</div>")
    root = parser.close()
    text = "\n".join(_blocks(root))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _blocks(element: Element) -> Iterator[str]:
    """Yield the lines of an element's content, with an empty line after each block."""
    run: list[str] = [_text(element.text)]
    for child in element:
        if child.tag in _BLOCKS:
            yield from _paragraph("".join(run))
            run = []
            yield from _block(child)
        else:
            run.append(_inline(child))
        run.append(_text(child.tail))
    yield from _paragraph("".join(run))


def _paragraph(text: str) -> Iterator[str]:
    text = text.strip()
    if text:
        yield from text.split("\n")
        yield ""


def _block(element: Element) -> Iterator[str]:
    tag = element.tag
    if tag[0] == "h" and tag[1:].isdigit():
        text = one_line(_inside(element))
        if text:
            yield f"{'#' * int(tag[1:])} {text}"
            yield ""
    elif tag in ("ul", "ol"):
        yield from _list(element)
        yield ""
    elif tag == "table":
        yield from _table(element)
    else:
        yield from _blocks(element)


def _list(element: Element) -> Iterator[str]:
    for number, item in enumerate(element, 1):
        mark = "- " if element.tag == "ul" else f"{number}. "
        first = True
        for line in _item_lines(item):
            yield ((mark if first else " " * len(mark)) + line).rstrip()
            first = False


def _item_lines(item: Element) -> list[str]:
    lines = [line for line in _blocks(item) if line]
    return lines or [""]


def _table(element: Element) -> Iterator[str]:
    rows = [_row(row) for row in element.iter("tr") if _owner(element, row)]
    if sum(map(len, rows)) == 1:  # a table of one cell: a frame around a text
        for frame in element.iter("td"):
            yield from _blocks(frame)
            return
    width = max(map(len, rows), default=0)
    if not width:
        return
    yield from table_lines([*row, *[""] * (width - len(row))] for row in _spread(element))
    yield ""


def _owner(table: Element, row: Element) -> bool:
    return any(row is each for part in (table, *(p for p in table if p.tag in ("thead", "tbody"))) for each in part)


def _row(row: Element) -> list[str]:
    found: list[str] = []
    for each in row:
        found.append(_cell(each))
        found += [""] * (_span(each, "colspan") - 1)
    return found


def _spread(table: Element) -> list[list[str]]:
    """Return the cells of each row in their columns, with an empty cell under each cell that spans rows."""
    taken: dict[int, int] = {}  # column: number of further rows that a cell above covers
    rows: list[list[str]] = []
    for row in table.iter("tr"):
        if not _owner(table, row):
            continue
        cells: list[str] = []

        def skip(cells: list[str] = cells) -> None:
            while taken.get(len(cells), 0) > 0:
                taken[len(cells)] -= 1
                cells.append("")

        for each in row:
            skip()
            column, down = len(cells), _span(each, "rowspan")
            cells.append(_cell(each))
            cells += [""] * (_span(each, "colspan") - 1)
            if down > 1:
                taken.update(dict.fromkeys(range(column, len(cells)), down - 1))
        skip()
        rows.append(cells)
    width = max(map(len, rows))
    return [[*cells, *[""] * (width - len(cells))] for cells in rows]


def _span(element: Element, name: str) -> int:
    given = element.get(name, "1")
    return min(int(given), _MAX_SPAN) if given.isdigit() and int(given) > 0 else 1


def _cell(element: Element) -> str:
    return cell("\n".join(line.strip() for line in _blocks(element) if line and not line.startswith("|---")))


def _inside(element: Element) -> str:
    found = [_text(element.text)]
    for child in element:
        found += [_inline(child), _text(child.tail)]
    return "".join(found)


def _inline(element: Element) -> str:
    tag = element.tag
    if tag == "br":
        return "\n"
    if tag == "img":
        alt = one_line(element.get("alt") or "")
        return f"[image: {alt}]" if alt else "[image]"
    text = _inside(element)
    if not text.strip():
        return text
    if tag in _AROUND:
        return _around(text, _AROUND[tag])
    if tag == "a" and (element.get("href") or "").startswith(_WEB):
        return f"[{text.strip()}]({element.get('href')})"
    if tag in _KEPT and not text.startswith("["):  # references to notes already have the form [1]
        return f"<{tag}>{text}</{tag}>"
    return text


def _around(text: str, mark: str) -> str:
    """Put an emphasis mark around a text without the blanks at its ends: Markdown does not allow them inside."""
    inner = text.strip()
    start = text[: len(text) - len(text.lstrip())]
    return f"{start}{mark}{inner}{mark}{text[len(text.rstrip()) :]}"


def _text(text: str | None) -> str:
    return text.replace("\t", " ") if text else ""
