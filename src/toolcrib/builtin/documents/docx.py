"""Reads Word documents: mammoth turns them into HTML, and turbohtml turns that into Markdown. Macros are never read."""

from __future__ import annotations

import importlib
import io
from typing import Any
from xml.parsers.expat import ExpatError

from ...core.text import one_line
from .document import ParsedDocument, Part, Refused, cell, table_lines

_STYLES = """
p[style-name='Title'] => h1:fresh
comment-reference => sup
"""  # in addition to mammoth's own styles
_WEB = ("http://", "https://", "mailto:")
_MAX_SPAN = 1000


def open_docx(data: bytes, notes: tuple[str, ...] = ()) -> ParsedDocument:
    """Read headings, paragraphs, lists, tables, links, notes and comments. Raises Refused if the file is damaged."""
    mammoth: Any = importlib.import_module("mammoth")
    try:
        html: str = mammoth.convert_to_html(
            io.BytesIO(data),
            style_map=_STYLES,
            include_embedded_style_map=False,  # the file's own style map is untrusted
            external_file_access=False,
            convert_image=mammoth.images.img_element(_no_image),
        ).value
    except (KeyError, AttributeError, ValueError, TypeError, IndexError, ExpatError) as error:  # a part lacks something
        raise Refused(f"it is damaged: {type(error).__name__} {error}") from None
    text = to_markdown(html)
    return ParsedDocument(
        "Word document", "mammoth", "", 1, lambda _: Part(text.split("\n") if text else ()), notes=notes
    )


def to_markdown(html: str) -> str:
    """Return the Markdown of mammoth's HTML. Text that looks like Markdown is not escaped: a model reads it."""
    import turbohtml

    style = turbohtml.Markdown(
        escaping=turbohtml.Markdown.Escaping("none", asterisks=False, underscores=False),
        converters={
            "a": _link,
            "br": lambda _, text: "\n",
            "img": _image,
            "sub": _raised,
            "sup": _raised,
            "table": lambda table, _: _table(table, style),
        },
    )
    text = turbohtml.parse(html).to_markdown(style)
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _no_image(_: Any) -> dict[str, str]:
    """Return no attributes for an image: mammoth adds its description, which is enough."""
    return {"src": ""}


def _link(element: Any, text: str) -> str:
    address = str(element.attrs.get("href") or "")
    return f"[{text.strip()}]({address})" if text.strip() and address.startswith(_WEB) else text


def _image(element: Any, _: str) -> str:
    alt = one_line(str(element.attrs.get("alt") or ""))
    return f"[image: {alt}]" if alt else "[image]"


def _raised(element: Any, text: str) -> str:
    """Return a superscript or subscript; references to notes already have the form [1]."""
    return f"<{element.tag}>{text}</{element.tag}>" if text.strip() and not text.startswith("[") else text


def _table(table: Any, style: Any) -> str:
    found = table.select(":scope > * > tr > td, :scope > * > tr > th")
    if len(found) == 1:  # a table of one cell: a frame around a text
        return found[0].to_markdown(style)
    rows: list[list[str]] = []
    covered: dict[int, int] = {}  # column: number of further rows that a cell above covers
    for row in table.select(":scope > * > tr"):
        line: list[str] = []
        for each in (*row.select(":scope > td, :scope > th"), None):
            while covered.get(len(line), 0) > 0:
                covered[len(line)] -= 1
                line.append("")
            if each is not None:
                column = len(line)
                line += [_cell(each.to_markdown(style)), *[""] * (_span(each, "colspan") - 1)]
                covered.update(dict.fromkeys(range(column, len(line)), _span(each, "rowspan") - 1))
        rows.append(line)
    width = max(map(len, rows), default=0)
    return "\n".join(table_lines([*line, *[""] * (width - len(line))] for line in rows)) if width else ""


def _cell(text: str) -> str:
    """Return a cell's text. A table inside the cell loses the line below its header."""
    return cell("\n".join(line for line in text.split("\n") if not line.startswith("|---")))


def _span(element: Any, name: str) -> int:
    given = str(element.attrs.get(name) or "")
    return min(int(given), _MAX_SPAN) if given.isdigit() and int(given) > 0 else 1
