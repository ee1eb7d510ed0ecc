"""What do documents cost, and what do bombs cost? Wall time of read_file, growth of this process's memory.

    python benchmarks/documents.py

Everything is made here, in a temporary directory. Each parse has a process of its own, whose start is part of the time;
its memory has a limit of its own (1 GiB). Memory is VmHWM above what it was before the call.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.builtin.documents.conftest import Reading, docx, paragraph, pdf, png, text_page, xlsx
from tests.builtin.documents.test_document_reader import bombs, packed


def documents() -> Iterator[tuple[str, bytes, dict]]:
    import io

    import pptx
    from PIL import Image

    yield "PDF, 1 page", pdf(text_page("hello")), {}
    yield "PDF, 300 pages of 40 lines, all", pdf(*[text_page(*["words of a line of text"] * 40)] * 300), {}
    yield "PDF, page 299 of 300", pdf(*[text_page(*["words of a line of text"] * 40)] * 300), {"pages": "299"}
    scan = io.BytesIO()
    Image.effect_noise((1700, 2200), 30).convert("RGB").save(scan, "PDF")
    yield "PDF, a scanned page", scan.getvalue(), {}
    yield "docx, 20 pages", docx(paragraph("words of a line " * 20) * 160), {}
    yield "docx, 200 pages", docx(paragraph("words of a line " * 20) * 1600), {}
    yield "xlsx, 20,000 rows of 7", xlsx(rows), {}
    show = pptx.Presentation()
    for _ in range(40):
        show.slides.add_slide(show.slide_layouts[1]).shapes.title.text = "title"
    out = io.BytesIO()
    show.save(out)
    yield "pptx, 40 slides", out.getvalue(), {}
    photo = io.BytesIO()
    Image.effect_noise((6000, 4000), 30).convert("RGB").save(photo, "JPEG")
    yield "JPEG, 24 megapixels", photo.getvalue(), {}
    for name, make, _ in bombs():
        yield f"bomb: {name}", make(), {}
    yield "bomb: PDF, 195 KB of blanks to 200 MB", pdf(packed(b"", b" " * 100, 2_000_000), raw=True), {}
    yield "bomb: docx, 58 KB to 7 MB", docx(paragraph("a" * 32) * 100_000), {}


def rows(book) -> None:
    sheet = book.add_worksheet("a")
    for number in range(20_000):
        sheet.write_row(number, 0, [number, f"text {number}", number * 1.5, "abc", "def", True, "ghi"])


def memory(key: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) << 10


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        room = Reading(Path(folder))
        await room(b"warm", "warm.txt")
        await room(docx(paragraph("warm")), "warm.docx")
        print(f"{'document':40} {'bytes':>10} {'wall s':>7} {'RSS +MB':>8}  answer")
        for name, data, arguments in documents():
            (room.root / "file").write_bytes(data)
            size = len(data)
            del data
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            before, started = memory("VmRSS"), time.perf_counter()
            output = await room._registry.execute("read_file", {"path": "file", **arguments})
            wall, grown = time.perf_counter() - started, (memory("VmHWM") - before) / 2**20
            said = output.for_llm.partition("\n\n[Analyze")[0].splitlines()[-1]
            print(f"{name:40} {size:10,} {wall:7.2f} {grown:8.1f}  {said[:110]}", flush=True)
        room.close()


if __name__ == "__main__":
    asyncio.run(main())
