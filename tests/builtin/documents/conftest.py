"""Documents as programs write them, made where that is simple, and a room to read them in."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.default_tools import file_tools
from toolcrib.builtin.documents.document_reader import DocumentReader
from toolcrib.builtin.settings import DocumentSettings
from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder

DATA = Path(__file__).parent / "data"
TYPES = """<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml"
ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"""
RELS = """<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
Target="word/document.xml"/></Relationships>"""
WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{}</w:body></w:document>'
MACROS = b"application/vnd.ms-word.document.macroEnabled.main+xml"


def paragraph(text: str, style: str = "") -> str:
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(body: str, prolog: str = "", more: Mapping[str, bytes | str] | None = None) -> bytes:
    """A Word document with this XML in its body, and further or other members."""
    members = {"[Content_Types].xml": TYPES, "_rels/.rels": RELS, "word/document.xml": prolog + WORD.format(body)}
    return zipped({**members, **(more or {})})


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def changed(data: bytes, change: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """A ZIP with some of its members changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert change.keys() <= members.keys()
    return zipped({name: change[name](content) if name in change else content for name, content in members.items()})


def xlsx(fill: Callable[[Any], None]) -> bytes:
    writer = pytest.importorskip("xlsxwriter")
    out = io.BytesIO()
    book = writer.Workbook(out, {"in_memory": True})
    fill(book)
    book.close()
    return out.getvalue()


def pdf(*pages: bytes, raw: bool = False) -> bytes:
    """A PDF of pages with these content streams. `raw`: they are compressed already."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    kids: list[bytes] = []
    for content in pages:
        stream = content if raw else zlib.compress(content)
        number = len(objects) + 1
        kids.append(b"%d 0 R" % number)
        objects += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources<</Font<</F1"
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>" % (number + 1),
            b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
        ]
    objects[1] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (b" ".join(kids), len(kids))
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        size, table, size, len(out),
    )  # fmt: skip


def text_page(*lines: str) -> bytes:
    shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines)
    return f"BT /F1 11 Tf 72 720 Td {shown}ET".encode()


def png(width: int, height: int) -> bytes:
    """A black picture of any size; only as much memory as a row needs."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packer = zlib.compressobj(1)
    row = bytes(1 + (width + 7) // 8)
    rows = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class Reading:
    """A workspace whose files are read as a model would."""

    def __init__(self, base: Path, settings: DocumentSettings | None = None) -> None:
        self.root = base / "ws"
        self.root.mkdir(exist_ok=True)
        state = StateFolder.for_workspace(self.root, base / "state")
        self._ws = Workspace(self.root, [])
        self._journal = Journal(state, self._ws, sync=False)
        self._documents = DocumentReader(settings)
        self._registry = ToolRegistry(file_tools(self._ws, self._journal, documents=self._documents))

    async def __call__(self, data: bytes, name: str = "file", **arguments: Any) -> ToolOutput:
        (self.root / name).write_bytes(data)
        return await self._registry.execute("read_file", {"path": name, **arguments}, ToolContext(session_id="s"))

    async def ok(self, data: bytes, name: str = "file", **arguments: Any) -> str:
        output = await self(data, name, **arguments)
        assert not output.is_error, output.for_llm
        return output.for_llm

    async def fails(self, data: bytes, name: str = "file", **arguments: Any) -> str:
        output = await self(data, name, **arguments)
        assert output.is_error, output.for_llm
        return output.for_llm.partition("\n")[0]

    def close(self) -> None:
        self._documents.close()
        self._journal.close()
        self._ws.close()


@pytest.fixture
def reading(tmp_path: Path):
    room = Reading(tmp_path)
    yield room
    room.close()


@pytest.fixture
def parse():
    """What the worker does, here: (head, text, pictures). For formats whose libraries cannot crash."""
    from toolcrib.builtin.documents.work import work

    def run(data: bytes, **job: Any) -> tuple[dict[str, Any], str, list[bytes]]:
        head, answer = work({"budget": 45_000, "seconds": 60.0, **job}, data)
        at = head.get("text", 0)
        pictures: list[bytes] = []
        for _, size in head.get("pictures", ()):
            pictures.append(answer[at : at + size])
            at += size
        return head, answer[: head.get("text", 0)].decode(), pictures

    return run
