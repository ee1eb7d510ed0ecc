"""Reads PDF with PDFium: the text of each page in order, headings by letter size, and pages without text as images."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

from ...core.output import ImageBlock
from ...core.text import one_line
from .document import ParsedDocument, Part, Refused
from .picture import MAX_SIDE, saved

LITTLE = 20  # characters: a page with an image and less text than this counts as scanned
_HEADING = ((1.7, "# "), (1.35, "## "), (1.15, "### "))  # in multiples of the height of most lines
_HEADING_CHARS = 150
_MAX_DPI = 200
_QUALITY = 80
_DRAWN = 40  # a page without text and with at least this many objects counts as a drawing
_MAX_OBJECTS = 2000  # the most objects that are checked for that


def open_pdf(data: bytes) -> ParsedDocument:
    """Open a PDF. The values in its forms are part of the text. Raises Refused if it cannot be read."""
    pdfium: Any = importlib.import_module("pypdfium2")
    try:
        pdf = pdfium.PdfDocument(data)
        pdf.init_forms()
        count = len(pdf)
    except pdfium.PdfiumError as error:
        raise Refused(_why(error)) from None

    def part(number: int) -> Part:
        try:
            page = pdf[number - 1]
        except pdfium.PdfiumError:
            return Part((f"(page {number} is damaged)",))
        return _page(pdf, page, number)

    title = one_line(str(pdf.get_metadata_value("Title")))[:300]
    return ParsedDocument("PDF document", "pypdfium2", "page", count, part, title)


def _why(error: Any) -> str:
    raw: Any = importlib.import_module("pypdfium2.raw")
    code = getattr(error, "err_code", None)
    if code == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
        return "it is protected by a password; save a copy without one"
    if code == raw.FPDF_ERR_SECURITY:
        return "it is encrypted in a way that is not supported; save a copy without protection"
    return f"it is damaged, or no PDF ({error})"


def _page(pdf: Any, page: Any, number: int) -> Part:
    if pdf.formenv is not None:  # so that the values in forms become ordinary text
        page.flatten()
        page = pdf[number - 1]
    lines = _lines(page)
    chars = sum(len(line.strip()) for line in lines)
    if chars < LITTLE and _is_picture(page, chars):
        return Part(lines, (_rendered(page),))
    return Part(lines)


def _lines(page: Any) -> list[str]:
    text_page = page.get_textpage()
    text = text_page.get_text_range(errors="replace")
    if not text.strip():
        return []
    lines = text.split("\r\n")
    heights = _heights(text_page, lines, len(text))
    common = _common(heights, lines)
    found: list[str] = []
    for line, height in zip(lines, heights, strict=True):
        shown = line.replace("\ufffe", "").replace("\x02", "").rstrip()  # PDFium's marks where it joined a divided word
        if shown.strip():
            found.append(_mark(shown, height / common if common else 0) + shown)
        elif found and found[-1]:
            found.append("")
    return found


def _heights(text_page: Any, lines: list[str], length: int) -> list[float]:
    """Return the height of each line's letters, 0 if unknown. PDFium counts in UTF-16 units, unlike Python."""
    if text_page.count_chars() != length:
        return [0.0] * len(lines)
    heights: list[float] = []
    at = 0
    for line in lines:
        index = at + len(line) - len(line.lstrip())
        heights.append(_height(text_page, index) if line.strip() else 0.0)
        at += len(line) + 2
    return heights


def _height(text_page: Any, index: int) -> float:
    pdfium: Any = importlib.import_module("pypdfium2")
    try:
        _, bottom, _, top = text_page.get_charbox(index, loose=True)
    except (pdfium.PdfiumError, IndexError):
        return 0.0
    return top - bottom


def _common(heights: list[float], lines: list[str]) -> float:
    weight: Counter[float] = Counter()
    for height, line in zip(heights, lines, strict=True):
        if height > 0:
            weight[round(height, 1)] += len(line)
    return weight.most_common(1)[0][0] if weight else 0.0


def _mark(line: str, times: float) -> str:
    if len(line) <= _HEADING_CHARS and any(map(str.isalpha, line)):
        for least, mark in _HEADING:
            if times >= least:
                return mark
    return ""


def _is_picture(page: Any, chars: int) -> bool:
    """Return whether a page with hardly any text still shows something: an image, or many lines."""
    raw: Any = importlib.import_module("pypdfium2.raw")
    drawn = 0
    for number, each in enumerate(page.get_objects(max_depth=5)):
        if each.type == raw.FPDF_PAGEOBJ_IMAGE:
            return True
        drawn += each.type in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_SHADING)
        if number > _MAX_OBJECTS:
            break
    return drawn >= _DRAWN or (drawn > 0 and not chars)


def _rendered(page: Any) -> ImageBlock:
    width, height = page.get_size()
    scale = min(MAX_SIDE / max(width, height, 1), _MAX_DPI / 72)
    return saved(page.render(scale=scale).to_pil().convert("RGB"), "JPEG", quality=_QUALITY)
