"""Documents through both doors, in the process that reads them; bombs are cut and nothing of them stays here."""

import sys
import zlib

import pytest

from toolcrib.builtin.documents import document_reader as reader_module
from toolcrib.builtin.settings import DocumentSettings

from .conftest import DATA, Reading, changed, docx, paragraph, pdf, png, text_page, xlsx, zipped

ENTITIES = '<!DOCTYPE l [<!ENTITY a "lol">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)
ENTITIES += "]>"


async def test_pages_of_a_pdf(reading):
    data = pdf(*(text_page(f"This is page {n}", "and a second line") for n in range(1, 8)))
    assert await reading.ok(data, "a.pdf", pages="2-3,7") == (
        "--- page 2 of 7 ---\nThis is page 2\nand a second line\n"
        "--- page 3 of 7 ---\nThis is page 3\nand a second line\n"
        "--- page 7 of 7 ---\nThis is page 7\nand a second line\n(From a PDF document - 7 pages in all.)"
    )
    text = await reading.ok(data, "a.pdf", limit=3)
    assert text.endswith('(Pages 1-2 of 7. Use pages="2-7" offset=2 to continue.)')
    text = await reading.ok(data, "a.pdf", pages="2-7", offset=2)
    assert text.startswith("--- page 2 of 7, from line 2 ---\nand a second line\n--- page 3")
    assert text.endswith("(From a PDF document - 7 pages in all.)")
    assert "it has 7 pages" in await reading.fails(data, "a.pdf", pages="9")


async def test_headings_forms_and_passwords_of_a_pdf(reading):
    text = await reading.ok((DATA / "form.pdf").read_bytes(), "form.pdf")
    assert "# A Big Title\nLine 0 of normal text" in text
    assert "Filled In Name" in text
    assert "password" in await reading.fails((DATA / "locked.pdf").read_bytes(), "locked.pdf")


async def test_scanned_pages_are_images(reading):
    image = pytest.importorskip("PIL.Image")
    scan = image.new("L", (850, 1100), "white")
    scan.save(reading.root / "scan.pdf", save_all=True, append_images=[scan] * 11)
    data = (reading.root / "scan.pdf").read_bytes()
    output = await reading(data, "scan.pdf", pages="1-2")
    assert [block.mime_type for block in output.content] == ["image/jpeg"] * 2
    assert "--- page 2 of 12 ---\n[image 2: this page]" in output.for_llm
    output = await reading(data, "scan.pdf")
    assert len(output.content) == 10
    assert 'Use pages="11-12" to continue' in output.for_llm


async def test_names_are_not_believed(reading):
    assert "(End of PDF document" in await reading.ok(pdf(text_page("hello")), "report.docx")
    assert "(End of Word document" in await reading.ok(docx(paragraph("hello")), "report.pdf")
    assert await reading.ok(b"just text", "report.xlsx") == "1| just text\n(End of file - 1 line in all.)"
    assert "1| %PDF- is" in await reading.ok(b"%PDF- is how they begin", "a.txt", encoding="utf-8")
    assert "1| x = b'%PDF-'" in await reading.ok(b"x = b'%PDF-'", "a.py")
    assert await reading.ok(b"", "empty.docx") == "(empty.docx is empty)"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"%PDF-1.7\n...", "damaged"),
        (zipped({"a.txt": "x"}), "a ZIP archive, not a document"),
        (b"PK\5\6" + bytes(18), "a ZIP archive, not a document"),
        (docx(paragraph("x"))[:-40], "damaged"),
        (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}), "OpenDocument text, which is not read"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage\0".encode("utf-16-le"), "protected by a password"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "WordDocument\0".encode("utf-16-le"), "save it as .docx"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "OLE file"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\3" + bytes(50), "binary file (60 bytes, "),
    ],
)
async def test_what_is_no_document_is_named(reading, data, said):
    assert said in await reading.fails(data, "file")


async def test_without_the_extra_it_is_named(reading, monkeypatch):
    monkeypatch.setattr(reader_module, "find_spec", lambda name: None)
    assert "pip install 'toolcrib[docs]'" in await reading.fails(pdf(text_page("x")), "a.pdf")
    assert "Pillow" in await reading.fails(b"BM\x10\0\0\0\0\0\0\0" + bytes(50), "p.bmp")
    small = png(4, 4)
    output = await reading(small, "p.png")
    assert output.content[0].data == small  # as it is: models take that
    assert "toolcrib[docs]" in await reading.fails(small + bytes(4_000_000), "p.png")


async def test_a_library_that_is_not_there_is_named(reading, monkeypatch, tmp_path):
    (tmp_path / "mammoth.py").write_text("raise ModuleNotFoundError('No module named mammoth', name='mammoth')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "mammoth is not installed" in await reading.fails(docx(paragraph("x")), "a.docx")


async def test_limits_can_be_set(tmp_path):
    room = Reading(tmp_path, DocumentSettings(max_bytes=5000, timeout=0.01))
    try:
        assert "tools.documents.max_bytes" in await room.fails(pdf(*[text_page("x")] * 30), "a.pdf")
        assert "tools.documents.timeout" in await room.fails(pdf(text_page("x")), "a.pdf")
    finally:
        room.close()


def bombs():
    yield "pdf", lambda: pdf(packed(b"BT /F1 10 Tf 10 10 Td ", b"(a) Tj ", 28_000_000), raw=True), "memory"
    yield "docx", lambda: docx(paragraph("a" * 32) * 160_000), "would unpack"
    yield "media", lambda: docx("", more={"word/media/a.bin": bytes(20 << 20)}), "would unpack"
    yield "members", lambda: zipped({f"{n}.txt": "" for n in range(10_001)}), "10,001 members"
    yield "docx entities", lambda: docx(paragraph("&j;"), prolog=ENTITIES), "entities"
    yield (
        "utf-16 entities",
        lambda: docx("", more={"word/x.xml": (ENTITIES + "<x>&j;</x>").encode("utf-16")}),
        "entities",
    )
    yield "late entities", lambda: docx(paragraph("&j;"), prolog=f"<!--{'x' * 999_999}-->{ENTITIES}"), "entities"
    yield "xlsx entities", lambda: changed(xlsx(one_sheet), {"xl/worksheets/sheet1.xml": with_entities}), "entities"
    yield "xlsx far cell", lambda: changed(xlsx(one_sheet), {"xl/worksheets/sheet1.xml": with_far_cell}), "memory"
    yield "docx depth", lambda: docx("<w:tbl><w:tr><w:tc>" * 3000 + "</w:tc></w:tr></w:tbl>" * 3000), "too deeply"
    yield "image", lambda: png(50_000, 50_000), "50000×50000"


def packed(start: bytes, part: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9)
    many = part * 10_000
    return packer.compress(start) + b"".join(packer.compress(many) for _ in range(times // 10_000)) + packer.flush()


def one_sheet(book):
    book.add_worksheet("a").write("A1", 1)


def with_entities(xml: bytes) -> bytes:
    return xml.replace(b"?>", b"?>" + ENTITIES.encode(), 1)


def with_far_cell(xml: bytes) -> bytes:
    return xml.replace(b"</sheetData>", b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>')


@pytest.mark.skipif(sys.platform != "linux", reason="measures this process's memory as Linux counts it")
@pytest.mark.parametrize(
    ("make", "said"),
    [pytest.param(make, said, id=name, marks=[pytest.mark.slow] * (name == "pdf")) for name, make, said in bombs()],
)
async def test_bombs_are_refused_and_cost_nothing_here(reading, make, said):
    data = make()
    await reading(b"warm", "warm.txt")
    (reading.root / "bomb").write_bytes(data)
    del data
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory("VmRSS")
    output = await reading._registry.execute("read_file", {"path": "bomb"})
    assert output.is_error
    assert said in output.for_llm
    assert memory("VmHWM") - before < 30 << 20


def memory(key: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) << 10
