"""glob and grep on real trees, with ripgrep and with Python's stand-in."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from toolcrib.boundary.landlock_calls import landlock_abi
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.search import SearchTools
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import OutsideWorkspace, ToolError
from toolcrib.core.registry import ToolRegistry

CTX = ToolContext()


def write(path: Path, text: str | bytes, age: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (2e9 - age, 2e9 - age))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    write(root / "a.py", "import os\n\ndef alpha():\n    return 'needle'\n", age=30)
    write(root / "src/b.py", "def beta():\n    return 'Needle'  # twice needle\n\n\nlast = 1\n", age=20)
    write(root / "src/c.txt", "no\nneedle\nno\nneedle\n", age=10)
    write(root / "src/deep/er/d.py", "x = 1\n", age=40)
    write(root / ".hidden.py", "needle\n")
    write(root / ".github/w.yml", "needle\n")
    write(root / ".git/config", "needle\n")
    write(root / "ignored/e.py", "needle\n")
    write(root / "f.log", "needle\n")
    write(root / "keep.log", "needle\n", age=50)
    write(root / ".env", "KEY=needle\n")
    write(root / "server.pem", "needle\n")
    write(root / "bin.dat", b"needle\0needle\n")
    write(root / ".gitignore", "*.log\n!keep.log\nignored/\n")
    return root


@pytest.fixture(params=["ripgrep", "python"])
def tools(request: pytest.FixtureRequest, root: Path) -> SearchTools:
    tools = SearchTools(Workspace(root), seconds=10)
    if request.param == "python":
        tools.ripgrep = None
    else:
        assert tools.ripgrep is not None
    return tools


def glob(tools: SearchTools, pattern: str, **more: object) -> list[str]:
    return tools.glob(pattern, **more, ctx=CTX).for_llm.splitlines()  # type: ignore[arg-type]


def grep(tools: SearchTools, pattern: str, **more: object) -> list[str]:
    return tools.grep(pattern, **more, ctx=CTX).for_llm.splitlines()  # type: ignore[arg-type]


# glob


def test_glob_is_newest_first_and_respects_gitignore(tools: SearchTools) -> None:
    assert glob(tools, "**/*.py") == ["src/b.py", "a.py", "src/deep/er/d.py"]
    assert glob(tools, "*.log") == ["keep.log"]
    assert glob(tools, "**/*", path="src") == ["src/c.txt", "src/b.py", "src/deep/er/d.py"]


def test_glob_can_be_asked_for_the_rest(tools: SearchTools) -> None:
    assert set(glob(tools, "**/*.{py,log}", hidden=True, no_ignore=True)) == {
        "a.py", "src/b.py", "src/deep/er/d.py", ".hidden.py", "ignored/e.py", "f.log", "keep.log",
    }  # fmt: skip
    assert glob(tools, ".github/*.yml") == [".github/w.yml"]
    assert glob(tools, "**/.hid*") == [".hidden.py"]
    assert ".git/config" not in glob(tools, "**/*", hidden=True, no_ignore=True)


def test_glob_limit_says_how_many_there_are(tools: SearchTools) -> None:
    assert glob(tools, "**/*.py", limit=1) == ["src/b.py", "[1 of 3 files, newest first]"]


def test_glob_page_is_bounded_in_characters(tools: SearchTools, root: Path) -> None:
    for n in range(500):
        write(root / "long" / f"{n:03d}{'x' * 200}", "")
    lines = glob(tools, "long/*", limit=500)
    assert 30_000 < sum(map(len, lines)) < 41_000
    assert lines[-1] == f"[{len(lines) - 1} of 500 files, newest first]"


def test_glob_without_a_hit_says_what_to_try(tools: SearchTools) -> None:
    assert "**/d.py" in glob(tools, "d.py")[0]
    assert glob(tools, "nowhere/*.py")[0].startswith("No files match")


def test_glob_survives_broken_links_and_odd_names(tools: SearchTools, root: Path) -> None:
    (root / "broken.py").symlink_to("gone")
    write(root / "two\nlines.py", "", age=-5)
    write(root / "umlaut ä.py", "", age=-4)
    (root / os.fsdecode(b"bad\xff.py")).touch()
    found = glob(tools, "*.py")
    assert "two\\nlines.py" in found
    assert "umlaut ä.py" in found
    assert "bad\\udcff.py" in found
    assert "broken.py" not in found


def test_glob_takes_absolute_patterns_inside(tools: SearchTools, root: Path) -> None:
    assert glob(tools, f"{root}/src/*.py") == ["src/b.py"]


def test_outside_is_denied_before_it_runs(tools: SearchTools) -> None:
    glob_tool, grep_tool = tools.tools()
    assert glob_tool.judge is not None
    assert grep_tool.judge is not None
    for args in (
        {"pattern": "/etc/*"},
        {"pattern": "/*"},
        {"pattern": "*", "path": "/etc"},
        {"pattern": "*", "path": ".."},
    ):
        verdict = glob_tool.judge(args, CTX)
        assert verdict is not None
        assert verdict.verdict == "deny"
    verdict = grep_tool.judge({"pattern": "x", "path": "../x"}, CTX)
    assert verdict is not None
    assert verdict.verdict == "deny"


@pytest.mark.parametrize("pattern", ["../*", "src/../../*", "{a,b}" * 9, "x" * 3000, "a\nb"])
def test_glob_refuses_bad_patterns(tools: SearchTools, pattern: str) -> None:
    with pytest.raises(ToolError):
        glob(tools, pattern)


# grep


def test_grep_lists_files_in_order(tools: SearchTools) -> None:
    assert grep(tools, "needle") == ["a.py", "keep.log", "src/b.py", "src/c.txt"]


def test_grep_shows_lines_and_context(tools: SearchTools) -> None:
    assert grep(tools, "def \\w+", output_mode="content") == ["a.py:3:def alpha():", "src/b.py:1:def beta():"]
    assert grep(tools, "needle", path="src/c.txt", output_mode="content", context=1) == [
        "src/c.txt-1-no", "src/c.txt:2:needle", "src/c.txt-3-no", "src/c.txt:4:needle",
    ]  # fmt: skip
    assert grep(tools, "import|return|last", path=".", glob="*.py", output_mode="content", context=1) == [
        "a.py:1:import os", "a.py-2-", "a.py-3-def alpha():", "a.py:4:    return 'needle'", "--",
        "src/b.py-1-def beta():", "src/b.py:2:    return 'Needle'  # twice needle", "src/b.py-3-", "src/b.py-4-",
        "src/b.py:5:last = 1",
    ]  # fmt: skip


def test_grep_counts(tools: SearchTools) -> None:
    assert grep(tools, "needle", path="src", output_mode="count") == [
        "src/b.py:1", "src/c.txt:2", "[3 matching lines in 2 files]",
    ]  # fmt: skip


def test_grep_case_and_fixed_strings(tools: SearchTools, root: Path) -> None:
    assert grep(tools, "NEEDLE", ignore_case=True, path="a.py") == ["a.py"]
    write(root / "re.txt", "a.b\naxb\n")
    assert grep(tools, "a.b", fixed_strings=True, path="re.txt", output_mode="content") == ["re.txt:1:a.b"]
    assert len(grep(tools, "a.b", path="re.txt", output_mode="content")) == 2


def test_grep_filters_by_name(tools: SearchTools) -> None:
    assert grep(tools, "needle", glob="*.py") == ["a.py", "src/b.py"]
    assert grep(tools, "needle", glob="src/*") == ["src/b.py", "src/c.txt"]
    assert grep(tools, "needle", glob="!*.py") == ["keep.log", "src/c.txt"]
    assert grep(tools, "needle", glob="*.{txt,log}") == ["keep.log", "src/c.txt"]


def test_grep_pages_are_stable(tools: SearchTools, root: Path) -> None:
    for n in range(30):
        write(root / f"many/{n:02d}.txt", "word\n" * 100)
    whole: list[str] = []
    while len(whole) < 3000:  # more than are sorted in memory
        whole += grep(tools, "word", path="many", output_mode="content", limit=1000, offset=len(whole))[:1000]
    assert len(set(whole)) == 3000
    assert whole == sorted(whole, key=lambda line: (line.split(":")[0], int(line.split(":")[1])))
    first = grep(tools, "word", path="many", output_mode="content", limit=250)
    second = grep(tools, "word", path="many", output_mode="content", limit=250, offset=250)
    assert first[:-1] + second[:-1] == whole[:500]
    assert first[-1] == "[matching lines 1 to 250; there are more: offset=250]"
    assert grep(tools, "word", path="many", limit=10, offset=10) == [
        *(f"many/{n:02d}.txt" for n in range(10, 20)), "[files 11 to 20 of 30: offset=20]",
    ]  # fmt: skip
    assert "only 30" in grep(tools, "word", path="many", offset=99)[0]
    one_file = grep(tools, "word", path="many/00.txt", output_mode="content", limit=10, offset=95)
    assert one_file == [*(f"many/00.txt:{n}:word" for n in range(96, 101)), "[matching lines 96 to 100 of 100]"]


def test_grep_pages_of_one_large_file(tools: SearchTools, root: Path) -> None:
    write(root / "large.txt", "word\n" * 5000)
    page = grep(tools, "word", path="large.txt", output_mode="content", limit=2, offset=4000)
    assert page[:2] == ["large.txt:4001:word", "large.txt:4002:word"]


def test_grep_page_is_bounded_in_characters(tools: SearchTools, root: Path) -> None:
    write(root / "wide.txt", ("word " * 80 + "\n") * 1000)
    text = tools.grep("word", output_mode="content", path="wide.txt", limit=1000, ctx=CTX).for_llm
    assert 30_000 < len(text) < 50_000
    assert "offset=" in text.splitlines()[-1]


def test_grep_leaves_secrets_out(tools: SearchTools, root: Path) -> None:
    (root / "alias").symlink_to(".")
    for path in (".", "alias"):
        found = grep(tools, "needle", path=path, hidden=True, no_ignore=True)
        assert not [name for name in found if name.endswith((".env", ".pem"))]
        assert f"{path}/ignored/e.py".removeprefix("./") in found
    # Its answer is the same whether a secret matches or not: it must not be an oracle.
    assert grep(tools, "KEY=needle", hidden=True) == [
        line.replace("KEY=nothing", "KEY=needle") for line in grep(tools, "KEY=nothing", hidden=True)
    ]
    judge = next(t for t in tools.tools() if t.name == "grep").judge
    assert judge is not None
    verdict = judge({"pattern": "needle", "path": ".env"}, CTX)
    assert verdict is not None
    assert verdict.verdict == "ask"
    assert judge({"pattern": "needle"}, CTX) is None
    assert grep(tools, "needle", path=".env", output_mode="content") == [".env:1:KEY=needle"]


def test_grep_skips_binary_files(tools: SearchTools) -> None:
    assert "bin.dat" not in grep(tools, "needle", hidden=True, no_ignore=True)


@pytest.mark.parametrize("pattern", ["(a", "[", "*"])
def test_grep_explains_bad_expressions(tools: SearchTools, pattern: str) -> None:
    with pytest.raises(ToolError, match="fixed_strings"):
        grep(tools, pattern)


def test_grep_refuses_a_nul(tools: SearchTools) -> None:
    for arguments in ({"pattern": "a\0b"}, {"pattern": "a", "glob": "*\0"}):
        with pytest.raises(ToolError, match="cannot contain a NUL"):
            grep(tools, **arguments)


def test_grep_of_paths_that_are_not_there(tools: SearchTools) -> None:
    with pytest.raises(ToolError, match="File not found: nowhere"):
        grep(tools, "x", path="nowhere")


def test_grep_of_a_file_that_may_not_be_read(tools: SearchTools, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    write(root / "locked.txt", "x\n")
    monkeypatch.setattr(tools.workspace, "open_read", refuse)
    with pytest.raises(ToolError, match=r"^Permission denied: locked\.txt$"):
        grep(tools, "x", path="locked.txt")
    assert "cannot be read" in grep(tools, "nothing has this")[0]


@pytest.mark.parametrize("path", ["..", "/etc", "/etc/passwd", "out", "out/passwd"])
def test_nothing_is_searched_outside(tools: SearchTools, root: Path, path: str) -> None:
    (root / "out").symlink_to("/etc")
    with pytest.raises(OutsideWorkspace):
        grep(tools, "root", path=path)
    if not path.endswith("passwd"):
        with pytest.raises(OutsideWorkspace):
            glob(tools, "*", path=path)


def test_links_are_not_followed(tools: SearchTools, root: Path) -> None:
    write(root.parent / "secret.txt", "outside needle\n")
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "dir").symlink_to(root.parent)
    assert not [line for line in grep(tools, "needle", output_mode="content") if "outside" in line]
    assert not [line for line in glob(tools, "**/*") if "secret" in line]


def test_special_files_do_not_stop_it(tools: SearchTools, root: Path) -> None:
    os.mkfifo(root / "src/fifo")
    start = time.monotonic()
    assert grep(tools, "needle", path="src") == ["src/b.py", "src/c.txt"]
    with pytest.raises(ToolError, match="FIFO"):
        grep(tools, "x", path="src/fifo")
    assert time.monotonic() - start < 30


def test_no_expression_hangs_it(tools: SearchTools, root: Path) -> None:
    write(root / "evil.txt", "a" * 5000 + "!\n")
    tools.seconds = 0.3
    start = time.monotonic()
    for pattern in ("(a+)+$", "(a|a)*b", "(.*)*x", r"(\w{1000}){1000}", "a" * 100_000):
        try:
            grep(tools, pattern, path="evil.txt")
        except ToolError:
            pass
    assert time.monotonic() - start < 60


def test_what_takes_too_long_is_answered_with_what_was_found(root: Path) -> None:
    write(root / "evil.txt", "a" * 5000 + "!\n")
    for seconds in (0.5, 2.0, 8.0):  # a busy machine may find nothing in the first
        tools = SearchTools(Workspace(root), seconds=seconds)
        tools.ripgrep = None
        lines = grep(tools, "(a+)+$|needle", output_mode="content")
        assert lines[-1].startswith(f"[stopped after {seconds:g} s")
        if "a.py:4:    return 'needle'" in lines:
            assert "FIFO" not in lines[-1]
            return
        assert "FIFO" in lines[-1]
    pytest.fail(f"found nothing before the time was over: {lines}")


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"])
def test_a_fifo_among_the_files_that_ignore_holds_no_search_up(tools: SearchTools, root: Path, name: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)
    tools.seconds = 60
    for path in (".", "src"):
        start = time.monotonic()
        try:
            assert grep(tools, "beta", path=path)[0] == "src/b.py"
        except ToolError as error:  # ripgrep would wait for it
            assert f"{name} is a FIFO" in str(error)
        assert grep(tools, "beta", path=path, no_ignore=True)[0] == "src/b.py"
        assert time.monotonic() - start < 30


def test_long_lines_are_cut(tools: SearchTools, root: Path) -> None:
    write(root / "long.txt", "x" * 5_000_000 + "needle" + "y" * 1000 + "\n")
    write(root / "short.txt", "needle" + "y" * 5000 + "\n")
    late = grep(tools, "needle", path="short.txt", output_mode="content")
    assert len(late[0]) < 700
    if tools.ripgrep:  # the stand-in looks at the first MiB of a line
        (line,) = grep(tools, "needle", path="long.txt", output_mode="content")
        assert len(line) < 700
        assert line.endswith("[... a long line; the match is at byte 5000001]")


def test_a_long_line_is_cut_between_words(tools: SearchTools, root: Path) -> None:
    secret = "AKIA" + "Q7" * 8
    for number in range(470, 500):
        write(root / f"cut{number}.txt", f"needle {'x ' * 300}"[:number] + f' "{secret}" more\n')
    shown = "\n".join(grep(tools, "needle", glob="cut*.txt", output_mode="content"))
    assert "AKI" not in shown.replace(secret, "") and shown.count("needle") == 30


def test_invalid_utf8_is_shown_replaced(tools: SearchTools, root: Path) -> None:
    write(root / "latin.txt", b"caf\xe9 needle\r\n")
    assert grep(tools, "needle", path="latin.txt", output_mode="content") == ["latin.txt:1:caf� needle"]


def test_file_types(root: Path) -> None:
    tools = SearchTools(Workspace(root))
    assert grep(tools, "needle", type="py") == ["a.py", "src/b.py"]
    with pytest.raises(ToolError, match=r"close: .*py"):
        grep(tools, "needle", type="pyhton")
    with pytest.raises(ToolError, match="look-around"):
        grep(tools, "a(?=b)")


def test_subdirectory_obeys_the_ignore_file_above(root: Path) -> None:
    tools = SearchTools(Workspace(root))
    write(root / "src/x.log", "needle\n")
    assert "src/x.log" not in grep(tools, "needle", path="src")
    inner = SearchTools(Workspace(root / "src"))  # the repository is larger than the workspace
    assert "x.log" not in grep(inner, "needle")
    assert "x.log" in grep(inner, "needle", no_ignore=True)


def test_extra_roots_are_searched_by_their_own_path(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "extra/n.txt", "needle\n")
    tools = SearchTools(Workspace(root, read_roots=[tmp_path / "extra"]))
    assert grep(tools, "needle", path=str(tmp_path / "extra")) == [str(tmp_path / "extra/n.txt")]


@pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock")
def test_a_directory_swapped_for_a_link_leads_nowhere(root: Path) -> None:
    """The walk finds `d/victim.txt`; before it is opened, `d` becomes a link to a directory outside."""
    outside = root.parent / "outside"
    for n in range(40):
        write(outside / f"victim{n}.txt", "stolen\n")
        write(root / f"d/victim{n}.txt", "mine\n")
    os.symlink(outside, root / "link")
    done = threading.Event()

    def swap() -> None:
        d, other, link = str(root / "d"), str(root / "real"), str(root / "link")
        while not done.is_set():
            os.rename(d, other)
            os.rename(link, d)
            os.rename(d, link)
            os.rename(other, d)

    tools = SearchTools(Workspace(root))
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            found = tools.grep("stolen|mine", output_mode="content", ctx=CTX).for_llm
            assert ":stolen" not in found
    finally:
        done.set()
        thread.join()


def test_cancellation_ends_a_search(root: Path) -> None:
    tools = SearchTools(Workspace(root), seconds=30)
    tools.ripgrep = None
    write(root / "evil.txt", "a" * 5000 + "!\n")
    start = time.monotonic()
    tools.grep("(a+)+$", path="evil.txt", ctx=ToolContext(is_cancelled=lambda: time.monotonic() - start > 0.3))
    assert time.monotonic() - start < 30


async def test_through_a_registry_with_other_spellings(root: Path) -> None:
    registry = ToolRegistry(SearchTools(Workspace(root)).tools())
    out = await registry.execute("grep", '{"pattern": "needle", "head_limit": "1", "output_mode": "content"}')
    assert out.for_llm.startswith("a.py:4:")
    out = await registry.execute("grep", {"pattern": "x", "outputmode": "count"})
    assert out.is_error
    assert "output_mode" in out.for_llm
    out = await registry.execute("glob", {"pattern": "../*"})
    assert out.is_error
    registry = ToolRegistry(SearchTools(Workspace(root), ripgrep="/nowhere/rg").tools())
    out = await registry.execute("grep", {"pattern": "x"})  # a wrong setting says so itself, without a Python name
    assert out.error_kind == "unavailable" and out.for_llm.startswith("tools.ripgrep: /nowhere/rg ")


def test_nothing_is_left_running(root: Path) -> None:
    tools = SearchTools(Workspace(root))
    tools.grep("needle", ctx=CTX)
    children = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "comm="], capture_output=True, text=True)
    assert "rg" not in children.stdout.split()


async def test_a_link_that_is_swapped_after_the_judgement_shows_no_secret(tmp_path):
    (tmp_path / ".env").write_text("KEY=hunter2\n")
    (tmp_path / "plain").write_text("KEY=nothing\n")
    link = tmp_path / "link"
    link.symlink_to("plain")
    tools = {each.name: each for each in SearchTools(Workspace(tmp_path)).tools()}
    arguments, ctx = {"path": "link", "pattern": "KEY", "output_mode": "content"}, ToolContext()
    assert tools["grep"].judge(arguments, ctx) is None
    link.unlink()
    link.symlink_to(".env")
    output = await ToolRegistry([tools["grep"]]).execute("grep", arguments, ctx)
    assert "hunter2" not in output.for_llm
    tools["grep"].judge(arguments, ctx)  # which asks: a person may say yes
    assert tools["grep"].judge(arguments, ctx).verdict == "ask"
