"""What `read_file` and `web_fetch` ask of the reader of documents, and what it answers."""

from __future__ import annotations

from dataclasses import field

from ..core.dataclass import dataclass
from ..core.output import ImageBlock


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A request: `pages` such as "1-3,7", from line `offset` of the first; at most `limit` lines and `budget` bytes."""

    pages: str | None = None
    offset: int = 1
    limit: int | None = None
    budget: int = 45_000


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document. `shown` are the numbers of its pages, `next` the pages and the line of the next read.

    `lines` is the number of lines of the last page, or None if its end was not reached.
    """

    kind: str
    reader: str
    unit: str
    count: int
    title: str
    notes: tuple[str, ...]
    shown: str
    next: tuple[str | None, int] | None
    lines: int | None
    text: str
    images: tuple[ImageBlock, ...] = field(repr=False)
