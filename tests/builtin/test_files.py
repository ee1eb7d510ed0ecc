"""Reading, writing, listing and deleting through the pipeline, on ordinary and hostile files."""

import asyncio
import os
import re
import stat
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.boundary.remove_tree import remove_all
from toolcrib.builtin import files
from toolcrib.builtin.encoding import detect
from toolcrib.builtin.file_pages import PastEnd, read_window
from toolcrib.core import threads
from toolcrib.core.errors import ToolError
from toolcrib.core.output import ImageBlock
from toolcrib.core.text import in_lines
from toolcrib.record.undoing import undo

from ..boundary.test_read_tree import nested


def test_a_name_with_a_line_end_is_not_changed(room):
    """In a question it would be two lines: `delete a (1 byte)`, and whatever stands after it."""
    name = "a (1 byte)\nb"
    room.put(name, "x")
    for tool, more in (("write_file", {"content": "x"}), ("edit_file", {"old_text": "x"}), ("delete_file", {})):
        assert room.judge(tool, path=name, **more) == "deny"
    patch = '--- "a/a (1 byte)\\nb"\n+++ "b/a (1 byte)\\nb"\n@@ -1 +1 @@\n-x\n+y\n'
    assert room.judge("apply_patch", patch=patch) == "deny"
    assert room.judge("read_file", path=name) is None


async def test_a_small_file_with_numbers(room):
    room.put("a.txt", "one\ntwo\r\nthree")
    assert await room.ok("read_file", path="a.txt") == "1| one\n2| two\n3| three\n(End of file - 3 lines in all.)"
    plain = await room.ok("read_file", path="a.txt", line_numbers=False, offset=2, limit=1)
    assert plain == "two\n(Showing lines 2-2. Use offset=3 to continue.)"


async def test_start_and_end_line_are_inclusive(room):
    room.put("a.txt", "".join(f"l{n}\n" for n in range(1, 11)))
    out = await room.ok("read_file", path="a.txt", start_line=3, end_line=5)
    assert out.split("\n")[:3] == ["3| l3", "4| l4", "5| l5"] and "Showing lines 3-5. Use offset=6" in out
    assert (await room.ok("read_file", file_path="a.txt", start_line=10, end_line=10)).startswith("10| l10\n(End of")
    assert "not both" in await room.fails("read_file", path="a.txt", limit=2, end_line=5)
    assert "before the first" in await room.fails("read_file", path="a.txt", offset=6, end_line=5)
    await room.fails("read_file", path="a.txt", offset=2, start_line=3)


@pytest.mark.parametrize("arguments", [{"offset": 3}, {"offset": 2, "byte_offset": 2**42}, {"encoding": "utf-7"}])
async def test_the_search_for_a_line_ends_with_the_call(room, arguments):
    room.put("f", "one\n" + "x" * 70_000)
    os.truncate(room.root / "f", 2**43)
    call = asyncio.ensure_future(room("read_file", path="f", **{"offset": 2**40} | arguments))
    await asyncio.sleep(0.3)
    assert not call.done() and threads.shared_threads.stuck == 0
    call.cancel()
    await asyncio.wait([call])
    for _ in range(100):
        if not threads.shared_threads.stuck:
            break
        await asyncio.sleep(0.05)
    assert threads.shared_threads.stuck == 0


async def test_reading_past_the_end_says_how_long_it_is(room):
    room.put("a.txt", "1\n2\n3\n")
    assert "3 lines" in await room.fails("read_file", path="a.txt", offset=4)
    room.put("b.txt", "1\n2\n3")
    assert "3 lines" in await room.fails("read_file", path="b.txt", offset=9)
    assert await room.ok("read_file", path="b.txt", offset=3) == "3| 3\n(End of file - 3 lines in all.)"
    room.put("empty", "")
    assert "empty" in await room.ok("read_file", path="empty")
    assert (await room.ok("read_file", path="a.txt", limit=3)).endswith("(End of file - 3 lines in all.)")


async def test_missing_files_and_directories(room):
    room.put("src/config.py", "x")
    assert "Did you mean src/config.py?" in await room.fails("read_file", path="src/confg.py")
    assert "no directory nope" in await room.fails("read_file", path="nope/x")
    assert "directory" in await room.fails("read_file", path="src")
    assert "not a directory" in await room.fails("read_file", path="src/config.py/x")
    out = await room.fails("read_file", path="../../etc/passwd")
    assert str(room.root) in out


async def test_a_link_to_nothing_is_named_as_one(room):
    (room.root / "lost").symlink_to("nowhere")
    assert "lost (it is a link, and what it leads to does not exist)" in await room.fails("read_file", path="lost")


async def test_pages_of_a_long_file_join_to_the_whole(room):
    text = "".join(f"line {n} {'x' * (n % 90)}\n" for n in range(5000))
    room.put("long.txt", text)
    got, args = "", {"offset": 1}
    for _ in range(50):
        out = await room.ok("read_file", path="long.txt", line_numbers=False, **args)
        body, _, footer = out.rpartition("\n")
        got += body + "\n"
        again = re.search(r"Use offset=(\d+) to continue", footer)
        if not again:
            assert "5,000 lines in all" in footer
            break
        args = {"offset": int(again[1])}
    assert got == text


async def test_a_huge_line_pages_and_ends(room):
    line = "".join(chr(97 + n % 26) if n % 7 else "ü" for n in range(5_000_000))
    room.put("huge.txt", f"first\n{line}\nlast\n")
    got, args, calls = "", {"offset": 2}, 0
    while True:
        out = await room.ok("read_file", path="huge.txt", line_numbers=False, **args)
        calls += 1
        body, _, footer = out.rpartition("\n")
        again = re.search(r"Use offset=2 byte_offset=(\d+) to continue", footer)
        if not again:
            assert body.endswith("\nlast") and "3 lines in all" in footer
            got += body.removesuffix("\nlast")
            break
        got += body
        assert int(again[1]) > int(args.get("byte_offset", 0))
        args = {"offset": 2, "byte_offset": int(again[1])}
    assert got == line and calls < 200
    assert "past its end" in await room.fails("read_file", path="huge.txt", offset=1, byte_offset=99)


async def test_a_place_inside_a_word_shows_all_of_the_word(room):
    """The rest of a secret would not be known as one. (This toolbox hides none.)"""
    key = "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA2bC4"
    room.put("short.txt", f"k={key}\n")
    room.put("long.txt", f"first\n{'word ' * 9_000}{key} {'word ' * 9_000}\nlast\n")
    for path, line, before in (("short.txt", 1, 2), ("long.txt", 2, 45_000)):
        for inside in (1, 3, 20, 39):
            out = await room.ok("read_file", path=path, offset=line, byte_offset=before + inside)
            assert key in out, (path, inside)
    assert (await room.ok("read_file", path="long.txt", offset=2, byte_offset=45_041)).startswith("2| word word")


async def test_pages_of_a_long_line_do_not_overlap(room):
    """Where a page ended between two words, the next one begins, wherever a comma lies before it."""
    for comma in range(files.MAX_BYTES - 9_500, files.MAX_BYTES - 7_500, 250):
        line = ("wo " * 40_000)[:comma] + ("," + " wo" * 40_000)[:8_000] + "x" * 1_000 + " wo" * 20_000
        room.put("long.txt", line)
        got, place = "", 0
        while place is not None:
            out = await room.ok("read_file", path="long.txt", line_numbers=False, offset=1, byte_offset=place)
            body, _, footer = out.rpartition("\n")
            again = re.search(r"byte_offset=(\d+) to continue", footer)
            got, place = got + body, int(again[1]) if again else None
        assert got == line, comma


def bytes_read() -> int:
    """How many bytes this process has read so far, from anything."""
    return int(Path("/proc/self/io").read_text().split()[1])


async def test_a_huge_file_in_constant_memory(room):
    import tracemalloc

    with open(room.root / "big", "wb") as f:
        f.writelines(b"0123456789abcdef\n" * 60_000 for _ in range(30))
    tracemalloc.start()
    try:
        out = await room.ok("read_file", path="big", offset=1_700_000, limit=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.startswith("1700000| 0123456789abcdef\n") and peak < 4_000_000
    before = bytes_read()
    await room.ok("read_file", path="big", offset=1_700_003, limit=3)
    assert bytes_read() - before < 2_000_000  # goes on where the last page ended


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        ("\ufeffgrüße\n".encode(), "grüße", ""),
        ("grüße\nzwei\n".encode("utf-16"), "grüße", ""),
        ("grüße plain ascii enough text\n".encode("utf-16-le"), "grüße", "guess"),
        ("grüße\n".encode("utf-32"), "grüße", ""),
        ("grüße “q”\n".encode("cp1252"), "grüße “q”", "cp1252, which is a guess"),
        (b"a\x81b\xfc\n", "a\\x81bü", "latin-1, which is a guess"),
        (b"x\n" * 40_000 + b"late \xfc\n", None, ""),
        ("grüße ".encode() + b"bad \xff byte\n", "grüße bad \ufffd byte", "not valid UTF-8"),
    ],
)
async def test_encodings(room, data, text, note):
    room.put("f", data)
    if text is None:
        out = await room.ok("read_file", path="f", offset=40_001)
        assert "late ü" in out and "guess" in out
        return
    out = await room.ok("read_file", path="f")
    assert text in out and note in out


async def test_an_encoding_that_is_asked_for(room):
    room.put("f", "日本語\nテスト\n".encode("shift_jis"))
    assert "2| テスト" in await room.ok("read_file", path="f", encoding="shift_jis")
    assert "unknown encoding" in await room.fails("read_file", path="f", encoding="no-such")
    for name in ("base64", "idna", "punycode", "undefined"):
        assert "not a text encoding" in await room.fails("read_file", path="f", encoding=name)


async def test_terminal_escapes_and_bidi_are_made_visible(room):
    room.put("f", "a\x1b[31mred\u202eevil\n")
    out = await room.ok("read_file", path="f")
    assert "a\\x1b[31mred\\u202eevil" in out


async def test_binary_documents_and_special_files(room):
    room.put("b.bin", b"\x7fELF\0\0\0\1" + bytes(range(256)))
    assert "binary file" in await room.fails("read_file", path="b.bin")
    assert "ELF" in await room.ok("read_file", path="b.bin", encoding="latin-1")
    room.put("z", zlib.compress(os.urandom(20_000)))
    await room.fails("read_file", path="z")
    room.put("a.pdf", b"%PDF-1.7\n...")
    assert "damaged" in await room.fails("read_file", path="a.pdf")
    os.mkfifo(room.root / "fifo")
    began = time.perf_counter()
    assert "FIFO" in await room.fails("read_file", path="fifo")
    assert "FIFO" in await room.fails("write_file", path="fifo", content="x")
    assert time.perf_counter() - began < 20  # not waiting for the FIFO's other end


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)


async def test_images_are_blocks(room):
    room.put("p.png", PNG)
    out = await room("read_file", path="p.png")
    assert not out.is_error and out.content == (ImageBlock(PNG, "image/png"),)


async def test_the_spill_folder_can_be_read(room):
    from toolcrib.record.spill import Spill

    path = Spill(room.state.spill).store("c", "out.txt", "spilled")
    assert "1| spilled" in await room.ok("read_file", path=str(path))
    assert "reading only" in await room.fails("write_file", path=str(path), content="x")


# write_file


async def test_write_counts_bytes_and_makes_directories(room):
    assert await room.ok("write_file", path="a/b/ü.txt", content="grüße\n") == (
        "Successfully wrote 8 bytes to a/b/ü.txt"
    )
    assert (room.root / "a/b/ü.txt").read_text("utf-8") == "grüße\n"
    undo(room.journal)
    assert not (room.root / "a").exists()


async def test_write_keeps_the_mode_and_refuses_links(room):
    target = room.put("run.sh", "old")
    target.chmod(0o755)
    await room.ok("write_file", path="run.sh", content="new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    (room.root / "link").symlink_to("run.sh")
    assert "run.sh" in await room.fails("write_file", path="link", content="x")
    assert target.read_text() == "new"


async def test_a_change_by_others_is_reported(room):
    room.put("f", "one")
    await room.ok("read_file", path="f")
    assert "Note" not in await room.ok("write_file", path="f", content="two")
    room.put("f", "theirs")
    assert "had changed since it was last read" in await room.ok("write_file", path="f", content="three")


async def test_replacing_more_than_undo_keeps_is_asked_about_and_can_be_undone(room):
    with room.put("large", "mine").open("r+b") as file:
        file.truncate(3 << 30)
    assert room.judge("write_file", path="large", content="x") == "ask"
    assert room.judge("delete_file", path="large") == "ask"
    for name, more in (("write_file", {"content": "x"}), ("delete_file", {})):
        await room.ok(name, path="large", **more)
        undo(room.journal)
        assert (room.root / "large").stat().st_size == 3 << 30
        with (room.root / "large").open("rb") as file:
            assert file.read(4) == b"mine"


async def test_what_is_asked_about(room):
    room.put(".env", "KEY=1")
    room.put("hard", "x")
    os.link(room.root / "hard", room.root / "other-name")
    (room.root / "innocent").symlink_to(".env")
    assert room.judge("read_file", path="a.txt") is None
    assert room.judge("read_file", path=".env") == "ask" == room.judge("read_file", path="innocent")
    assert room.judge("read_file", path="/etc/passwd") == "deny" == room.judge("list_dir", path="..")
    assert room.judge("write_file", path="hard", content="") == "ask"
    assert room.judge("write_file", path=".git/hooks/pre-commit", content="") == "ask"
    assert room.judge("delete_file", path=".git") == "ask"
    assert room.judge("write_file", path="../x", content="") == "deny"
    assert room.judge("edit_file", path=".env", old_text="a", new_text="b") == "ask"


async def test_a_link_that_was_harmless_when_judged(room):
    room.put(".env", "KEY=1")
    room.put("notes", "notes")
    (room.root / "l").symlink_to("notes")
    assert room.judge("read_file", path="l") is None
    (room.root / "l").unlink()
    (room.root / "l").symlink_to(".env")
    assert "KEY" not in await room.fails("read_file", path="l")
    assert room.judge("read_file", path="l") == "ask"
    assert "KEY=1" in await room.ok("read_file", path="l")  # once somebody said yes


async def test_previews(room):
    room.put("f.txt", "".join(f"{n}\n" for n in range(100)))
    shown = room.preview("write_file", path="f.txt", content="".join(f"{n}\n" for n in range(100) if n != 50))
    assert "@@ -48,7 +48,6 @@" in shown and "-50\n" in shown
    assert "+++ b/new" in room.preview("write_file", path="new", content="x\n")
    room.put("d/x", "x")
    assert "d/x" in room.preview("delete_file", path="d", recursive=True)
    huge = "".join(f"{n}\n" for n in range(100_000))
    began = time.process_time()
    assert len(room.preview("write_file", path="f.txt", content=huge)) < 20_000
    assert time.process_time() - began < 20


# list_dir and delete_file


async def test_listing(room):
    room.put("b.txt", "")
    room.put("a/deep/x.py", "")
    room.put("node_modules/pkg/i.js", "")
    (room.root / "l").symlink_to("a")
    assert await room.ok("list_dir") == "a/\nb.txt\nl@\nnode_modules/"
    assert await room.ok("list_dir", path="a", recursive=True) == "a/deep/\na/deep/x.py"
    out = await room.ok("list_dir", recursive=True)
    assert out == "a/\na/deep/\na/deep/x.py\nb.txt\nl@\nnode_modules/\n(not entered: node_modules)"
    assert "(2 more entries not shown" in await room.ok("list_dir", max_entries=2)
    assert "at least" in await room.ok("list_dir", max_entries=2, recursive=True)
    (room.root / "none").mkdir()
    assert await room.ok("list_dir", path="none") == "(none is empty)"
    assert "not a directory" in await room.fails("list_dir", path="b.txt")


async def test_listing_styles(room):
    room.put("d/f", "")
    tools = files.FileTools(room.ws, room.journal, list_style="tagged")
    assert tools.list_dir(".", True, ctx=room.ctx) == "[DIR] d/\n[FILE] d/f"


async def test_deleting(room):
    room.put("d/f", "content")
    assert "recursive=true" in await room.fails("delete_file", path="d")
    out = await room.ok("delete_file", path="d/f")
    assert not (room.root / "d/f").exists() and "toolcrib undo" in out
    await room.ok("delete_file", path="d", recursive=True)
    assert "root" in await room.fails("delete_file", path=".", recursive=True)
    with pytest.raises(ToolError, match="root"):  # nobody is asked about it
        room.preview("delete_file", path=".", recursive=True)
    assert "recursive" not in await room.fails("delete_file", path=".")
    assert "not found" in (await room.fails("delete_file", path="gone")).lower()
    undo(room.journal)
    undo(room.journal)
    assert (room.root / "d/f").read_text() == "content"


def test_categories(room):
    categories = {t.name: str(t.category) for t in room.registry}
    assert categories == {
        "read_file": "filesystem_read",
        "list_dir": "filesystem_read",
        "write_file": "filesystem_write",
        "edit_file": "filesystem_write",
        "apply_patch": "filesystem_write",
        "delete_file": "destructive",
    }


# The window reader against the obvious


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"\n", b"a", b"bc" * 40, b"\r\n", "ü".encode(), b"x" * 700]), max_size=60).map(
        b"".join
    ),
    offset=st.integers(1, 40),
    limit=st.integers(1, 40),
    step=st.sampled_from([1, 7, 4096]),
)
def test_windows_are_what_splitting_gives(data, offset, limit, step):
    position = 0

    def fill(buffer):
        nonlocal position
        piece = data[position : position + step]
        buffer[: len(piece)] = piece
        position += len(piece)
        return len(piece)

    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    try:
        window = read_window(fill, offset, limit, max_bytes=10**6)
    except PastEnd as past:
        assert len(lines) < offset
        assert f"has {in_lines(len(lines))}; " in str(past)
        return
    assert window.lines == lines[offset - 1 : offset - 1 + limit]
    end = offset - 1 + len(window.lines)
    if window.next is None:
        assert window.total == len(lines) == end or (not lines and offset == 1)
    else:
        assert window.next == (end + 1, 0) and end < len(lines)
        assert data[window.position :].split(b"\n")[0] == lines[end]


@given(st.binary(max_size=300))
def test_detection_never_fails_and_round_trips(data):
    found = detect(data)
    if found is not None:
        try:
            text = found.decode(data)
        except Exception as error:
            assert "not valid" in str(error)
        else:
            assert found.encode(text) == data


async def test_a_name_cannot_look_like_lines_of_the_answer(room):
    room.put("a\n(and 3 secrets)\nb.txt", "x")
    listed = await room.ok("list_dir")
    assert listed.splitlines() == ["a\\n(and 3 secrets)\\nb.txt"]
    error = await room.fails("read_file", path="a\n(and 3 secrets)\nc.txt")
    assert "Did you mean a\\n(and 3 secrets)\\nb.txt" in error


async def test_a_name_that_is_not_utf8_is_not_offered_again(room):
    with open(os.fsencode(room.root) + b"/caf\xe9.txt", "wb"):
        pass
    shown = await room.ok("list_dir")
    assert shown == "caf\\udce9.txt"
    assert "only a command can name it" in await room.fails("read_file", path=shown)


async def test_the_preview_of_a_deletion_says_how_much_goes(room):
    for n in range(60):
        room.put(f"d/{n:02}/f", "x" * 10)
    shown = room.preview("delete_file", path="d", recursive=True)
    assert "60 files, 60 folders, 600 bytes" in shown
    nested(room.root / "deep", 3_000)
    shown = room.preview("delete_file", path="deep", recursive=True)
    remove_all(room.root / "deep")
    assert "1 files, 3,000 folders, 7 bytes" in shown
    room.put("one", "xyz")
    os.link(room.root / "one", room.root / "two")
    assert "3 bytes; 1 other names of it stay" in room.preview("delete_file", path="one")
    (room.root / "link").symlink_to("d")
    assert "the link link (what it points to stays)" in room.preview("delete_file", path="link")


async def test_the_preview_of_new_content_over_what_is_no_text_shows_the_content(room):
    (room.root / "b").write_bytes(bytes(range(256)) * 10)
    shown = room.preview("write_file", path="b", content="first\nlast\n")
    assert "2,560 bytes that are not shown" in shown
    assert "+first\n+last" in shown


async def test_a_folder_that_grew_after_the_question_is_not_deleted(room):
    folder = room.root / "d" / "sub"
    folder.mkdir(parents=True)
    (folder / "a").write_text("a")
    room.preview("delete_file", path="d", recursive=True)
    (folder / "precious").write_text("p")
    assert "more is in it than the question showed" in await room.fails("delete_file", path="d", recursive=True)
    assert (folder / "precious").read_text() == "p" and (folder / "a").read_text() == "a"
    room.preview("delete_file", path="d", recursive=True)
    (folder / "a").unlink()  # less than was shown is no reason
    await room.ok("delete_file", path="d", recursive=True)
    assert not (room.root / "d").exists()


async def test_a_page_of_a_long_line_ends_between_words(room):
    word = "granted-Value-4711-xyzzy"
    room.put("long.json", f'"{word}",' * 3_000)
    page = await room.ok("read_file", path="long.json", line_numbers=False)
    assert re.fullmatch(f'("{word}",)+"?', page.partition("\n")[0])  # half a secret would not be known as one
