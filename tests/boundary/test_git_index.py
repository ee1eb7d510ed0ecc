"""Which folders git's index takes for repositories of their own, in each form that git writes."""

from __future__ import annotations

import hashlib
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from toolcrib.boundary import git_index
from toolcrib.boundary.git_index import is_too_large, leading_out, linked_folders
from toolcrib.boundary.own_files import beginning_of
from toolcrib.boundary.sandbox.protected_search import Search

FORMS = [["--index-version", "2"], ["--index-version", "3"], ["--index-version", "4"], ["--split-index"]]


def git(folder: Path, *words: str) -> None:
    own = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *own, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_repositories_in_a_repository(tmp_path: Path, form: list[str], objects: str) -> None:
    top = tmp_path / "top"
    inner = [top / "node_modules" / "p", top / "node_modules" / "péq r"]
    for each in (top, *inner):
        each.mkdir(parents=True)
        git(each, "init", "-q", f"--object-format={objects}")
        for name in ("a", "ab/c", f"long{'g' * 300}"[:240], "z"):
            (each / name).parent.mkdir(exist_ok=True)
            (each / name).write_text("x\n")
        git(each, "add", "a", "ab", "z", f"long{'g' * 300}"[:240])
        git(each, "commit", "-qm", "x")
    assert linked_folders(str(top)) == []
    git(top, "update-index", *form)
    git(top, "add", *map(str, inner))
    (top / "a").write_text("y\n")
    git(top, "add", "-N", "a")
    assert sorted(linked_folders(str(top))) == sorted(map(str, inner))
    (inner[0] / ".git").rename(tmp_path / "gone")
    assert linked_folders(str(top)) == [str(inner[1])]


def test_a_submodule_and_another_worktree(tmp_path: Path) -> None:
    inner, middle, top = (tmp_path / name for name in ("inner", "middle", "top"))
    for each in (inner, middle, top):
        each.mkdir()
        git(each, "init", "-q")
        git(each, "commit", "-qm", "x", "--allow-empty")
    git(middle, "submodule", "add", str(inner), "in/it")
    git(middle, "commit", "-qm", "y")
    git(top, "submodule", "add", str(middle), "mid")
    git(top, "submodule", "update", "--init", "--recursive")
    git(top, "commit", "-qm", "y")
    git(top, "worktree", "add", "-q", str(tmp_path / "other"))
    assert linked_folders(str(top)) == [str(top / "mid")]
    assert linked_folders(str(top / "mid")) == [str(top / "mid" / "in" / "it")]
    assert linked_folders(str(tmp_path / "other")) == []  # the submodule is not checked out there


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC\0\0\0\2\xff\xff\xff\xff\0\0\xe0\0", b"x\0\0\xe0\0" * 99, None])
def test_what_is_no_index(tmp_path: Path, index: bytes | None) -> None:
    (tmp_path / ".git").mkdir()
    if index is not None:
        (tmp_path / ".git" / "index").write_bytes(index)
    assert linked_folders(str(tmp_path)) == []
    assert linked_folders(str(tmp_path / "no")) == []


def number(value: int) -> bytes:
    """A number as git packs it."""
    packed = bytes([value & 127])
    while value := value >> 7:
        value -= 1
        packed = bytes([0x80 | value & 127]) + packed
    return packed


def entry(
    name: bytes, before: bytes | None = None, *, mode: int = 0o160000, flags: int = 0, oid: bytes = b"i"
) -> bytes:
    """An entry of version 2, or of version 4 after another one, with a hash of SHA-1, or of SHA-256."""
    oid = oid.ljust(20 if len(oid) < 21 else 32, b"i")
    head = bytes(24) + mode.to_bytes(4) + bytes(12) + oid + (min(len(name), 0xFFF) | flags).to_bytes(2)
    head += bytes(2) if flags else b""
    if before is not None:
        return head + number(len(before)) + name + b"\0"
    return (whole := head + name + b"\0") + bytes(-len(whole) % 8)


def index(version: int, *entries: bytes, ending: bytes = b"", kind: str = "sha1") -> bytes:
    text = b"DIRC" + version.to_bytes(4) + len(entries).to_bytes(4) + b"".join(entries) + ending
    return text + hashlib.new(kind, text).digest()


LONG = b"/".join([b"a" * 200] * 18) + b"/"
LONG_NAMES = [b"%s%04d" % (LONG, each) for each in range(600)]


def repeating() -> bytes:
    """Many names that repeat the one before, and a repository after them."""
    made = [entry(LONG_NAMES[0], b"", mode=0o100644)]
    for name in LONG_NAMES[1:]:
        head = bytes(24) + (0o100644).to_bytes(4) + bytes(12) + b"i" * 20 + len(name).to_bytes(2)
        made.append(head + number(4) + name[-4:] + b"\0")
    return index(4, *made, entry(b"sub", LONG_NAMES[-1]))


CONFUSED = entry(b"a", mode=0o100644, oid=b"i" * 20 + (1).to_bytes(2) + b"a\0" + b"i" * 8)
INDEXES = {
    "many names that repeat each other": repeating(),
    "other bits in the mode": index(2, entry(b"sub", mode=0o160644)),
    "a NUL in a name": index(2, entry(b"a\0b", mode=0o100644), entry(b"sub")),
    "a NUL in its own name": index(2, entry(b"sub\0b")),
    "more flags in version 2": index(2, entry(b"a", mode=0o100644, flags=0x4000), entry(b"sub")),
    "a name with dots": index(2, entry(b"./sub")),
    "a name that goes up": index(2, entry(b"other/../sub")),
    "of SHA-256, but like SHA-1": index(2, CONFUSED, entry(b"sub", oid=b"i" * 32), kind="sha256"),
}


@pytest.mark.parametrize("data", INDEXES.values(), ids=INDEXES)
def test_an_index_is_read_as_git_reads_it(tmp_path: Path, data: bytes) -> None:
    """A command can write any. git says whether it enters the folder: it runs what the settings there name."""
    for folder in (tmp_path, tmp_path / "sub"):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "-q", *(["--object-format=sha256"] if CONFUSED in data else []))
    git(tmp_path / "sub", "commit", "-qm", "x", "--allow-empty")
    (tmp_path / "other").mkdir()
    git(tmp_path / "sub", "config", "core.fsmonitor", f"touch {tmp_path}/entered; false")
    (tmp_path / ".git" / "index").write_bytes(data)
    subprocess.run(["git", "-C", str(tmp_path), "status"], check=False, capture_output=True)
    assert (tmp_path / "entered").exists()
    assert linked_folders(str(tmp_path)) == [str(tmp_path / "sub")]


def test_an_index_that_several_threads_of_git_read_is_read_in_its_parts(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "init", "-q", "sub")
    hidden = entry(b"sub")
    at = 12 + len(entry(b"a", mode=0o100644))
    table = b"IEOT" + (12).to_bytes(4) + (1).to_bytes(4) + at.to_bytes(4) + (1).to_bytes(4)
    (tmp_path / ".git" / "index").write_bytes(index(2, entry(b"a", mode=0o100644), ending=hidden + table))
    assert linked_folders(str(tmp_path)) == [str(tmp_path / "sub")]


def test_names_that_repeat_each_other_use_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_index, "MAX_BYTES", 1 << 22)  # a read begins with so much
    (tmp_path / ".git").mkdir()
    entry = bytes(24) + (0o160000).to_bytes(4) + bytes(32) + (4000).to_bytes(2)
    first, others = entry + b"\0" + b"a" * 4000 + b"\0", (entry + b"\1b\0") * 20_000
    (tmp_path / ".git" / "index").write_bytes(b"DIRC" + (4).to_bytes(4) + (20_001).to_bytes(4) + first + others)
    tracemalloc.start()
    try:
        assert linked_folders(str(tmp_path)) == []
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [100, 200_000])
def test_an_index_that_names_too_many_repositories_is_not_used(tmp_path: Path, number: int) -> None:
    """Each of them is looked for: 3,500,000 of them stopped everything for 25 s."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "init", "-q", "sub")
    names = [b"sub", *(b"%07x" % each for each in range(number))]
    (tmp_path / ".git/index").write_bytes(index(2, *map(entry, names)))
    many = number > 100
    assert linked_folders(str(tmp_path)) == ([] if many else [str(tmp_path / "sub")])
    assert is_too_large(str(tmp_path / ".git")) == many
    found = list(Search(str(tmp_path)).names())
    assert ((str(tmp_path), ".git/index") in found) == many


@pytest.mark.parametrize(
    "written",
    ["\tpath = node_modules/p\n", 'path="node_modules/p"\r\n', " PATH =node_modules/p", 'path = "node_modules/p" # x'],
)
def test_a_folder_that_only_gitmodules_names(tmp_path: Path, written: str) -> None:
    for folder in (tmp_path, tmp_path / "node_modules/p"):
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
    (tmp_path / ".gitmodules").write_text(f'[submodule "p"]\n{written}')
    assert linked_folders(str(tmp_path)) == [str(tmp_path / "node_modules/p")]


def test_a_folder_whose_path_is_too_long_to_look_there_counts(tmp_path: Path) -> None:
    long = (("/" + "d" * 199) * 21)[: 4_092 - len(str(tmp_path))].rstrip("/")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = {long[1:]}\n')
    assert linked_folders(str(tmp_path)) == [f"{tmp_path}{long}"]


def test_gitmodules_with_a_line_of_spaces_is_read_in_one_pass(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitmodules").write_text("path = " + " " * 1_000_000)  # an expression tried every two places in it
    assert linked_folders(str(tmp_path)) == []


def test_a_link_on_the_way_is_not_followed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for each in (top, top / "real" / "p"):
        each.mkdir(parents=True)
        git(each, "init", "-q")
        git(each, "commit", "-qm", "x", "--allow-empty")
    git(top, "add", "real/p")
    (top / "real").rename(tmp_path / "outside")
    (top / "real").symlink_to(tmp_path / "outside")
    assert linked_folders(str(top)) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "in/../../x"])
def test_names_in_an_index_that_lead_out(tmp_path: Path, form: list[str], name: str) -> None:
    """git reads the files that an index names, wherever they are. It writes no such name itself."""
    git(tmp_path, "init", "-q")
    written = name.replace("/", "b", 1) if name[0] == "/" else name.replace("..", "bb")
    for each in ("z", written):
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},{each}")
    git(tmp_path, "update-index", *form)
    assert leading_out(str(tmp_path), f"{tmp_path}/.git", lambda path: True) is None
    for index in tmp_path.glob(".git/*index*"):
        data = index.read_bytes()[:-20].replace(written.encode(), name.encode())
        index.write_bytes(data + hashlib.sha1(data).digest())
    assert leading_out(str(tmp_path), f"{tmp_path}/.git", lambda path: True) == name


def test_a_tracked_file_behind_a_link(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},out/x/f")
    (tmp_path / "out").symlink_to("/usr")
    assert leading_out(str(tmp_path), f"{tmp_path}/.git", lambda path: path == "/usr") is None
    assert leading_out(str(tmp_path), f"{tmp_path}/.git", lambda path: False) == "out/x/f"
    (tmp_path / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1x")
    assert leading_out(str(tmp_path), f"{tmp_path}/.git", lambda path: True) == "index"


def test_an_index_is_read_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(path: str, size: int) -> bytes:
        read.append(path)
        return beginning_of(path, size)

    monkeypatch.setattr(git_index, "beginning_of", noted)
    monkeypatch.setattr(git_index, "SETTLED_NS", -(10**12))  # else it must be some seconds old
    git(tmp_path, "init", "-q")
    for name, times in (("f", 1), ("g", 2)):
        (tmp_path / name).touch()
        git(tmp_path, "add", name)
        for _ in range(3):
            assert leading_out(str(tmp_path), f"{tmp_path}/.git", lambda path: True) is None
        assert len(read) == times


def test_the_indexes_of_very_many_repositories_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(path: str, size: int) -> bytes:
        read.append(path)
        return beginning_of(path, size)

    monkeypatch.setattr(git_index, "beginning_of", noted)
    monkeypatch.setattr(git_index, "SETTLED_NS", -(10**12))
    for number in range(300):
        (tmp_path / str(number) / ".git").mkdir(parents=True)
        (tmp_path / str(number) / ".git" / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\0")
    for _ in range(2):
        assert not any(linked_folders(f"{tmp_path}/{number}") for number in range(300))
    assert len(read) == 300
