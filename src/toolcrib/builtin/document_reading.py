"""The interface between `read_file` or `web_fetch` and the reader of documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..boundary.worker import FileBytes
from ..core.output import ImageBlock, ToolOutput
from .settings import DocumentSettings


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


class DocumentReading(Protocol):
    """The interface of a reader of documents and images. `builtin.documents` implements it."""

    settings: DocumentSettings

    def read_output(
        self, file: FileBytes, container: str, name: str, wanted: DocumentRequest, cancelled: Callable[[], bool]
    ) -> ToolOutput:
        """Read a document from an open file into an output of `read_file`. Waits in this thread. Raises ToolError."""
        ...

    async def read_bytes(self, data: bytes, container: str, name: str, wanted: DocumentRequest) -> DocumentText:
        """Read a document from bytes, without blocking the loop. Raises ToolError if it cannot be read."""
        ...
