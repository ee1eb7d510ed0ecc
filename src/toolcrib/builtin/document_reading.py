"""What do `read_file` and `web_fetch` ask of whatever reads documents, and what do they get?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..boundary.worker import FileBytes
from ..core.output import ImageBlock, ToolOutput
from .settings import DocumentSettings


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """`pages` as in "1-3,7"; from line `offset` of the first of them; at most `limit` lines and `budget` bytes."""

    pages: str | None = None
    offset: int = 1
    limit: int | None = None
    budget: int = 45_000


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What was read. `shown` are the numbers of its pages, `next` the pages and the line to go on with.

    `lines` is how many lines the last page has, None where its end was not reached.
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
    """Reads documents and images. `builtin.documents` has one."""

    settings: DocumentSettings

    def read_output(
        self, file: FileBytes, container: str, name: str, wanted: DocumentRequest, cancelled: Callable[[], bool]
    ) -> ToolOutput:
        """A document out of an open file, as `read_file` says it. Waits in this thread. Raises ToolError."""
        ...

    async def read_bytes(self, data: bytes, container: str, name: str, wanted: DocumentRequest) -> DocumentText:
        """A document out of bytes, without blocking the loop. Raises ToolError."""
        ...
