"""The work of the document process: it turns untrusted bytes into Markdown and images, one page of output at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...core.bound import safe
from ...core.output import ImageBlock
from ...core.text import lazy_regex
from ..file_kinds import container
from .document import ParsedDocument, Part, Refused

MAX_PAGES_CHARS = 1000  # of the argument `pages`
MAX_PICTURES = 10  # per answer
MAX_PICTURE_BYTES = 15 << 20  # per answer; the pipeline's bound is 20 MiB
LINE_CHARS = 4000  # longer lines are divided, so that a read can start at any line
# Characters that people do not see but models read: Unicode tags and the second block of variation selectors.
_SMUGGLED = lazy_regex("[\U000e0000-\U000e01ef]")
_RANGE = lazy_regex(r"(\d{1,9})?(?:\s*(-|–|\.\.|:)\s*(\d{1,9})?)?")
_SHARE = 0.5  # share of the time limit after which no further page is started


def work(job: Mapping[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """Do a job: `pages`, `offset` (a line of the first of them), `limit` (lines), `budget` (bytes of text), `seconds`.

    Returns `refused` or `missing` (a library), or kind, reader, unit, count, title, notes, `shown` (the numbers of the
    pages), `next` (the pages and offset of the next read, or None), `text` (its size in bytes) and `pictures` (type and
    size of each). The bytes follow in that order.
    """
    started = time.monotonic()
    try:
        document = open_document(data)
        if job.get("pages") and not document.unit:
            raise Refused(f"a {document.kind} has no pages; offset and limit choose its lines")
        numbers = parse_pages(job.get("pages"), document.count, document.unit)
        taken = _Taken(job, started + _SHARE * job["seconds"])
        for place, number in enumerate(numbers):
            if not taken.part(document, number, numbers[place:]):
                break
    except Refused as error:
        return {"refused": str(error)}, b""
    except RecursionError:
        return {"refused": "it is nested too deeply"}, b""
    except ModuleNotFoundError as error:
        return {"missing": error.name or str(error)}, b""
    return taken.answer(document)


def open_document(data: bytes) -> ParsedDocument:
    """Open the document in `data`. Its kind is found in the bytes, not by its name. Raises Refused if that fails."""
    kind = container(data[:4096])
    if kind == "pdf":
        from .pdf import open_pdf

        return open_pdf(data)
    if kind == "image":
        from .picture import open_image

        return open_image(data)
    if kind == "ole":
        return _open_ole(data)
    if kind == "zip":
        return _open_office(data)
    raise Refused("documents of this kind are not supported" if data else "it is empty")


def _open_office(data: bytes) -> ParsedDocument:
    from .archive import inspect

    kind, has_macros = inspect(data)
    notes = ("it has macros; they were not run and are not shown",) if has_macros else ()
    if kind == "docx":
        from .docx import open_docx

        return open_docx(data, notes)
    if kind == "pptx":
        from .pptx import open_pptx

        return open_pptx(data, notes)
    from .spreadsheet import open_spreadsheet

    return open_spreadsheet(data, notes)


def _open_ole(data: bytes) -> ParsedDocument:
    """Open a document of Office 97 to 2003, or refuse a newer encrypted one. Stream names are in UTF-16."""
    if _named(data, "EncryptedPackage"):
        raise Refused("it is protected by a password; save a copy without one")
    if _named(data, "WordDocument"):
        raise Refused("it is a Word document of the old kind (.doc), which is not read; save it as .docx")
    if _named(data, "PowerPoint Document"):
        raise Refused("it is a PowerPoint presentation of the old kind (.ppt), which is not read; save it as .pptx")
    if _named(data, "Workbook") or _named(data, "Book"):
        from .spreadsheet import open_spreadsheet

        return open_spreadsheet(data)
    raise Refused("it is an OLE file (such as a mail or an installer), not a document that is read here")


def _named(data: bytes, stream: str) -> bool:
    return stream.encode("utf-16-le") + b"\0\0" in data


def parse_pages(asked: str | None, count: int, unit: str) -> list[int]:
    """Return the requested page numbers, each once, in the requested order; without a request, all pages.

    Numbers after the last page are left out if the request also has valid numbers. Raises Refused for a wrong request.
    """
    if asked is None or not asked.strip():
        return list(range(1, count + 1))
    if len(asked) > MAX_PAGES_CHARS:
        raise Refused(f"pages is longer than {MAX_PAGES_CHARS} characters")
    found: dict[int, None] = {}
    for each in asked.split(","):
        first, last = _ends(each.strip(), count)
        if first < 1 or first > last:
            raise Refused(f"pages {each.strip()!r}: from 1, the smaller number first")
        found.update(dict.fromkeys(range(first, min(last, count) + 1)))
    if not found:
        have = f"{count:,} {unit}{'s' if count != 1 else ''}"
        raise Refused(f"it has {have}; pages={asked!r} is past the end" if count else f"it has no {unit}s")
    return list(found)


def _ends(text: str, count: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise Refused(f'pages {text!r} is not understood; write for example "3", "1-3,7" or "5-"')
    if match[2] is None:
        return int(match[1]), int(match[1])
    return int(match[1] or 1), int(match[3]) if match[3] else max(count, int(match[1] or 1))


def in_words(numbers: Iterable[int]) -> str:
    """Return page numbers as ranges: `1-3,7` for [1, 2, 3, 7]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


class _Taken:
    """Collects the parts of a document up to the limits of one answer."""

    def __init__(self, job: Mapping[str, Any], until: float) -> None:
        self._budget: int = job["budget"]
        self._left: int = job.get("limit") or 1 << 62
        self._offset: int = job.get("offset") or 1
        self._until = until
        self._text: list[bytes] = []
        self._pictures: list[ImageBlock] = []
        self._shown: list[int] = []
        self._next: tuple[str | None, int] | None = None
        self._end: int | None = None  # lines of the last part, if its end was reached

    def part(self, document: ParsedDocument, number: int, rest: list[int]) -> bool:
        """Take a part. Returns False if the answer is full or the time for new pages is over."""
        if self._shown and time.monotonic() > self._until:
            return self._stop(document, rest, 1)
        part = document.part(number)
        if not self._room(part):
            return self._stop(document, rest, 1)
        first = self._offset if not self._shown else 1
        if document.unit and not self._add(_marker(document, number, part, first)):
            return self._stop(document, rest, 1)
        self._shown.append(number)
        for picture in part.pictures if first == 1 else ():
            self._pictures.append(picture)
            if document.unit:
                self._add(f"[image {len(self._pictures)}: this {document.unit}]")
        line = 0
        for line, text in enumerate(_divided(part), 1):
            if line < first:
                continue
            if self._left <= 0 or not self._add(text):
                return self._stop(document, rest, line)
            self._left -= 1
        if first > 1 and line < first:
            raise Refused(f"{_what(document, number)} has {line:,} lines; offset {first} is past its end")
        self._end = line
        return True

    def _stop(self, document: ParsedDocument, rest: list[int], line: int) -> bool:
        self._next = (in_words(rest) if document.unit else None, line)
        self._end = None
        return False

    def _room(self, part: Part) -> bool:
        size = sum(len(each.data) for each in (*self._pictures, *part.pictures))
        many = len(self._pictures) + len(part.pictures)
        return not self._pictures or not part.pictures or (many <= MAX_PICTURES and size <= MAX_PICTURE_BYTES)

    def _add(self, text: str) -> bool:
        line = text.encode("utf-8", "replace")
        if len(line) + 1 > self._budget and self._text:
            return False
        self._budget -= len(line) + 1
        self._text.append(line)
        return True

    def answer(self, document: ParsedDocument) -> tuple[dict[str, Any], bytes]:
        text = safe(_SMUGGLED.sub("", b"\n".join(self._text).decode())).encode()
        head: dict[str, Any] = {
            "kind": document.kind, "reader": document.reader, "unit": document.unit, "count": document.count,
            "title": document.title, "notes": document.notes, "shown": in_words(self._shown), "next": self._next,
            "lines": self._end, "text": len(text),
            "pictures": [[each.mime_type, len(each.data)] for each in self._pictures],
        }  # fmt: skip
        return head, b"".join([text, *(each.data for each in self._pictures)])


def _marker(document: ParsedDocument, number: int, part: Part, first: int) -> str:
    name = f": {part.name}" if part.name else ""
    since = f", from line {first}" if first > 1 else ""
    return f"--- {document.unit} {number} of {document.count}{name}{since} ---"


def _what(document: ParsedDocument, number: int) -> str:
    return f"{document.unit} {number}" if document.unit else "it"


def _divided(part: Part) -> Iterator[str]:
    """Yield the lines of a part. Long lines are divided at a blank."""
    for line in part.lines:
        while len(line) > LINE_CHARS:
            end = line.rfind(" ", LINE_CHARS // 2, LINE_CHARS) + 1 or LINE_CHARS
            yield line[:end]
            line = line[end:]
        yield line
