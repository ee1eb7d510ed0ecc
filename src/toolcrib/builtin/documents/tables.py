"""Turns rows into the lines of a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...core.text import one_line


def cell(text: str) -> str:
    """Return a text in a form that fits into a cell: on one line, with no bar in it."""
    if not text:
        return ""
    lines = [one_line(line) for line in text.replace("\\", "\\\\").replace("|", "\\|").splitlines()]
    return "<br>".join(line for line in lines if line)


def row_line(cells: Sequence[str]) -> str:
    """Return the line of one row. Empty cells at its end are left out, as Markdown allows."""
    last = len(cells)
    while last > 1 and not cells[last - 1]:
        last -= 1
    return f"| {' | '.join(cells[:last])} |"


def table_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose first row is the header. `cell` must have made the cells."""
    for number, row in enumerate(rows):
        if number == 0:
            yield f"| {' | '.join(row)} |"
            yield f"|{'---|' * len(row)}"
        else:
            yield row_line(row)
