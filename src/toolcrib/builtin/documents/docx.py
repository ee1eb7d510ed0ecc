"""Reads Word documents: mammoth turns them into HTML, and the HTML becomes Markdown. Macros are never read."""

from __future__ import annotations

import importlib
import io
from typing import Any
from xml.parsers.expat import ExpatError

from .document import ParsedDocument, Part, Refused

_STYLES = """
p[style-name='Title'] => h1:fresh
comment-reference => sup
"""  # in addition to mammoth's own styles


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
    except (
        KeyError,
        AttributeError,
        ValueError,
        TypeError,
        IndexError,
        ExpatError,
    ) as error:  # a part lacks something that it must have
        raise Refused(f"it is damaged: {type(error).__name__} {error}") from None
    from .html import to_markdown

    lines: list[str] = to_markdown(html).split("\n")
    return ParsedDocument(
        "Word document", "mammoth", "", 1, lambda _: Part(lines if lines != [""] else ()), notes=notes
    )


def _no_image(_: Any) -> dict[str, str]:
    """Return no attributes for an image: mammoth adds its description, which is enough."""
    return {"src": ""}
