"""Presentations: titles, bullets, tables, charts and notes, slide by slide."""

import io

import pytest

from .conftest import changed

pptx = pytest.importorskip("pptx")


@pytest.fixture(scope="module")
def slides() -> bytes:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    show = pptx.Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    first.shapes.title.text = "Hello"
    body = first.placeholders[1].text_frame
    body.text = "one"
    below = body.add_paragraph()
    below.text, below.level = "two", 1
    first.notes_slide.notes_text_frame.text = "say this"
    second = show.slides.add_slide(show.slide_layouts[6])
    table = second.shapes.add_table(2, 2, 0, 0, 900, 900).table
    for place, text in enumerate(("H", "I", "a|b", "c")):
        table.cell(place // 2, place % 2).text = text
    data = CategoryChartData()
    data.categories = ["x", "y"]
    data.add_series("S", (1.5, None))
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 900, 900, data)
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "in a group"
    second.element.set("show", "0")
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()


def test_slides(parse, slides):
    head, text, _ = parse(slides)
    assert text.split("\n") == [
        "--- slide 1 of 2 ---", "# Hello", "", "- one", "  - two", "", "Notes:", "say this",
        "--- slide 2 of 2: hidden ---", "| H | I |", "|---|---|", "| a\\|b | c |", "", "[chart]", "|  | S |",
        "|---|---|", "| x | 1.5 |", "| y |", "", "in a group", "",
    ]  # fmt: skip
    assert (head["kind"], head["reader"], head["count"]) == ("PowerPoint presentation", "python-pptx", 2)
    assert parse(slides, pages="2")[1].startswith("--- slide 2 of 2: hidden")


def test_a_damaged_slide_does_not_hide_the_others(parse, slides):
    without = changed(slides, {"ppt/slides/slide1.xml": lambda xml: xml.replace(b"<p:spTree>", b"<p:spTree><a/>")})
    head, text, _ = parse(without)
    assert "refused" in head or "in a group" in text
    assert "damaged" in parse(changed(slides, {"ppt/presentation.xml": lambda _: b"<x>"}))[0]["refused"]
