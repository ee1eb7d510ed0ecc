"""apply_patch: both formats, all files or none, and nothing but what the patch says."""

import difflib
import os
import shutil
import stat
import subprocess
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.builtin import patch as patch_module
from toolcrib.builtin.patch import _apply
from toolcrib.builtin.patch_format import parse_patch
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ToolError
from toolcrib.record.undoing import undo


def v4a(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch"


async def test_v4a_adds_updates_moves_and_deletes(room):
    room.put("a.py", "import os\n\ndef f():\n    return 1\n\ndef g():\n    return 1\n")
    room.put("old.txt", "keep\nchange\n")
    room.put("gone.txt", "bye\n")
    room.put("run.sh", "#!/bin/sh\necho 1\n").chmod(0o755)
    patch = v4a(
        "*** Add File: new/x.txt\n+one\n+\n+two\n"
        "*** Update File: a.py\n@@ def g():\n-    return 1\n+    return 2\n"
        "*** Update File: old.txt\n*** Move to: moved/new.txt\n@@\n keep\n-change\n+changed\n"
        "*** Update File: run.sh\n #!/bin/sh\n-echo 1\n+echo 2\n"
        "*** Delete File: gone.txt"
    )
    out = await room.ok("apply_patch", patch=patch)
    assert (room.root / "new/x.txt").read_text() == "one\n\ntwo\n"
    assert (room.root / "a.py").read_text().endswith("def g():\n    return 2\n")
    assert "def f():\n    return 1\n" in (room.root / "a.py").read_text()
    assert (room.root / "moved/new.txt").read_text() == "keep\nchanged\n" and not (room.root / "old.txt").exists()
    assert stat.S_IMODE((room.root / "run.sh").stat().st_mode) == 0o755
    assert not (room.root / "gone.txt").exists()
    assert "A new/x.txt" in out and "D gone.txt" in out and "M a.py" in out
    undo(room.journal)
    assert sorted(os.listdir(room.root)) == ["a.py", "gone.txt", "old.txt", "run.sh"]
    assert (room.root / "old.txt").read_text() == "keep\nchange\n"


async def test_v4a_end_of_file_and_ambiguity(room):
    target = room.put("f", "x\ny\nx\n")
    out = await room.fails("apply_patch", patch=v4a("*** Update File: f\n@@\n-x\n+z"))
    assert "fits 2 places (lines 1, 3)" in out
    await room.ok("apply_patch", patch=v4a("*** Update File: f\n@@\n-x\n+z\n*** End of File"))
    assert target.read_text() == "x\ny\nz\n"
    await room.ok("apply_patch", patch=v4a("*** Update File: f\n@@ y\n+after y"))
    assert target.read_text() == "x\ny\nafter y\nz\n"


async def test_many_copies_of_a_large_file_are_refused(room, monkeypatch):
    monkeypatch.setattr(patch_module, "MAX_PATCHED", 100)
    room.put("f", "x" * 40)
    copies = [f"diff --git a/f b/{n}\nsimilarity index 100%\ncopy from f\ncopy to {n}\n" for n in range(3)]
    assert "at most 100 bytes in all" in await room.fails("apply_patch", patch="".join(copies))
    assert os.listdir(room.root) == ["f"]
    await room.ok("apply_patch", patch="".join(copies[:2]))


def test_the_search_for_hunks_ends_with_the_call():
    patch = parse_patch(v4a("*** Update File: f\n@@\n-a\n+b"))[0]
    with pytest.raises(ToolError, match="was ended"):
        _apply("a\n", patch.hunks, "f", [], ToolContext(is_cancelled=lambda: True))


GIT = """diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
@@ -7,3 +7,4 @@ context
 seven
 eight
+eight and a half
 nine
diff --git a/new.txt b/new.txt
new file mode 100755
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+-- sql comment
+no newline
\\ No newline at end of file
diff --git a/dead.txt b/dead.txt
deleted file mode 100644
--- a/dead.txt
+++ /dev/null
@@ -1 +0,0 @@
-dead
diff --git a/from name.txt b/to.txt
similarity index 100%
rename from from name.txt
rename to to.txt
diff --git a/m.sh b/m.sh
old mode 100644
new mode 100755
"""


async def test_git_diffs(room):
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    room.put("src/a.py", "".join(f"{w}\n" for w in words))
    room.put("dead.txt", "dead\n")
    room.put("from name.txt", b"bin\0ary")
    room.put("m.sh", "x\n").chmod(0o644)
    await room.ok("apply_patch", patch=GIT)
    text = (room.root / "src/a.py").read_text()
    assert text.startswith("one\nTWO\nthree\n") and text.endswith("eight\neight and a half\nnine\n")
    new = room.root / "new.txt"
    assert new.read_text() == "-- sql comment\nno newline" and stat.S_IMODE(new.stat().st_mode) == 0o755
    assert not (room.root / "dead.txt").exists() and not (room.root / "from name.txt").exists()
    assert (room.root / "to.txt").read_bytes() == b"bin\0ary"
    assert stat.S_IMODE((room.root / "m.sh").stat().st_mode) == 0o755
    undo(room.journal)
    assert (room.root / "from name.txt").read_bytes() == b"bin\0ary"
    assert stat.S_IMODE((room.root / "m.sh").stat().st_mode) == 0o644


async def test_lines_that_moved_and_wrong_counts(room):
    room.put("f", "".join(f"{n}\n" for n in range(30)))
    moved = "--- f\n+++ f\n@@ -5,1 +5,1 @@\n 20\n-21\n+twenty-one\n 22\n"
    await room.ok("apply_patch", patch=moved)
    assert "20\ntwenty-one\n22\n" in (room.root / "f").read_text()


async def test_the_nearest_of_equal_places(room):
    room.put("f", "a\nx\nb\nx\nc\nx\n")
    await room.ok("apply_patch", patch="--- a/f\n+++ b/f\n@@ -4,1 +4,1 @@\n-x\n+y\n")
    assert (room.root / "f").read_text() == "a\nx\nb\ny\nc\nx\n"


async def test_a_directory_named_a(room):
    room.put("a/f", "x\n")
    await room.ok("apply_patch", patch="--- a/f\n+++ a/f\n@@ -1 +1 @@\n-x\n+y\n")
    assert (room.root / "a/f").read_text() == "y\n"
    room.put("a/g", "x\n")
    await room.ok("apply_patch", patch="--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n")
    assert (room.root / "a/g").read_text() == "y\n"


async def test_windows_line_ends_and_no_final_newline(room):
    target = room.put("f", b"a\r\nb\r\nc")
    await room.ok("apply_patch", patch=v4a("*** Update File: f\n a\n-b\n+B\n+more"))
    assert target.read_bytes() == b"a\r\nB\r\nmore\r\nc"
    await room.ok("apply_patch", patch=v4a("*** Update File: f\n c\n+d\n*** End of File"))
    assert target.read_bytes() == b"a\r\nB\r\nmore\r\nc\r\nd"


async def test_blanks_are_forgiven_and_kept(room):
    target = room.put("f", "if x:  \n\treturn 1\n")
    out = await room.ok("apply_patch", patch=v4a("*** Update File: f\n if x:\n-    return 1\n+\treturn 2"))
    assert target.read_text() == "if x:  \n\treturn 2\n" and "without comparing" in out


async def test_all_or_nothing(room):
    room.put("a", "1\n")
    room.put("b", "1\n")
    out = await room.fails(
        "apply_patch", patch=v4a("*** Update File: a\n-1\n+2\n*** Update File: b\n-nothing like it\n+2")
    )
    assert "hunk 1 for b was not found" in out
    assert (room.root / "a").read_text() == "1\n" and room.journal.changes() == []
    os.mkfifo(room.root / "fifo")
    await room.fails("apply_patch", patch=v4a("*** Update File: a\n-1\n+2\n*** Delete File: fifo"))
    assert (room.root / "a").read_text() == "1\n"


async def test_a_failure_in_the_middle_is_taken_back(room, monkeypatch):
    room.put("a", "1\n")
    room.put("b", "1\n")
    real, calls = type(room.journal).write, []

    def failing(self, path, data, **more):
        if path == "b" and not calls:
            calls.append(path)
            raise OSError(28, "No space left on device")
        return real(self, path, data, **more)

    monkeypatch.setattr(type(room.journal), "write", failing)
    patch = v4a("*** Update File: a\n-1\n+2\n*** Add File: d/e\n+x\n*** Update File: b\n-1\n+2")
    out = await room.fails("apply_patch", patch=patch)
    assert "No space" in out and "no part of the patch was applied" in out
    assert (room.root / "a").read_text() == "1\n" and not (room.root / "d").exists()


async def test_what_cannot_be_taken_back_is_named(room, monkeypatch):
    room.put("a", "1\n")
    room.put("b", "1\n")
    real = type(room.journal).write

    def full(self, path, data, **more):
        if path == "b" or "undoes" in more:
            raise OSError(28, "No space left on device")
        return real(self, path, data, **more)

    patch = v4a("*** Update File: a\n-1\n+2\n*** Update File: b\n-1\n+2")
    with monkeypatch.context() as patched:
        patched.setattr(type(room.journal), "write", full)
        out = await room.fails("apply_patch", patch=patch)
    assert "a part of the patch was applied and could not be taken back" in out
    assert (room.root / "a").read_text() == "2\n"
    undo(room.journal, out.partition("`toolcrib undo ")[2].partition("`")[0])
    assert (room.root / "a").read_text() == "1\n"


async def test_what_a_patch_moves_does_not_run_as_its_owner(room):
    room.put("a", "1\n").chmod(0o6755)
    await room.ok("apply_patch", patch=v4a("*** Update File: a\n*** Move to: b\n@@\n-1\n+2"))
    assert stat.S_IMODE((room.root / "b").stat().st_mode) == 0o755
    undo(room.journal)
    assert stat.S_IMODE((room.root / "a").stat().st_mode) == 0o6755


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("hello", "Begin Patch"),
        ("*** Begin Patch\n*** Update File: f\n-a\n+b", "cut off"),
        (v4a(""), "names no file"),
        (v4a("*** Update File: f\n same\n"), "neither"),
        (v4a("*** Update File: f\n?what"), "line 3"),
        (v4a("*** Add File: n\nno plus"), "'+'"),
        (v4a("*** Update File: gone\n-a\n+b"), "not found"),
        (v4a("*** Add File: f\n+x"), "exists already"),
        (v4a("*** Delete File: gone"), "does not exist"),
        (v4a("*** Update File: f\n*** Move to: g\n-a\n+b"), "exists already"),
        (v4a("*** Update File: ../out\n-a\n+b"), "outside"),
        (v4a("*** Add File: /etc/cron.d/x\n+b"), "outside"),
        ("--- a/f\n+++ b/f\nnothing", "@@"),
        ("diff --git a/f b/f\nGIT binary patch\n", "binary"),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n", "links"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "more in it"),
        (v4a("*** Update File: f\n@@ no such line\n-a\n+b"), "anchor"),
    ],
)
async def test_what_is_wrong_is_said(room, patch, words):
    room.put("f", "a\nrest\n")
    room.put("g", "g\n")
    assert words in await room.fails("apply_patch", patch=patch)
    assert (room.root / "f").read_text() == "a\nrest\n" and room.journal.changes() == []


async def test_judging_and_preview(room):
    room.put("f", "a\n")
    room.put(".env", "K=1\n")
    assert room.judge("apply_patch", patch=v4a("*** Update File: f\n-a\n+b")) is None
    assert room.judge("apply_patch", patch=v4a("*** Update File: f\n-a\n+b\n*** Add File: .vscode/t\n+x")) == "ask"
    assert room.judge("apply_patch", patch=v4a("*** Update File: .env\n-a\n+b")) == "ask"
    assert room.judge("apply_patch", patch=v4a("*** Add File: .mcp.json\n+b\n*** Add File: ../x\n+x")) == "deny"
    assert room.judge("apply_patch", patch="--- a/.git/config\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n") == "ask"
    assert room.judge("apply_patch", patch=v4a("*** Update File: f\n*** Move to: .git/hooks/x\n-a\n+b")) == "ask"
    assert "-a\n+b" in room.preview("apply_patch", patch=v4a("*** Update File: f\n-a\n+b"))
    assert "will fail" in room.preview("apply_patch", patch=v4a("*** Update File: f\n-zz\n+b"))


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", " d", "-- e", "+f", "@@ g", "--- h", "\\ i", "é"]), max_size=14)


@settings(max_examples=250, deadline=None)
@given(old=TEXTS, new=TEXTS, context=st.integers(0, 3), ends=st.sampled_from(["\n", "\r\n"]))
def test_a_diff_of_two_texts_makes_one_of_the_other(old, new, context, ends):
    if old == new:
        return
    diff = "\n".join(difflib.unified_diff(old, new, "a/f", "b/f", n=context, lineterm="")) + "\n"
    (patch,) = parse_patch(diff)
    text = "".join(line + ends for line in old)
    wanted = "".join(line + (ends if old else "\n") for line in new)
    assert _apply(text, patch.hunks, "f", [], ToolContext()) == wanted


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=TEXTS, new=TEXTS, close=st.tuples(st.booleans(), st.booleans()))
async def test_what_git_writes_is_applied(room, old, new, close):
    before = "\n".join(old) + ("\n" if close[0] and old else "")
    after = "\n".join(new) + ("\n" if close[1] and new else "")
    for name, text in (("old", before), ("new", after)):
        (room.root.parent / name).write_text(text)
    diff = (
        subprocess.run(
            ["git", "diff", "--no-index", "--no-prefix", "old", "new"],
            cwd=room.root.parent,
            capture_output=True,
            text=True,
        )
        .stdout.replace("new", "f")
        .replace("old", "f")
    )
    if not diff or "mode" in diff:
        return
    room.put("f", before)
    await room.ok("apply_patch", patch=diff)
    assert (room.root / "f").read_text() == after


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            ["*** Begin Patch", "*** End Patch", "*** Update File: f", "*** Add File: g", "*** Delete File: h",
             "*** Move to: i", "*** End of File", "@@", "@@ x", "@@ -1,2 +3 @@", "+a", "-b", " c", "", "--- a/f",
             "+++ b/f", "+++ /dev/null", "diff --git a/f b/f", "rename from x", "new file mode 100644", "\\ No newline"]
        ),
        max_size=12,
    ).map("\n".join)
)  # fmt: skip
def test_the_parser_answers_anything_with_files_or_words(text):
    try:
        for patch in parse_patch(text):
            assert patch.path
            for hunk in patch.hunks:
                assert all(line[0] in " +-" for line in hunk.lines)
    except ToolError as error:
        assert str(error)


async def test_taking_back_a_patch_leaves_an_earlier_call_of_the_same_id(room):
    await room.registry.execute("write_file", {"path": "kept", "content": "x"}, room.ctx, call_id="call_1")
    patch = "*** Begin Patch\n*** Add File: n\n+x\n*** Add File: n/sub\n+x\n*** End Patch\n"
    output = await room.registry.execute("apply_patch", {"patch": patch}, room.ctx, call_id="call_1")
    assert output.is_error and "no part of the patch was applied" in output.for_llm
    assert (room.root / "kept").read_text() == "x"
    assert not (room.root / "n").exists()


def test_a_patch_that_deletes_a_secret_with_hunks_asks(room):
    room.put(".env", "SECRET=hunter2\n")
    patch = "--- a/.env\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-SECRET=aunter\n"
    assert room.judge("apply_patch", patch=patch) == "ask"  # a hunk that does not fit shows what is there


async def test_repeated_lines_take_linear_time(room):
    room.put("big.txt", "a\n" * 400_000)
    patch = "*** Begin Patch\n*** Update File: big.txt\n@@\n" + " a\n" * 200_000 + "-b\n+c\n*** End Patch\n"
    started = time.process_time()
    await room.fails("apply_patch", patch=patch)
    assert time.process_time() - started < 40  # 200 s when each place was compared from its beginning


async def test_many_hunks_take_no_time_for_the_places_after_them(room):
    room.put("big.txt", "".join(f"x{number % 7}\n" for number in range(100_000)))
    patch = "*** Begin Patch\n*** Update File: big.txt\n" + "@@ x3\n x4\n-x5\n+y\n" * 2_000 + "*** End Patch\n"
    started = time.process_time()
    await room.ok("apply_patch", patch=patch)
    assert time.process_time() - started < 4  # more than 20 s when each hunk listed all places
    assert (room.root / "big.txt").read_text().count("y\n") == 2_000


def test_a_patch_of_too_many_files_is_refused_before_it_is_looked_at():
    with pytest.raises(ToolError, match="at most 1,000"):
        parse_patch(v4a("\n".join(f"*** Add File: f{n}\n+x" for n in range(1001))))


async def test_the_preview_of_several_files_names_them_all_first(room):
    room.put("a", "1\n")
    room.put("gone", "1\n")
    text = v4a("*** Update File: a\n-1\n+2\n*** Delete File: gone\n*** Add File: new\n+x")
    assert room.preview("apply_patch", patch=text).startswith("3 files: D gone, A new, M a\n")


@pytest.mark.parametrize(
    ("patch", "verdict"),
    [
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch", "ask"),
        ("diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "ask"),
        ("diff --git a/a b/a\nold mode 100644\nnew mode 100755\n", "ask"),
        ("diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", "ask"),
        ("diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", None),
        ("diff --git a/a b/a\nold mode 100755\nnew mode 100644\n", None),
        ("*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-one\n+two\n*** End Patch", None),
    ],
)
def test_a_patch_that_deletes_or_makes_executable_asks(room, patch, verdict):
    (room.root / "a").write_text("one\n")
    assert room.judge("apply_patch", patch=patch) == verdict
