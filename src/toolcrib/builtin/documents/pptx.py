"""Reads PowerPoint with python-pptx: each slide's title, texts, tables, charts and notes, in the file's order."""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Iterator
from typing import Any

from ...core.text import one_line
from .document import ParsedDocument, Part, Refused, cell, table_lines

_DEPTH = 20  # the most levels of nested groups


def open_pptx(data: bytes, notes: tuple[str, ...] = ()) -> ParsedDocument:
    """Open a presentation. Hidden slides are included and marked as hidden. Raises Refused if the file is damaged."""
    pptx: Any = importlib.import_module("pptx")
    damage = _damage()
    try:
        slides: list[Any] = list(pptx.Presentation(io.BytesIO(data)).slides)
    except damage as error:
        raise Refused(f"it is damaged: {error}") from None

    def part(number: int) -> Part:
        slide = slides[number - 1]
        try:
            lines = list(_slide(slide))
        except damage as error:
            lines = [f"(this slide is damaged: {error})"]
        return Part(lines, name="hidden" if slide.element.get("show") in ("0", "false") else "")

    return ParsedDocument("PowerPoint presentation", "python-pptx", "slide", len(slides), part, notes=notes)


def _damage() -> tuple[type[Exception], ...]:
    """Return the errors that python-pptx raises for a damaged file."""
    return (
        importlib.import_module("pptx.exc").PythonPptxError,
        importlib.import_module("lxml.etree").LxmlError,
        KeyError, ValueError, AttributeError, IndexError, TypeError, zipfile.BadZipFile,
    )  # fmt: skip


def _slide(slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and title.has_text_frame and title.text_frame.text.strip():
        yield f"# {' '.join(title.text_frame.text.split())}"
        yield ""
    own = None if title is None else title.shape_id
    yield from _shapes((shape for shape in slide.shapes if shape.shape_id != own), 0)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        said = slide.notes_slide.notes_text_frame.text.strip()
        if said:
            yield "Notes:"
            yield from said.splitlines()


def _shapes(shapes: Any, depth: int) -> Iterator[str]:
    for shape in shapes:
        if shape.element.tag.endswith("}grpSp"):
            if depth < _DEPTH:
                yield from _shapes(shape.shapes, depth + 1)
            continue
        lines = list(_shape(shape))
        if any(line.strip() for line in lines):
            yield from lines
            yield ""


def _shape(shape: Any) -> Iterator[str]:
    if shape.has_text_frame:
        yield from _text(shape)
    elif shape.has_table:
        yield from table_lines([cell(each.text) for each in row.cells] for row in shape.table.rows)
    elif shape.has_chart:
        yield from _chart(shape.chart)
    elif shape.element.tag.endswith("}pic"):
        yield _picture(shape)
    elif shape.element.tag.endswith("}graphicFrame"):
        yield "[a diagram or embedded object, which is not read]"


def _text(shape: Any) -> Iterator[str]:
    listed = shape.is_placeholder and sum(bool(each.text.strip()) for each in shape.text_frame.paragraphs) > 1
    for paragraph in shape.text_frame.paragraphs:
        text = one_line("".join(map(_run, paragraph.runs))) or one_line(paragraph.text)
        if text:
            yield f"{'  ' * paragraph.level}- {text}" if listed or paragraph.level else text


def _run(run: Any) -> str:
    try:
        address = run.hyperlink.address
    except KeyError:
        address = None
    return f"[{run.text}]({address})" if address and run.text.strip() else run.text


def _picture(shape: Any) -> str:
    said = one_line(shape.element.xpath("string(.//p:cNvPr/@descr)") or "")
    return f"[image: {said}]" if said else "[image]"


def _chart(chart: Any) -> Iterator[str]:
    name = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
    yield f"[chart{': ' + ' '.join(name.split()) if name.strip() else ''}]"
    for plot in chart.plots:
        series = list(plot.series)
        categories = [str(each) for each in plot.categories]
        head = ["", *(cell(each.name) for each in series)]
        rows = [
            [cell(category), *(_value(each.values, number) for each in series)]
            for number, category in enumerate(categories)
        ]
        yield from table_lines([head, *rows])


def _value(values: Any, number: int) -> str:
    value = values[number] if number < len(values) else None
    return "" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)
