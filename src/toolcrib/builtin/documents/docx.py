"""Word documents: mammoth makes HTML of them, and that becomes Markdown. Macros are never looked at."""

from __future__ import annotations

import importlib
import io
from typing import Any
from xml.parsers.expat import ExpatError

from .document import ParsedDocument, Part, Refused

_STYLES = """
p[style-name='Title'] => h1:fresh
comment-reference => sup
"""  # beside mammoth's own


def open_docx(data: bytes, notes: tuple[str, ...] = ()) -> ParsedDocument:
    """Headings, paragraphs, lists, tables, links, notes and comments. Raises Refused."""
    mammoth: Any = importlib.import_module("mammoth")
    try:
        html: str = mammoth.convert_to_html(
            io.BytesIO(data),
            style_map=_STYLES,
            include_embedded_style_map=False,  # what the file says about itself
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
    ) as error:  # what its parts must have
        raise Refused(f"it is damaged: {type(error).__name__} {error}") from None
    from .html import to_markdown

    lines: list[str] = to_markdown(html).split("\n")
    return ParsedDocument(
        "Word document", "mammoth", "", 1, lambda _: Part(lines if lines != [""] else ()), notes=notes
    )


def _no_image(_: Any) -> dict[str, str]:
    """Images are named by their description, which mammoth adds."""
    return {"src": ""}
