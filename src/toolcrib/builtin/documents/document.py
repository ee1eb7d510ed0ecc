"""The result of every reader: a document with numbered parts, of Markdown and images. And the lines of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ...core.dataclass import dataclass
from ...core.output import ImageBlock
from ...core.text import one_line


class Refused(Exception):
    """Says that a document cannot be read. The text gives the model the reason and advice."""


@dataclass(frozen=True, slots=True)
class Part:
    """A page, slide or sheet: its lines and its images. `name` is shown next to its number."""

    lines: Iterable[str]
    pictures: tuple[ImageBlock, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A parsed document. `kind` is its kind in words, `reader` the library that reads it.

    `unit` is the word for one part, or "" if the document has no parts. `part(n)` makes part n, from 1 to `count`.
    `notes` are important remarks for the reader of the text.
    """

    kind: str
    reader: str
    unit: str
    count: int
    part: Callable[[int], Part]
    title: str = ""
    notes: tuple[str, ...] = ()


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
