"""Rows as lines of a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...core.text import one_line


def cell(text: str) -> str:
    """A text as it can stand in a cell: on one line, no bar in it."""
    if not text:
        return ""
    lines = [one_line(line) for line in text.replace("\\", "\\\\").replace("|", "\\|").splitlines()]
    return "<br>".join(line for line in lines if line)


def row_line(cells: Sequence[str]) -> str:
    """One row; empty cells at its end are left out, which Markdown allows."""
    last = len(cells)
    while last > 1 and not cells[last - 1]:
        last -= 1
    return f"| {' | '.join(cells[:last])} |"


def table_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table whose first row is its head. Cells are as `cell` made them."""
    for number, row in enumerate(rows):
        if number == 0:
            yield f"| {' | '.join(row)} |"
            yield f"|{'---|' * len(row)}"
        else:
            yield row_line(row)
