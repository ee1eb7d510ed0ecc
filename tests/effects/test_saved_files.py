"""What a command deletes or rewrites unasked, while it writes directly to the workspace, can be brought back."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.sandbox import protected_paths
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ToolcribError
from toolcrib.effects import saved_files
from toolcrib.effects.saved_files import FileSaver
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace
from toolcrib.record.journal import Journal
from toolcrib.record.pruning import clean
from toolcrib.record.state import StateFolder
from toolcrib.record.undoing import undo

CTX = ToolContext(session_id="s", call_id="call_1")


class Room:
    """A workspace whose files are saved, without commands."""

    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.root.mkdir()
        self.journal = Journal(StateFolder.for_workspace(self.root, base / "state"), Workspace(self.root), sync=False)
        self.saver = FileSaver(self.journal)

    def state(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = os.readlink(path)
            elif path.is_file():
                found[name] = (path.read_bytes(), path.stat().st_mode & 0o777)
            elif path.is_dir():
                found[name] = path.stat().st_mode & 0o777
        return found


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_of_commands_that_run_at_once_none_takes_the_cover_of_another(room: Room) -> None:
    """What each changed cannot be told apart, so each covers all that changed until it ended."""
    for name in ("ours", "theirs"):
        (room.root / name).write_text("before")
    first, second = room.saver.save(), room.saver.save()
    (room.root / "ours").write_text("by the first")
    (room.root / "theirs").write_text("by the second")
    assert "2 files" in room.saver.outcome(first, CTX).undo
    (room.root / "theirs").unlink()
    outcome = room.saver.outcome(second, replace(CTX, call_id="call_2"))
    assert "2 files" in outcome.undo and not outcome.notes
    undo(room.journal, "call_2")
    assert {name: (room.root / name).read_text() for name in ("ours", "theirs")} == dict.fromkeys(
        ("ours", "theirs"), "before"
    )
    with pytest.raises(ToolcribError, match="changed"):  # nothing is lost by the other undo
        undo(room.journal, "call_1")


def test_what_was_moved_away_from_another_command_is_not_brought_back(room: Room) -> None:
    (room.root / "sub" / ".vscode").mkdir(parents=True)  # a command has made it, and has not ended
    (room.root / "sub" / ".vscode" / "tasks.json").touch()
    (room.root / "plain").touch()
    second = room.saver.save()
    room.journal.move_to_trash("sub/.vscode", "undo-1", "it is protected")
    room.saver.forget("sub/.vscode")
    (room.root / "plain").unlink()
    assert "changed 1 file;" in room.saver.outcome(second, CTX).undo
    undo(room.journal, "call_1")
    assert sorted(room.state()) == ["plain", "sub"]


def test_a_command_of_another_process_that_took_the_copy_is_named(room: Room) -> None:
    (room.root / "a").write_text("before")
    first, second = room.saver.save(), FileSaver(room.journal).save()
    (room.root / "a").write_text("after")
    assert "1 file" in room.saver.outcome(first, CTX).undo
    (note,) = FileSaver(room.journal).outcome(second, replace(CTX, call_id="call_2")).notes
    assert "a command that ran at the same time covers it" in note


def test_folders_that_are_too_far_down_are_not_entered_and_are_looked_at(room: Room) -> None:
    far = room.root / "/".join(["d"] * 101)
    far.mkdir(parents=True)
    (far / "file").touch()
    saved = room.saver.save()
    assert saved.guarded == [str(far.parent)]
    assert not saved.keys


@pytest.mark.parametrize("script", ["rm one two sub/three", "rm two", "echo after > one", "rm two; echo after > one"])
def test_every_name_of_a_file_comes_back(room: Room, script: str) -> None:
    (room.root / "sub").mkdir()
    (room.root / "one").write_text("before")
    for name in ("two", "sub/three"):
        os.link(room.root / "one", room.root / name)
    before, saved = room.state(), room.saver.save()
    subprocess.run(["sh", "-c", script], cwd=room.root, check=True)
    after, outcome = room.state(), room.saver.outcome(saved, CTX)
    assert outcome.undo and not outcome.notes
    undone = undo(room.journal, "call_1")
    assert room.state() == before
    undo(room.journal, undone.undo_id)
    assert room.state() == after


def test_a_file_that_its_owner_may_not_read_is_saved_and_keeps_its_mode(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, opened = room.root / "locked", os.open
    locked.write_text("before")
    locked.chmod(0o200)

    def as_owner(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not flags & (os.O_PATH | os.O_CREAT) and not os.stat(path, dir_fd=dir_fd).st_mode & stat.S_IRUSR:
            raise PermissionError  # which root does not get
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", as_owner)
    saved = room.saver.save()
    assert stat.S_IMODE(locked.lstat().st_mode) == 0o200
    outcome = room.saver.outcome(saved, CTX)
    assert "deleted" not in outcome.undo and not outcome.notes
    saved = room.saver.save()
    locked.unlink()
    assert "1 file" in room.saver.outcome(saved, replace(CTX, call_id="call_2")).undo
    monkeypatch.undo()
    undo(room.journal, "call_2")
    assert stat.S_IMODE(locked.lstat().st_mode) == 0o200
    locked.chmod(0o600)
    assert locked.read_text() == "before"


def test_what_is_gone_or_rewritten_comes_back(room: Room) -> None:
    for name in ("a", "sub/b", "sub/deep/c", "mode", "moved", ".git/HEAD", "was_file"):
        (room.root / name).parent.mkdir(parents=True, exist_ok=True)
        (room.root / name).write_text(name)
    (room.root / "link").symlink_to("a")
    (room.root / "mode").chmod(0o755)
    before = room.state()
    saved = room.saver.save()
    (room.root / "a").write_text("rewritten, in place")
    subprocess.run(["rm", "-r", "sub", "link", ".git"], cwd=room.root, check=True)
    (room.root / "mode").chmod(0o600)
    os.replace(room.root / "moved", room.root / "elsewhere")
    (room.root / "was_file").unlink()
    (room.root / "was_file").mkdir()
    (room.root / "new").write_text("new")
    outcome = room.saver.outcome(saved, CTX)
    assert "it deleted or changed 8 files and 3 folders; `toolcrib undo call_1`" in outcome.undo and not outcome.notes
    assert "leaves the 2 files that it made" in outcome.undo
    undo(room.journal, "call_1")
    after = room.state()
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"elsewhere", "new"}


def test_a_fifo_that_is_gone_comes_back(room: Room) -> None:
    for name in ("gone", "used", "replaced"):
        os.mkfifo(room.root / name, 0o600)
    saved = room.saver.save()
    script = "rm gone replaced; echo x > replaced; cat used & echo y > used; wait"
    subprocess.run(["sh", "-c", script], cwd=room.root, check=True)
    outcome = room.saver.outcome(saved, CTX)
    assert "it deleted or changed 2 files" in outcome.undo and not outcome.notes
    undone = undo(room.journal, "call_1")
    assert [stat.filemode((room.root / name).lstat().st_mode) for name in ("gone", "used", "replaced")] == [
        "prw-------"
    ] * 3
    undo(room.journal, undone.undo_id)
    assert (room.root / "replaced").read_text() == "x\n" and not (room.root / "gone").exists()


def test_a_command_with_the_id_of_an_earlier_one_is_undone_alone(room: Room) -> None:
    for name in ("first", "second"):
        (room.root / name).write_text(name)
        saved = room.saver.save()
        (room.root / name).unlink()
        told = room.saver.outcome(saved, CTX).undo
    undo(room.journal, told.partition("`toolcrib undo ")[2].partition("`")[0])
    assert (room.root / "second").exists() and not (room.root / "first").exists()


def test_the_undo_history_keeps_its_limit_where_commands_rewrite_much(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.record.journal.JOURNAL_QUOTA", 4 << 20)
    monkeypatch.setattr("toolcrib.record.journal._PRUNE_EVERY", 20)
    monkeypatch.setattr(room.journal, "_since_prune", 0)
    for n in range(12):
        (room.root / "large").write_bytes(bytes([n]) * (4 << 20))
        saved = room.saver.save()
        (room.root / "large").unlink()
        assert "it deleted or changed 1 file" in room.saver.outcome(saved, CTX).undo
    assert room.journal.folder.sizes()["trash"] < 30 << 20


def test_commands_are_undone_one_after_the_other(room: Room) -> None:
    """What an undo brings back is another file, but the one that the command before it left."""
    (room.root / "a").write_text("0")
    for number in (1, 2, 3):
        saved = room.saver.save()
        (room.root / "a").write_text(f"{number}" * 300_000)
        room.saver.outcome(saved, replace(CTX, call_id=f"call_{number}"))
    saved = room.saver.save()
    shutil.copy(room.root / "a", room.root / "again")
    os.replace(room.root / "again", room.root / "a")  # as `sed -i` does where it finds nothing
    room.saver.outcome(saved, replace(CTX, call_id="call_4"))
    for number in (3, 2, 1):
        undo(room.journal, f"call_{number}")
        assert (room.root / "a").read_text().strip(f"{number - 1}") == ""


@pytest.mark.parametrize(
    "does",
    [
        "rmdir empty/inner", "rm -r empty", "chmod 700 sub", "chmod -R a-w sub empty a", "rm -r sub",
        "mv sub elsewhere", "chmod +x a; chmod 711 empty/inner sub", "rmdir empty/inner; echo x > empty/inner",
        "rm -r empty; ln -s /etc empty", "rm -r sub; mkdir -m 700 sub",
    ],
)  # fmt: skip
def test_modes_and_empty_folders_come_back(room: Room, does: str) -> None:
    for name in ("empty/inner", "sub/deep", "node_modules/x"):
        (room.root / name).mkdir(parents=True)
    for name in ("a", "sub/deep/b"):
        (room.root / name).write_text(name)
    (room.root / "sub").chmod(0o775)
    (room.root / "sub" / "deep").chmod(0o750)
    before = room.state()
    saved = room.saver.save()
    subprocess.run(["sh", "-c", does], cwd=room.root, check=True)
    changed = room.state()
    outcome = room.saver.outcome(saved, CTX)
    assert "folder" in outcome.undo and not outcome.notes
    undone = undo(room.journal, "call_1")
    after = room.state()
    assert {name: after[name] for name in before} == before
    if "elsewhere" not in does:
        assert after == before
        undo(room.journal, undone.undo_id)
        assert room.state() == changed


@pytest.mark.parametrize(
    "instead",
    ["ln -s /etc sub", "ln -s other sub", "echo x > sub", "mkfifo sub", "ln -s /etc sub/deep", "ln -s ../a sub/deep"],
)
def test_files_come_back_when_something_else_is_in_the_place_of_their_folder(room: Room, instead: str) -> None:
    for name in ("a", "sub/b", "sub/deep/passwd", "other/b", "other/deep/passwd"):
        (room.root / name).parent.mkdir(parents=True, exist_ok=True)
        (room.root / name).write_text(name)
    before = room.state()
    saved = room.saver.save()
    place = instead.split()[-1]
    subprocess.run(["sh", "-c", f"rm -r {place}; {instead}"], cwd=room.root, check=True)
    outcome = room.saver.outcome(saved, CTX)
    assert "it deleted or changed" in outcome.undo and not outcome.notes
    undone = undo(room.journal, "call_1")
    assert room.state() == before and not (room.root / place).is_symlink()
    undo(room.journal, undone.undo_id)
    assert not (room.root / place).is_dir() or (room.root / place).is_symlink()


@pytest.mark.parametrize("fill", ["aaa", "sub", "."])
def test_files_that_a_command_makes_take_no_cover_from_others(
    room: Room, monkeypatch: pytest.MonkeyPatch, fill: str
) -> None:
    monkeypatch.setattr(saved_files, "MAX_FILES", 10)
    for name in ("sub/b", "sub/z", "z", ".git/HEAD"):
        (room.root / name).parent.mkdir(parents=True, exist_ok=True)
        (room.root / name).write_text(name)
    before = room.state()
    saved = room.saver.save()
    (room.root / fill).mkdir(exist_ok=True)
    for number in range(30):
        (room.root / fill / f"a{number}").write_text("x")
    room.saver.outcome(saved, CTX)
    room.saver.save()
    saved = FileSaver(room.journal).save()  # as another process would
    assert "too large" in saved.why
    subprocess.run(["rm", "-r", "sub", "z", ".git"], cwd=room.root, check=True)
    FileSaver(room.journal).outcome(saved, CTX)
    undo(room.journal, "call_1")
    after = room.state()
    assert {name: after[name] for name in before} == before


def test_nothing_is_said_where_nothing_was_lost(room: Room) -> None:
    (room.root / "a").write_text("a")
    saved = room.saver.save()
    (room.root / "new").write_text("x")
    os.utime(room.root / "a")  # as a build does
    outcome = room.saver.outcome(saved, CTX)
    assert "undo does not cover" in outcome.undo and not room.journal.changes()


def test_clean_knows_them(room: Room) -> None:
    (room.root / "a").write_text("a" * 100)
    os.utime(room.root / "a", (1, 1))  # its copy is new all the same
    room.saver.save()
    folder = room.journal.folder
    assert folder.sizes()["saved"] == 100
    assert not clean(folder).removed
    found = clean(folder, journal_quota=0, dry_run=True).removed
    assert [(each.part, each.size) for each in found] == [("saved", 100)]
    assert clean(folder, journal_quota=0).freed == 100
    assert folder.sizes()["saved"] == 0
    saved = room.saver.save()  # and the next command is saved again
    (room.root / "a").unlink()
    room.saver.outcome(saved, CTX)
    undo(room.journal, "call_1")
    assert (room.root / "a").read_text() == "a" * 100


def test_truncating_does_not_ask_where_undo_brings_the_content_back(room: Room) -> None:
    (room.root / "small").write_text("x")
    (room.root / "node_modules").mkdir()
    (room.root / "node_modules/made").write_text("x")
    with open(room.root / "large", "wb") as file:
        file.truncate(saved_files.MAX_FILE_BYTES + 1)
    (room.root / "link").symlink_to("small")
    root = str(room.root)
    place = CommandPlace(root, root, "/home/x", contained=True, on_disk=True, undo_covers=room.saver.covers)
    for command, unknown in {
        "truncate -s0 small": True, "truncate -s 0 link": True, "truncate -s0 large": False, "rm small": False,
        "truncate -s0 node_modules/made": False, "truncate -s0 *": False, "truncate -s0 $x": False,
        "truncate -s0 none": True, "truncate -s0 small large": False,
    }.items():  # fmt: skip
        found = judge_command(command, place)
        assert (found.verdict, found.unknown) == ("ask", unknown), command
    assert not judge_command("truncate -s0 small", replace(place, undo_covers=None)).unknown


def test_only_what_has_changed_is_copied_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (room.root / str(number)).write_text("x" * 100)
    room.saver.save()
    monkeypatch.setattr(saved_files, "MAX_COPIED", 150)  # room for one
    (room.root / "7").write_text("y" * 100)
    again = FileSaver(room.journal).save()  # as another process would
    assert not again.why and len(again.keys) == 20


def test_what_cannot_be_saved_is_said(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_files, "MAX_FILE_BYTES", 10)
    (room.root / "large").write_text("x" * 11)
    (room.root / "small").write_text("x")
    saved = room.saver.save()
    for path in room.root.iterdir():
        path.unlink()
    outcome = room.saver.outcome(saved, CTX)
    assert "1 file;" in outcome.undo
    assert outcome.notes and "undo does not cover all" in outcome.notes[0]
    (room.root / "large").write_text("x" * 11)
    outcome = room.saver.outcome(room.saver.save(), CTX)  # nothing was changed: one sentence about undo, not two
    assert outcome.notes and not outcome.undo
    monkeypatch.setattr(saved_files, "MAX_FILES", 3)
    for number in range(5):
        (room.root / str(number)).write_text("x")
    assert "too large" in room.saver.save().why


def test_links_are_not_followed(room: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (room.root / "out").symlink_to(tmp_path)
    (room.root / "file").symlink_to(tmp_path / "secret")
    saved = room.saver.save()
    assert set(saved.keys) == {"out", "file"}
    copies = list((room.journal.folder.path / "saved").iterdir())
    assert all(copy.is_symlink() for copy in copies)
    assert (room.journal.folder.path / "saved").stat().st_mode & 0o777 == 0o700


def test_old_copies_are_deleted(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (room.root / "a").write_text("x" * (100 + number))
        room.saver.save()
    folder = room.journal.folder.path / "saved"
    assert len(list(folder.iterdir())) == 5
    monkeypatch.setattr(saved_files, "STALE_SECONDS", -1.0)
    room.saver.save()
    assert len(list(folder.iterdir())) == 1


def test_copies_that_a_running_command_needs_stay(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a server that runs in the background while other commands come and go."""
    (room.root / "a").write_text("before")
    long = room.saver.save()
    (room.root / "a").write_text("after it")
    monkeypatch.setattr(saved_files, "STALE_SECONDS", -1.0)
    assert room.saver.save().keys
    outcome = room.saver.outcome(long, CTX)
    assert "changed 1 file" in outcome.undo and not outcome.notes
    undo(room.journal, "call_1")
    assert (room.root / "a").read_text() == "before"


@pytest.fixture
async def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Toolbox]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ws").mkdir()
    async with Toolbox.open(workspace=tmp_path / "ws") as box:
        yield box


COMMANDS = {
    "mv a /tmp/x": ("a",),  # a folder of the command alone: it is a deletion
    "mv a b": ("a", "b"),
    "gzip a": ("a",),
    "xz --rm a": ("a",),
    "echo x > a": ("a",),
    "sed -i s/one/1/ a": ("a",),
    "cp b a": ("a",),
    "truncate -s 0 a b": ("a", "b"),
    'python3 -c \'import os; os.unlink("a"); open("b", "w")\'': ("a", "b"),
    "sh script.sh": ("a", "sub/c"),
    "git clean -n --no-dry-run -fd": ("sub/c",),
    "git rm -f a": ("a",),
    "git checkout-index -f -a": ("a",),
    "git read-tree --reset HEAD": (),
    "git prune": (),
    "git update-ref -d refs/heads/main": (),
    f"mv a /tmp/{'x' * 200}; : {'y' * 11_000}": ("a",),
}


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_asks_or_is_covered_by_undo(box: Toolbox, command: str) -> None:
    if not box.sandbox().active:
        pytest.skip("no sandbox here")
    root = Path(box.journal.ws.root)
    (root / "a").write_text("one\n")
    (root / "b").write_text("two\n")
    (root / "sub").mkdir()
    (root / "sub" / "c").write_text("three\n")
    (root / "script.sh").write_text("rm -rf a sub\n")
    run = {"cwd": root, "check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q"], **run)
    subprocess.run(["git", "add", "a", "b", "script.sh"], **run)
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x"], **run)
    (root / "a").write_text("one, not committed\n")
    before = {name: (root / name).read_bytes() for name in ("a", "b", "sub/c", ".git/HEAD")}
    output = await box.call("exec", {"command": command})
    if output.error_kind in ("pending", "denied"):
        assert {name: (root / name).read_bytes() for name in before} == before
        return
    lost = [name for name in before if not (root / name).exists() or (root / name).read_bytes() != before[name]]
    assert set(lost) <= set(COMMANDS[command])
    if lost:
        assert "toolcrib undo" in output.for_llm
        undo(box.journal, box.journal.table.last_call())
    assert {name: (root / name).read_bytes() for name in before} == before


DEEP = "src/main/java/com/acme/app"


@pytest.mark.parametrize("many", [0, 1_100])
async def test_a_repository_in_a_deep_folder_is_guarded_as_one_in_a_shallow_one(box: Toolbox, many: int) -> None:
    if not box.sandbox().active:
        pytest.skip("no sandbox here")
    root = Path(box.journal.ws.root)
    (root / DEEP / "own").mkdir(parents=True)
    for number in range(many):
        (root / f"d{number}").mkdir()
    subprocess.run(["git", "init", "-q", str(root / DEEP / "own")], check=True)
    config = root / DEEP / "own" / ".git" / "config"
    before = config.read_text()
    await box.call("exec", {"command": f"sh -c 'git init -q {DEEP}; echo x >> {DEEP}/.git/config'"})
    assert not (root / DEEP / ".git" / "config").exists()
    await box.call("exec", {"command": f"sh -c 'echo x >> {DEEP}/own/.git/config; echo x > {DEEP}/own/.git/hooks/y'"})
    assert config.read_text() == before and not (config.parent / "hooks" / "y").exists()
    (root / "make.sh").write_text(f"mkdir -p {DEEP}/z; echo x > {DEEP}/z/.envrc; echo x > {DEEP}/z/a\n")
    done = await box.call("exec", {"command": "sh make.sh"})
    assert not (root / DEEP / "z" / ".envrc").exists() and (root / DEEP / "z" / "a").exists()
    assert ".envrc" in done.for_llm


@pytest.mark.parametrize("many", [0, 1_100])
async def test_what_comes_from_a_folder_that_is_not_searched_does_not_stay(box: Toolbox, many: int) -> None:
    if not box.sandbox().active:
        pytest.skip("no sandbox here")
    root = Path(box.journal.ws.root)
    for name in (DEEP, "node_modules/m/.vscode", "node_modules/n/.vscode", *(f"d{number}" for number in range(many))):
        (root / name).mkdir(parents=True)
    (root / "node_modules/.package-lock.json").touch()
    await box.call("exec", {"command": "true"})  # what is there by then is older than the next command
    done = await box.call("exec", {"command": f"sh -c 'mv node_modules/m m; mv node_modules/n {DEEP}/n'"})
    assert not (root / "m/.vscode").exists() and not (root / DEEP / "n/.vscode").exists() and (root / "m").is_dir()
    assert ".vscode" in done.for_llm


async def test_many_new_files_hide_nothing(box: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    if not box.sandbox().active:
        pytest.skip("no sandbox here")
    monkeypatch.setattr(saved_files, "MAX_FILES", 20)
    root = Path(box.journal.ws.root)
    for count, hidden in ((100, False), (600, True)):
        deep = f"{DEEP}/{count}"
        command = f"mkdir -p a{count} {deep}/.vscode; touch a{count}/$(seq -s ' a{count}/' {count})"
        done = await box.call("exec", {"command": f'sh -c "{command}"'})
        assert (root / deep / ".vscode").exists() == hidden == ("not all were searched" in done.for_llm)
        shutil.rmtree(root / f"a{count}")


def test_files_are_looked_at_for_ten_seconds_after_a_command(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[float] = itertools.repeat(0.0)
    monkeypatch.setattr(saved_files, "time", SimpleNamespace(monotonic=lambda: next(clock), time=time.time))
    for seconds, whole in ((9, True), (12, False)):
        clock = itertools.repeat(0.0)
        saved = room.saver.save()
        for number in range(seconds):
            (room.root / str(number)).write_text("x")
        clock = itertools.count(0.0, 1.0)
        room.saver.outcome(saved, CTX)
        assert (room.journal.folder.saved / saved_files.PATHS).exists() != whole


async def test_the_undo_that_is_offered_for_a_replaced_protected_link_works(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not box.sandbox().active:
        pytest.skip("no sandbox here")
    root = Path(box.journal.ws.root)
    (root / "real").write_text("echo real\n")
    (root / "other").write_text("echo other\n")
    (root / ".envrc").symlink_to("real")
    done = await box.call("exec", {"command": "ln -sfn other .envrc"})
    offers = re.findall(r"toolcrib undo (--force )?([\w-]+)", done.for_llm)
    assert not os.path.lexists(root / ".envrc") and len(offers) == 2
    for (force, call), leads in zip(offers, ("other", "real"), strict=True):
        undo(box.journal, call, force=bool(force))
        assert os.readlink(root / ".envrc") == leads
    (root / "make.sh").write_text("echo x > .mcp.json\n")
    done = await box.call("exec", {"command": "sh make.sh"})
    ((force, call),) = re.findall(r"toolcrib undo (--force )?([\w-]+)", done.for_llm)
    monkeypatch.setattr(protected_paths, "TICK_NS", 60_000_000_000)  # as if all of it had just been done
    undo(box.journal, call, force=bool(force))
    assert not force and (root / ".mcp.json").exists()
