"""Paths stay inside the granted roots, however they are spelled and whoever moves links meanwhile."""

import errno
import os
import socket
import stat
import struct
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.boundary import staged_file
from toolcrib.boundary.openat2 import has_openat2, rename_exchange
from toolcrib.boundary.path_judgement import RULE_OUTSIDE, RULE_SECRET, judge_path
from toolcrib.boundary.workspace import Workspace
from toolcrib.boundary.workspace_paths import ChangedMeanwhile, LinkRefused, NotRegularFile, ReadOnlyRoot
from toolcrib.core.errors import ConfigError, OutsideWorkspace, ToolError

METHODS = ["walk", *(["openat2"] if has_openat2() else [])]


@pytest.fixture(params=METHODS)
def ws(request, tmp_path):
    root = tmp_path / "ws"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    with_extra = tmp_path / "extra"
    with_extra.mkdir()
    (with_extra / "x.txt").write_text("x")
    (tmp_path / "more").mkdir()
    workspace = Workspace(root, [with_extra], [tmp_path / "more"], method=request.param)
    yield workspace
    workspace.close()


def read(ws: Workspace, path: str | Path) -> bytes:
    fd = ws.open_read(path)
    with open(fd, "rb") as f:
        return f.read()


def test_this_linux_has_openat2():
    if os.uname().sysname == "Linux":
        assert has_openat2()


@pytest.mark.parametrize(
    "spelling",
    ["a.txt", "./a.txt", "sub/../a.txt", "//a.txt", "sub/./../a.txt", "{root}/a.txt", "{root}//sub/../a.txt"],
)
def test_spellings_of_one_file(ws, spelling):
    spelling = spelling.format(root=ws.root)
    if spelling.startswith("//"):
        spelling = f"/{ws.root}/a.txt"
    assert ws.relative(spelling) == "a.txt"
    assert read(ws, spelling) == b"a"


def test_empty_path_is_the_root(ws):
    assert ws.relative("") == "." == ws.relative(".") == ws.relative(str(ws.root))
    assert stat.S_ISDIR(ws.stat("").st_mode)


@pytest.mark.parametrize(
    "path", ["..", "../outside/secret.txt", "/etc/passwd", "/", "sub/../../outside/secret.txt", "~/x", "{root}x/y"]
)
def test_outside_names_the_roots(ws, path):
    with pytest.raises(OutsideWorkspace) as caught:
        ws.open_read(path.format(root=ws.root))
    assert str(ws.root) in str(caught.value) and "extra (read only)" in str(caught.value)


def test_percent_and_dots_are_letters(ws):
    (ws.root / "a..b").write_text("dots")
    (ws.root / "%2e%2e").write_text("percent")
    assert read(ws, "a..b") == b"dots" and read(ws, "%2e%2e") == b"percent"


def test_nul_is_refused(ws):
    with pytest.raises(ToolError, match="NUL"):
        ws.open_read("a\0b")


def test_links_inside_are_followed_for_reading(ws):
    (ws.root / "rel").symlink_to("sub/b.txt")
    (ws.root / "up").symlink_to("sub/deep")
    (ws.root / "sub" / "deep" / "back").symlink_to("../b.txt")
    (ws.root / "abs").symlink_to(ws.root / "sub")
    (ws.root / "extra-link").symlink_to(ws.root.parent / "extra" / "x.txt")
    assert read(ws, "rel") == b"b"
    assert read(ws, "up/back") == b"b"
    assert read(ws, "abs/b.txt") == b"b"
    assert read(ws, "extra-link") == b"x"
    assert ws.real("abs/b.txt") == "sub/b.txt"
    assert ws.real("extra-link") == str(ws.root.parent / "extra" / "x.txt")
    assert os.listdir(fd := ws.open_dir("abs")) and os.close(fd) is None


def test_links_out_are_refused(ws):
    outside = ws.root.parent / "outside"
    (ws.root / "abs").symlink_to(outside / "secret.txt")
    (ws.root / "rel").symlink_to("../outside/secret.txt")
    (ws.root / "dir").symlink_to(outside)
    (ws.root / "chain").symlink_to("dir")
    (ws.root / "magic").symlink_to("/proc/self/root/etc/passwd")
    for path in ("abs", "rel", "dir/secret.txt", "chain/secret.txt", "magic"):
        with pytest.raises(OutsideWorkspace, match="link"):
            ws.open_read(path)
        assert judge_path(ws, path).verdict == "deny"
        assert not ws.exists(path)


def test_link_loops_end(ws):
    (ws.root / "l1").symlink_to("l2")
    (ws.root / "l2").symlink_to("l1")
    with pytest.raises(OSError, match="symbolic links"):
        ws.open_read("l1")


def test_writing_follows_no_link(ws):
    (ws.root / "file").symlink_to("a.txt")
    (ws.root / "dangling").symlink_to("../outside/new.txt")
    (ws.root / "dir").symlink_to("sub")
    for path in ("file", "dangling", "dir/b.txt", "dir/new.txt"):
        with pytest.raises(LinkRefused):
            ws.stage(path, b"x").commit()
    with pytest.raises(LinkRefused, match=r"Use 'sub/b.txt' itself"):
        ws.stage("dir/b.txt", b"x").commit()
    with pytest.raises(LinkRefused):
        ws.mkdir("dir/new")
    assert (ws.root / "a.txt").read_text() == "a" and not (ws.root.parent / "outside" / "new.txt").exists()


def test_special_files_are_refused_at_once(ws):
    os.mkfifo(ws.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ws.root / "sock"))
    (ws.root / "zero").symlink_to("/dev/zero")
    began = time.perf_counter()
    for path in ("fifo", "sock", "sub"):
        with pytest.raises(NotRegularFile):
            ws.open_read(path)
    with pytest.raises(NotRegularFile, match="FIFO"):
        ws.stage("fifo", b"x").commit()
    with pytest.raises(OutsideWorkspace):
        ws.open_read("zero")
    assert time.perf_counter() - began < 20  # not waiting for somebody who writes to the FIFO


def test_devices_and_proc_are_refused_even_in_a_root():
    ws = Workspace("/")
    for path in ("/dev/zero", "/proc/self/environ", "/proc/1/environ", "/sys/kernel/uevent_seqnum", "/proc/kmsg"):
        if os.path.exists(path):
            with pytest.raises((NotRegularFile, PermissionError)):
                ws.open_read(path)


def test_a_folder_whose_name_is_not_utf_8_is_no_root(tmp_path):
    """No question about a call in it could be stored, and the agent could store no session."""
    other = os.fsdecode(os.fsencode(tmp_path) + b"/w\xff")
    os.mkdir(other)
    with pytest.raises(ConfigError, match="not UTF-8"):
        Workspace(other)
    with pytest.raises(ConfigError, match="not UTF-8"):
        Workspace(tmp_path, read_roots=[other])


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="there are no extended attributes")
def test_write_keeps_the_access_list(ws, monkeypatch):
    (ws.root / "f").write_text("old")
    entries = [(1, 6, 2**32 - 1), (2, 6, 1234), (4, 0, 2**32 - 1), (16, 6, 2**32 - 1), (32, 0, 2**32 - 1)]  # acl(5)
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(ws.root / "f", "system.posix_acl_access", access)
    except OSError:
        pytest.skip("this file system has no access lists")
    ws.stage("f", b"new").commit()
    assert os.getxattr(ws.root / "f", "system.posix_acl_access") == access  # the group has no rights, 1234 has

    def refused(*_: object) -> None:
        raise OSError("no room for it")

    monkeypatch.setattr(os, "setxattr", refused)
    with pytest.raises(OSError, match="no room for it"):
        ws.stage("f", b"wider")
    assert not [*ws.root.glob(".*.tmp")]
    assert (ws.root / "f").read_text() == "new"


def test_write_is_atomic_and_keeps_the_mode(ws):
    (ws.root / "run.sh").write_text("old")
    (ws.root / "run.sh").chmod(0o755)
    before = os.stat(ws.root / "run.sh").st_ino
    ws.stage("run.sh", b"new").commit()
    after = os.stat(ws.root / "run.sh")
    assert (ws.root / "run.sh").read_bytes() == b"new" and stat.S_IMODE(after.st_mode) == 0o755
    assert after.st_ino != before
    assert not [n for n in os.listdir(ws.root) if n.endswith(".tmp")]


def test_new_files_obey_the_umask(ws):
    old = os.umask(0o027)
    try:
        ws.stage("new", b"").commit()
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(ws.root / "new").st_mode) == 0o640


def test_a_failed_write_leaves_nothing(ws, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        ws.stage("a.txt", b"new").commit()
    assert (ws.root / "a.txt").read_text() == "a"
    assert sorted(os.listdir(ws.root)) == ["a.txt", "sub"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two names")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_another_program_saves_at_the_moment_of_a_write_stays(ws, monkeypatch, times):
    left = list(range(times))

    def saved_first(src, dst, src_dir_fd, dst_dir_fd):
        if left:
            (ws.root / ".saving").write_text(f"saved {left.pop(0)}")
            os.rename(ws.root / ".saving", ws.root / "a.txt")
        rename_exchange(src, dst, src_dir_fd, dst_dir_fd)

    monkeypatch.setattr(staged_file, "rename_exchange", saved_first)
    with pytest.raises(ChangedMeanwhile, match="read it again"):
        ws.stage("a.txt", b"new").commit()
    assert (ws.root / "a.txt").read_text() == f"saved {times - 1}"
    assert sorted(os.listdir(ws.root)) == ["a.txt", "sub"]


def test_a_file_is_replaced_where_names_cannot_be_swapped(ws, monkeypatch):
    def unsupported(*_: object) -> None:
        raise OSError(errno.EINVAL, "no flags")

    monkeypatch.setattr(staged_file, "rename_exchange", unsupported)
    ws.stage("a.txt", b"new").commit()
    assert (ws.root / "a.txt").read_text() == "new"
    assert sorted(os.listdir(ws.root)) == ["a.txt", "sub"]


def test_new_content_does_not_run_as_the_owner_of_the_file(ws):
    (ws.root / "a.txt").chmod(0o6755)
    ws.stage("a.txt", b"new").commit()
    assert stat.S_IMODE(os.stat(ws.root / "a.txt").st_mode) == 0o755


def test_commit_notices_other_hands(ws):
    staged = ws.stage("a.txt", b"mine")
    (ws.root / "a.txt").write_text("theirs")
    with pytest.raises(ChangedMeanwhile):
        staged.commit()
    fresh = ws.stage("fresh", b"mine")
    (ws.root / "fresh").symlink_to("../outside/new.txt")
    with pytest.raises(ChangedMeanwhile):
        fresh.commit()
    assert (ws.root / "a.txt").read_text() == "theirs" and not (ws.root.parent / "outside" / "new.txt").exists()
    assert not [n for n in os.listdir(ws.root) if n.endswith(".tmp")]


def test_a_hard_link_is_parted_not_written_through(ws):
    outside = ws.root.parent / "outside" / "secret.txt"
    os.link(outside, ws.root / "hard")
    assert judge_path(ws, "hard", write=True).verdict == "ask"
    ws.stage("hard", b"new").commit()
    assert outside.read_text() == "secret" and (ws.root / "hard").read_bytes() == b"new"


def test_read_only_and_extra_roots(ws):
    extra, more = ws.root.parent / "extra", ws.root.parent / "more"
    assert read(ws, extra / "x.txt") == b"x"
    with pytest.raises(ReadOnlyRoot):
        ws.stage(extra / "x.txt", b"y").commit()
    with pytest.raises(ReadOnlyRoot):
        ws.chmod(extra / "x.txt", 0o600)
    assert judge_path(ws, extra / "x.txt", write=True).verdict == "deny"
    ws.stage(more / "y.txt", b"y").commit()
    assert ws.relative(more / "y.txt") == str(more / "y.txt")
    assert [r.writable for r in ws.roots()] == [True, True, False]


def test_a_read_only_root_inside_the_workspace(tmp_path):
    (tmp_path / "vendor").mkdir()
    ws = Workspace(tmp_path, [tmp_path / "vendor"])
    with pytest.raises(ReadOnlyRoot):
        ws.stage("vendor/x", b"").commit()


def test_a_workspace_reached_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("f")
    (tmp_path / "alias").symlink_to("real")
    ws = Workspace(tmp_path / "alias")
    assert ws.root == Path(os.path.realpath(tmp_path)) / "real"
    assert ws.relative(tmp_path / "alias" / "f") == "f" == ws.relative(ws.root / "f")


def test_a_missing_workspace_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        Workspace(tmp_path / "nowhere")


def test_a_workspace_made_anew_is_found_again(ws):
    (ws.root / "a.txt").unlink()
    (ws.root / "sub" / "b.txt").unlink()
    (ws.root / "sub" / "deep").rmdir()
    (ws.root / "sub").rmdir()
    ws.root.rmdir()
    ws.root.mkdir()
    (ws.root / "again").write_text("again")
    assert read(ws, "again") == b"again"


def test_missing_parents(ws):
    assert ws.missing_parents("sub/n1/n2/file") == ["sub/n1", "sub/n1/n2"]
    with pytest.raises(OSError, match="Not a directory"):
        ws.mkdir("a.txt/x")


def test_the_root_and_what_is_outside_are_not_removed(ws):
    with pytest.raises(OutsideWorkspace):
        ws.rmdir("../outside")
    with pytest.raises(ToolError, match="root"):
        ws.rmdir(".")


def test_judging_secrets_and_protected_names(ws):
    (ws.root / ".env").write_text("KEY=1")
    (ws.root / "link").symlink_to(".env")
    (ws.root / ".env.example").write_text("KEY=")
    for path in (".env", "link", "sub/server.pem", "home/.ssh/config", "id_ed25519", "id_rsa.old"):
        verdict = judge_path(ws, path)
        assert verdict is not None and verdict.verdict == "ask", path
        assert verdict.rule == RULE_SECRET
    for path in (".env.example", "id_ed25519.pub", "id_mapping.py", "a.txt", "environment.py"):
        assert judge_path(ws, path) is None, path
    for path in (".git/hooks/pre-commit", ".git/config", ".git", "lib/.git/hooks/x", ".GIT/hooks/x", "toolcrib.toml"):
        verdict = judge_path(ws, path, read=False, write=True)
        assert verdict is not None and verdict.verdict == "ask", path
    for path in (".gitignore", "hooks/x", "a.txt"):
        assert judge_path(ws, path, read=False, write=True) is None, path
    (ws.root.parent / "away" / ".ssh").mkdir(parents=True)
    (ws.root / "away").symlink_to("../away")
    for how in ({}, {"write": True}, {"read": False, "write": True}, {"read": False}):
        for path in ("away/.ssh/config", "away/.ssh", "away/other"):
            verdict = judge_path(ws, path, **how)
            assert verdict is not None and verdict.rule == RULE_OUTSIDE, (path, how)


PIECES = st.sampled_from(["..", ".", "", "sub", "deep", "a.txt", "out", "in", "abs", "loop", "\u202e", "x" * 300, "~"])


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=8), lead=st.sampled_from(["", "/", "{root}/", "{root}/../", "{out}/", "~/"]))
def test_no_spelling_reaches_outside(tmp_path_factory, pieces, lead):
    root = tmp_path_factory.getbasetemp() / "spell"
    if not root.exists():
        (root / "ws" / "sub" / "deep").mkdir(parents=True)
        (root / "out").mkdir()
        (root / "out" / "a.txt").write_text("secret")
        (root / "ws" / "a.txt").write_text("fine")
        (root / "ws" / "sub" / "out").symlink_to(root / "out")
        (root / "ws" / "out").symlink_to("../out")
        (root / "ws" / "in").symlink_to("sub/deep")
        (root / "ws" / "abs").symlink_to(root / "ws")
        (root / "ws" / "loop").symlink_to("loop")
    path = lead.format(root=root / "ws", out=root / "out") + "/".join(pieces)
    answers = set()
    for method in METHODS:
        ws = Workspace(root / "ws", method=method)
        try:
            answers.add(read(ws, path))
        except (ToolError, OSError) as error:
            answers.add(type(error).__name__)
        finally:
            ws.close()
    assert b"secret" not in answers
    assert len(answers) == 1, answers  # both ways of opening agree


def test_settings_of_a_repository_of_another_name_are_protected(ws, tmp_path):
    (tmp_path / "ws/real/objects").mkdir(parents=True)
    (tmp_path / "ws/real/HEAD").write_text("ref: refs/heads/main")
    for path in ("real/config", "real/hooks/pre-commit", "real/commondir", "real/modules/x/config"):
        assert judge_path(ws, path, write=True).verdict == "ask"
    for path in ("real/description", "config", "sub/config", "real/src/config.py"):
        assert judge_path(ws, path, write=True) is None


def test_a_root_that_is_replaced_by_a_link_is_gone(ws, tmp_path):
    for path in sorted((tmp_path / "ws").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "ws").rmdir()
    (tmp_path / "ws").symlink_to("outside")
    with pytest.raises(FileNotFoundError):
        ws.open_read("secret.txt")
    with pytest.raises(FileNotFoundError):
        ws.stage("new", b"x").commit()
    assert not (tmp_path / "outside/new").exists()


def test_an_endless_path_is_refused_at_once(ws):
    started = time.monotonic()
    for path in ("a/" * 500_000, "x" * 1_000_000, "../" * 300_000):
        with pytest.raises(ToolError) as caught:
            ws.locate(path)
        assert len(str(caught.value)) < 300
    assert time.monotonic() - started < 20


class TestASingleFile:
    """A single file can be granted for reading, and nothing beside it."""

    @pytest.fixture(params=METHODS)
    def one(self, request, tmp_path):
        (tmp_path / "ws").mkdir()
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "one.txt").write_text("one")
        (tmp_path / "notes" / "two.txt").write_text("two")
        workspace = Workspace(tmp_path / "ws", [tmp_path / "notes" / "one.txt"], method=request.param)
        yield workspace
        workspace.close()

    @pytest.mark.parametrize("path", ["../notes/one.txt", "../notes/../notes/one.txt", "{above}/notes/one.txt"])
    def test_it_can_be_read(self, one, path):
        path = path.format(above=one.root.parent)
        assert read(one, path) == b"one"
        assert stat.S_ISREG(one.lstat(path).st_mode)
        assert one.relative(path) == one.real(path) == str(one.root.parent / "notes" / "one.txt")

    @pytest.mark.parametrize("path", ["../notes", "../notes/two.txt", "../notes/one.txt/../two.txt"])
    def test_what_is_beside_it_cannot(self, one, path):
        with pytest.raises(OutsideWorkspace, match=r"also granted: .*one\.txt \(read only\)"):
            one.stat(path)

    def test_it_cannot_be_changed_or_listed(self, one):
        with pytest.raises(ReadOnlyRoot, match=r"one\.txt is granted for reading only"):
            one.open_parent("../notes/one.txt")
        for path in ("../notes/one.txt", "../notes/one.txt/below"):
            with pytest.raises(NotADirectoryError):
                one.open_dir(path)

    def test_a_new_file_in_its_place_is_read(self, one):
        notes = one.root.parent / "notes"
        (notes / "new").write_text("new")
        (notes / "new").rename(notes / "one.txt")
        assert read(one, "../notes/one.txt") == b"new"

    def test_a_link_in_its_place_leads_nowhere(self, one):
        notes = one.root.parent / "notes"
        (notes / "one.txt").unlink()
        (notes / "one.txt").symlink_to("two.txt")
        for look in (one.open_read, one.real, one.stat):
            with pytest.raises(ToolError):
                look("../notes/one.txt")
        (one.root / "link").symlink_to("../notes/one.txt")
        with pytest.raises(OutsideWorkspace):
            one.open_read("link")

    def test_a_link_to_it_can_be_granted(self, tmp_path):
        (tmp_path / "file").write_text("x")
        (tmp_path / "link").symlink_to("file")
        (tmp_path / "ws").mkdir()
        ws = Workspace(tmp_path / "ws", [tmp_path / "link"])
        assert read(ws, "../link") == read(ws, "../file") == b"x"
        ws.close()

    def test_it_cannot_be_granted_for_writing(self, tmp_path):
        (tmp_path / "file").write_text("x")
        (tmp_path / "ws").mkdir()
        with pytest.raises(ConfigError, match="for reading only"):
            Workspace(tmp_path / "ws", (), [tmp_path / "file"])


@pytest.mark.parametrize("where", ["link", "link/in", "scratch/link", "outside/back"])
def test_no_grant_leads_through_a_link_that_tools_may_change(tmp_path: Path, where: str) -> None:
    """A tool could let it lead to another place, and the next start would grant that one."""
    ws, shared = tmp_path / "ws", tmp_path / "shared"
    for folder in (ws / "scratch", shared / "in", tmp_path / "outside"):
        folder.mkdir(parents=True)
    (ws / "link").symlink_to(shared)
    (ws / "scratch/link").symlink_to(shared)
    (tmp_path / "outside/back").symlink_to(ws / "link")
    given = tmp_path / where if where.startswith("outside") else ws / where
    with pytest.raises(ConfigError, match="which tools may change"):
        Workspace(ws, read_roots=[given])
    with pytest.raises(ConfigError, match="which tools may change"):
        Workspace(ws, write_roots=[given])
    (tmp_path / "mine").symlink_to(shared)
    Workspace(ws, write_roots=[tmp_path / "mine/in"]).close()  # no tool can change this link
    with pytest.raises(ConfigError, match="which tools may change"):
        Workspace(shared, write_roots=[ws], read_roots=[given])


def test_a_folder_that_is_not_there_is_named_with_its_setting(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"sandbox\.read_roots: \S+none: No such file"):
        Workspace(tmp_path, read_roots=[none])
    with pytest.raises(ConfigError, match=r"sandbox\.write_roots: \S+none: No such file"):
        Workspace(tmp_path, write_roots=[none])
    with pytest.raises(ConfigError, match="workspace directory"):
        Workspace(none)


def test_a_file_instead_of_a_folder_is_named_with_what_asked_for_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match=r"workspace directory \S+file is a file; name a folder"):
        Workspace(file)
    with pytest.raises(ConfigError, match=r"sandbox\.write_roots: \S+file is a file; name a folder"):
        Workspace(tmp_path, write_roots=[file])
