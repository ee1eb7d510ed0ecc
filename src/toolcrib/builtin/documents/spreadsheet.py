"""Reads spreadsheets (xlsx, xlsb, xls, ods) with calamine: each sheet is a table with column letters, row numbers."""

from __future__ import annotations

import datetime
import importlib
import io
import zipfile
from collections.abc import Iterator
from typing import Any

from ...core.text import lazy_regex
from .document import ParsedDocument, Part, Refused, cell, row_line

_UNCALCULATED = lazy_regex(rb"(?:</f>|<f\b[^<>]*/>)\s*(?:(?:<v\s*/>|<v></v>)\s*)?</c>")
_LOOKED_THROUGH = 64 << 20  # bytes of a sheet that are searched
_PIECE = 1 << 20


def open_spreadsheet(data: bytes, notes: tuple[str, ...] = ()) -> ParsedDocument:
    """Open a spreadsheet with all sheets, also hidden ones. Raises Refused if the file is damaged.

    The values are those that the program which saved the file calculated last.
    """
    calamine: Any = importlib.import_module("python_calamine")
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        sheets = [meta for meta in book.sheets_metadata if meta.typ == calamine.SheetTypeEnum.WorkSheet]
    except calamine.PasswordError:
        raise Refused("it is protected by a password") from None
    except (calamine.CalamineError, ValueError, OSError) as error:
        raise Refused(f"it is damaged, or no spreadsheet: {error}") from None

    def part(number: int) -> Part:
        meta = sheets[number - 1]
        hidden = "" if meta.visible == calamine.SheetVisibleEnum.Visible else " (hidden)"
        try:
            sheet = book.get_sheet_by_name(meta.name)
        except calamine.CalamineError as error:
            raise Refused(f"sheet {number} is damaged: {error}") from None
        return Part(_lines(sheet), name=f"{' '.join(meta.name.split())}{hidden}")

    return ParsedDocument("spreadsheet", "calamine", "sheet", len(sheets), part, notes=(*notes, *_uncalculated(data)))


def _lines(sheet: Any) -> Iterator[str]:
    if sheet.start is None:
        return
    column, width = sheet.start[1], sheet.width
    yield f"| | {' | '.join(_letters(column + each) for each in range(width))} |"
    yield f"|{'---|' * (width + 1)}"
    empty = row_line([""])
    for number, values in enumerate(sheet.iter_rows(), 1):
        line = row_line([_shown(value) for value in values])
        if line != empty:
            yield f"| {number} {line}"


def _letters(column: int) -> str:
    """Return the letters of a column: A for 0, Z for 25, AA for 26."""
    text, column = "", column + 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(65 + rest) + text
    return text


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return cell(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"  # as Excel shows it
    if isinstance(value, datetime.datetime):
        return str(value.date()) if value.time() == datetime.time() else value.isoformat(" ")
    return str(value)


def _uncalculated(data: bytes) -> tuple[str, ...]:
    """Return a note if the file has formulas without calculated values: their cells are empty."""
    if not data.startswith(b"PK"):
        return ()
    count = 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.filename.startswith("xl/worksheets/") and info.filename.endswith(".xml"):
                with archive.open(info) as member:
                    count += _count(member)
    if not count:
        return ()
    return (f"formulas without a stored result, shown empty: {count:,}; a spreadsheet program stores them on saving",)


def _count(member: Any) -> int:
    count, seen, kept = 0, 0, b""
    while seen < _LOOKED_THROUGH and (piece := member.read(_PIECE)):
        seen += len(piece)
        piece = kept + piece
        end = 0
        for match in _UNCALCULATED.finditer(piece):
            count, end = count + 1, match.end()
        kept = piece[max(end, len(piece) - 200) :]
    return count
