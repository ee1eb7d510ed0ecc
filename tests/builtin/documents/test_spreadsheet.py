"""Spreadsheets: values as they were last calculated, in tables with the letters and numbers of their cells."""

import datetime

import pytest

from toolcrib.builtin.documents.spreadsheet import _letters

from .conftest import DATA, changed, xlsx


def fill(book):
    data = book.add_worksheet("Data")
    data.write_row(0, 0, ["Name", "Count", "When"])
    data.write_row(1, 0, ["a|b\nnext", 3, 0.1 + 0.2])
    dates = book.add_format({"num_format": "yyyy-mm-dd hh:mm"})
    data.write_datetime(2, 2, datetime.datetime(2024, 5, 6), dates)
    data.write_datetime(3, 2, datetime.datetime(2024, 5, 6, 7, 8), dates)
    data.write_boolean(3, 0, True)
    hidden = book.add_worksheet("Hidden")
    hidden.write(4, 2, "C5")
    hidden.hide()
    book.add_worksheet("Empty")


def test_sheets(parse):
    head, text, _ = parse(xlsx(fill))
    assert text.split("\n") == [
        "--- sheet 1 of 3: Data ---", "| | A | B | C |", "|---|---|---|---|", "| 1 | Name | Count | When |",
        "| 2 | a\\|b<br>next | 3 | 0.3 |", "| 3 |  |  | 2024-05-06 |", "| 4 | TRUE |  | 2024-05-06 07:08:00 |",
        "--- sheet 2 of 3: Hidden (hidden) ---", "| | C |", "|---|---|", "| 5 | C5 |", "--- sheet 3 of 3: Empty ---",
    ]  # fmt: skip
    assert (head["kind"], head["reader"], head["shown"]) == ("spreadsheet", "calamine", "1-3")
    assert parse(xlsx(fill), pages="2")[1].startswith("--- sheet 2 of 3")


@pytest.mark.parametrize("name", ["old.xls", "sheet.ods"])
def test_other_formats(parse, name):
    head, text, _ = parse((DATA / name).read_bytes())
    assert head["kind"] == "spreadsheet"
    assert "| 2 | 42 | 2.5 |" in text or "| 2 | 10 | 11 |" in text


def test_rows_can_be_read_on(parse):
    data = xlsx(lambda book: [book.add_worksheet(name).write_column(0, 0, range(4000)) for name in ("a", "b")])
    head, text, _ = parse(data, budget=20_000)
    seen = [line.split()[3] for line in text.split("\n")[3:]]
    while head["next"] is not None:
        pages, offset = head["next"]
        head, text, _ = parse(data, budget=20_000, pages=pages, offset=offset)
        seen += [line.split()[3] for line in text.split("\n") if line[:3] not in ("---", "| |", "|--")]
    assert seen == [str(n) for n in range(4000)] * 2


def test_formulas_nobody_calculated_are_named(parse):
    data = xlsx(lambda book: book.add_worksheet().write_formula("A1", "=1+1"))
    assert parse(data)[0]["notes"] == ()  # it has a stored 0
    bare = changed(data, {"xl/worksheets/sheet1.xml": lambda sheet: sheet.replace(b"<v>0</v>", b"")})
    assert "without a stored result, shown empty: 1" in parse(bare)[0]["notes"][0]


def test_a_declared_dimension_is_not_believed(parse):
    data = changed(
        xlsx(fill), {"xl/worksheets/sheet1.xml": lambda sheet: sheet.replace(b'"A1:C4"', b'"A1:XFD1048576"')}
    )
    assert parse(data)[1] == parse(xlsx(fill))[1]


def test_letters():
    assert [_letters(n) for n in (0, 25, 26, 701, 702, 16383)] == ["A", "Z", "AA", "ZZ", "AAA", "XFD"]
