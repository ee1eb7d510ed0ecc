"""Layers of commands: applied whole or not at all, undone in one order with edits, completed after a crash."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.own_files import lock_file
from toolcrib.boundary.process import start
from toolcrib.boundary.remove_tree import remove_all
from toolcrib.boundary.sandbox import SandboxSettings, bubblewrap, select_sandbox
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.boundary.sandbox.namespace_helper import NamespaceHelper
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import SandboxUnavailable, ToolError
from toolcrib.effects import changes_in, command_changes, layer_store
from toolcrib.effects.change_list import ChangeList
from toolcrib.effects.layer_apply import ApplyConflict
from toolcrib.effects.layer_scan import changes_of
from toolcrib.effects.layer_store import HeldChanges, LayerStore, LayerUnknown
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder
from toolcrib.record.undoing import UndoConflict, undo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="overlays are Linux's")


class Commands:
    """A workspace in which commands run over layers."""

    def __init__(self, workspace: Path, state: Path, settings: SandboxSettings | None = None) -> None:
        self.path = workspace
        sandbox = select_sandbox(settings or SandboxSettings(), workspace)
        assert isinstance(sandbox, BubblewrapSandbox)
        self.sandbox = sandbox
        self.ws = Workspace(workspace, write_roots=settings.write_roots if settings else ())
        folder = StateFolder.for_workspace(workspace, state)
        self.journal = Journal(folder, self.ws, commands=lambda: command_changes(folder))
        self.changes = changes_in(self.journal)

    @property
    def layers(self) -> LayerStore:
        return self.changes.layers

    def run(self, command: str, meanwhile: object = None) -> tuple[HeldChanges, ChangeList]:
        layer = self.layers.begin(self.sandbox.layer_roots())
        argv, env = ["/bin/bash", "-c", command], command_environment()
        spawn = self.sandbox.wrap(argv, cwd=self.path, env=env, timeout=60, layer=layer)
        result = start(spawn, timeout=60).wait()
        assert result is not None and result.exit_code is not None, result
        if callable(meanwhile):
            meanwhile()
        found = changes_of(layer)
        return self.layers.hold(layer, found, call_id=layer.id, session_id="s", command=command), found

    def apply(self, command: str) -> str:
        held, _ = self.run(command)
        self.changes.apply(self.journal, held)
        return held.id

    def close(self) -> None:
        self.journal.close()
        self.ws.close()


def make(workspace: Path, state: Path, settings: SandboxSettings | None = None) -> Commands:
    try:
        made = Commands(workspace, state, settings)
        made.sandbox.layer_roots()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return made


@pytest.fixture
def box(tmp_path: Path):
    (tmp_path / "work").mkdir()
    made = make(tmp_path / "work", tmp_path / "state")
    yield made
    made.close()


def actions(found: ChangeList) -> dict[str, str]:
    return {change.path: change.action for change in found.changes}


def test_a_change_list(box: Commands) -> None:
    for name in ("same", "text", "mode", "gone", "link", "touched"):
        (box.path / name).write_text("before")
    (box.path / "dir").mkdir()
    (box.path / "dir/below").write_text("x")
    _, found = box.run(
        "cat same > /tmp/x; cat /tmp/x > same; touch -r text same; echo after > text; chmod 700 mode; rm gone;"
        " ln -sf text link; touch -d 2001-01-01 touched; rm -r dir; echo x > dir; mkdir new; ln -s .. new/up;"
        " touch -r text same"
    )
    assert actions(found) == {
        "same": "touched", "text": "modified", "mode": "mode", "gone": "deleted", "link": "replaced",
        "touched": "touched", "dir": "replaced", "dir/below": "deleted", "new": "created", "new/up": "created",
    }  # fmt: skip
    assert not found.conflicts and not found.refused


def test_a_file_opened_for_writing_and_left_as_it_was_is_no_change(box: Commands) -> None:
    (box.path / "a").write_text("x")
    _, found = box.run("python3 - <<'E'\nopen('a', 'r+').close()\nE")
    assert not found and not found.ops


def test_what_is_protected_stays_so_where_a_helper_binds_it(box: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does in a workspace with very many repositories."""
    bound: list[tuple[str, bool]] = []
    bind = NamespaceHelper.bind

    def noted(self: NamespaceHelper, pid: int, paths: list[tuple[str, bool]]) -> None:
        bound.extend(paths)
        bind(self, pid, paths)

    monkeypatch.setattr(bubblewrap, "MAX_OWN_BINDS", 0)
    monkeypatch.setattr(NamespaceHelper, "bind", noted)
    subprocess.run(["git", "init", "-q", str(box.path)], check=True)
    _, found = box.run(
        "echo h > .git/hooks/x; echo c >> .git/config; rm -rf .git/hooks; mv .git/config .git/other; echo x > new;"
        " rm -r .git/hooks; mv -T new .git/config; echo y > .git/description"
    )
    assert actions(found) == {"new": "created", ".git/description": "modified"}
    assert bound == [(f"{box.path}/.git/config", True), (f"{box.path}/.git/hooks", True)]


def test_what_is_never_applied(box: Commands) -> None:
    subprocess.run(["git", "init", "-q", str(box.path)], check=True)
    (box.path / "bare").mkdir()
    (box.path / "bare/HEAD").write_text("ref")
    (box.path / "bare/config").write_text("[core]")
    held, found = box.run(
        "mkfifo pipe; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; mkdir .vscode;"
        " echo t > .vscode/tasks.json; echo h > .git/hooks/post-checkout; echo c >> .git/config; mkdir bare/objects;"
        " mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/x; echo x > sub/.git/other; echo 'gitdir: /x' > x.git;"
        " mkdir -p w/y; echo gitdir > w/y/.git; ln -s hooks .git/aside; echo x > .git/MERGE_RR;"
        " cp /bin/true sgid; chmod 2755 sgid;"
        " mkdir -p node_modules/p/.vscode; echo kept > node_modules/p/.vscode/s; mkdir t;"
        " touch node_modules/.package-lock.json; echo 1 > t/.bashrc"
    )
    refused = {change.path: change.refused for change in found.refused}
    expected = {
        "pipe",
        "sock",
        ".vscode",
        "bare/objects",
        "sub/.git/hooks",
        "w/y/.git",
        "t/.bashrc",
        ".git/aside",
        ".git/MERGE_RR",
    }
    assert set(refused) == expected
    assert "FIFO" in refused["pipe"] and "socket" in refused["sock"] and "protected" in refused[".vscode"]
    assert any("set-user-ID" in note for c in found.changes if c.path == "sgid" for note in c.notes)
    box.layers.apply(held.id)
    assert not any((box.path / path).exists() for path in expected)
    assert (box.path / "sgid").stat().st_mode & 0o7777 == 0o755
    assert (box.path / "sub/.git/other").exists() and (box.path / "node_modules/p/.vscode/s").exists()
    assert not (box.path / ".git/hooks/post-checkout").exists()
    box.layers.undo(held.id)
    assert sorted(p.name for p in box.path.iterdir()) == [".git", "bare"]


def test_links_that_lead_to_protected_names_stay(box: Commands) -> None:
    subprocess.run(["git", "init", "-q", str(box.path)], check=True)
    shutil.move(box.path / ".git/hooks", box.path / "hooks")
    (box.path / ".git/hooks").symlink_to("../hooks")
    held, found = box.run("rm .git/hooks; mkdir .git/hooks; echo x > .git/hooks/post-commit; rm -rf .git hooks")
    assert ".git/hooks" in {change.path for change in found.refused}
    box.layers.apply(held.id)
    assert (box.path / ".git/hooks").is_symlink() and (box.path / "hooks").is_dir()


def test_a_conflict_is_found_and_nothing_overwritten(box: Commands) -> None:
    for name in ("a", "b", "c"):
        (box.path / name).write_text("before")

    def meanwhile() -> None:
        (box.path / "a").write_text("theirs")
        (box.path / "new").write_text("theirs")
        (box.path / "b").unlink()

    held, found = box.run("for f in a b c new; do echo ours > $f; done", meanwhile)
    assert {change.path for change in found.conflicts} == {"a", "b", "new"}
    with pytest.raises(ApplyConflict, match="meanwhile"):
        box.layers.apply(held.id)
    assert (box.path / "a").read_text() == (box.path / "new").read_text() == "theirs"
    assert (box.path / "c").read_text() == "before" and not (box.path / "b").exists()
    box.layers.discard(held.id)


@pytest.mark.parametrize(
    ("command", "others", "joins"),
    [
        ("mkdir e/objects; echo 'ref: refs/heads/m' > e/HEAD", ["config"], True),
        ("mkdir e/objects", ["HEAD", "hooks"], True),
        ("echo x > e/config", ["HEAD", "objects"], True),
        ("echo .. > e/commondir", ["HEAD"], True),
        ("mkdir e/objects e/hooks", ["config"], False),
        ("mkdir e/objects; echo x > e/config", [], False),
    ],
)
def test_no_repository_comes_of_what_others_made_beside_the_changes_that_wait(
    box: Commands, command: str, others: list[str], joins: bool
) -> None:
    """The list of changes was made before that, so it left nothing out."""
    (box.path / "e").mkdir()
    (box.path / "e" / "a").touch()
    held, found = box.run(command)
    assert not [change for change in found.changes if change.refused]
    for name in others:
        (box.path / "e" / name).touch()
    if joins:
        with pytest.raises(ApplyConflict, match="would be part of a repository with settings"):
            box.layers.apply(held.id)
        assert {each.name for each in (box.path / "e").iterdir()} == {"a", *others}
    else:
        box.layers.apply(held.id)


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("echo ours > a", "echo theirs > a"),
        ("echo ours > a", "rm a"),
        ("rm a", "chmod 600 a"),
        ("rm -r dir", "echo x > dir/sub/new"),
        ("rm -r dir", "echo x >> dir/sub/file"),
        ("echo x > dir/sub/ours", "mv dir elsewhere"),
        ("echo x > dir/sub/ours", "mv dir elsewhere; ln -s elsewhere dir"),
        ("echo x > new", "ln -s /etc/passwd new"),
        ("chmod 700 dir", "chmod 711 dir"),
        ("rm -r dir; echo x > dir", "touch dir/other"),
    ],
)
def test_a_change_between_the_list_and_the_apply_is_a_conflict(box: Commands, command: str, change: str) -> None:
    (box.path / "a").write_text("before")
    (box.path / "dir/sub").mkdir(parents=True)
    (box.path / "dir/sub/file").write_text("before")
    (box.path / "other").write_text("before")
    held, _ = box.run(f"echo too > other; {command}")
    subprocess.run(["/bin/sh", "-c", change], cwd=box.path, check=True)
    with pytest.raises((ApplyConflict, OSError)):
        box.layers.apply(held.id)
    assert (box.path / "other").read_text() == "before"
    assert box.layers.get(held.id).state == "held"


def test_a_failure_half_way_is_taken_back(box: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.effects.layer_apply import Applier

    (box.path / "b").write_text("before")
    (box.path / "c").write_text("before")
    held, _ = box.run("echo 1 > a; echo 2 > b; rm c; mkdir d; echo 3 > d/e")
    take, taken = Applier.take, [0]

    def fail(self: Applier, step: object) -> None:
        taken[0] += 1
        if taken[0] == 3:
            raise OSError(28, "No space left on device")
        take(self, step)  # type: ignore[arg-type]

    monkeypatch.setattr(Applier, "take", fail)
    with pytest.raises(OSError, match="space"):
        box.layers.apply(held.id)
    monkeypatch.undo()
    assert sorted(p.name for p in box.path.iterdir()) == ["b", "c"]
    assert (box.path / "b").read_text() == (box.path / "c").read_text() == "before"
    box.layers.apply(held.id)
    assert sorted(p.name for p in box.path.iterdir()) == ["a", "b", "d"]


@pytest.mark.parametrize("moves", [True, False])
def test_a_disk_that_is_full_from_the_middle_of_an_apply_on(
    box: Commands, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    from toolcrib.effects import layer_store
    from toolcrib.effects.layer_apply import Applier

    (box.path / "b").write_text("before")
    held, _ = box.run("echo 1 > a; echo 2 > b")
    take, taken = Applier.take, [0]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def fill(self: Applier, step: object) -> None:
        monkeypatch.setattr(layer_store, "_write", full)
        take(self, step)  # type: ignore[arg-type]
        taken[0] += 1
        if taken[0] == 2 and not moves:
            full()

    monkeypatch.setattr(Applier, "take", fill)
    with contextlib.nullcontext() if moves else pytest.raises(OSError, match="space"):
        box.changes.apply(box.journal, held)
    monkeypatch.undo()
    state = "applied" if moves else "held"
    for _ in range(2):
        assert (box.layers.get(held.id).state, (box.path / "a").exists()) == (state, moves)
        box.layers.recover()
    if moves:
        undo(box.journal, held.call_id)
    assert not (box.path / "a").exists() and (box.path / "b").read_text() == "before"


def test_an_answer_does_not_hide_that_a_person_applied_the_changes_meanwhile(box: Commands) -> None:
    held, _ = box.run("echo 1 > a")
    box.changes.apply(box.journal, held)
    box.layers.note_approval(held, "ap_1")
    assert box.layers.get(held.id).state == "applied"
    with pytest.raises(LayerUnknown, match="applied"):
        box.layers.discard(held.id)
    undo(box.journal, held.call_id)
    assert not (box.path / "a").exists()
    box.layers.discard(held.id)
    box.layers.note_approval(held, "ap_1")


def test_an_undo_that_was_killed_is_not_taken_back_by_the_next(box: Commands) -> None:
    name = box.apply("echo 1 > a")
    box.layers.undo(name)  # what is completed after a kill
    undo(box.journal, name)
    assert not (box.path / "a").exists()
    with pytest.raises(ToolError, match="nothing to undo"):
        undo(box.journal)


def test_undo_of_commands_and_edits_in_one_order(box: Commands) -> None:
    file = box.path / "f"
    box.journal.write("f", b"edit 1", call_id="edit-1")
    first = box.apply("echo command 1 > f; echo x > made")
    box.journal.write("f", b"edit 2", call_id="edit-2")
    second = box.apply("rm f")
    assert [change.call_id for change in box.journal.changes()] == [second, "edit-2", first, "edit-1"]
    with pytest.raises(UndoConflict):
        undo(box.journal, first)
    assert undo(box.journal).call_id == second
    assert file.read_text() == "edit 2"
    assert undo(box.journal).call_id == "edit-2"
    assert file.read_text() == "command 1\n"
    undone = undo(box.journal)
    assert undone.call_id == first
    assert file.read_text() == "edit 1" and not (box.path / "made").exists()
    again = undo(box.journal, undone.undo_id)
    assert file.read_text() == "command 1\n" and (box.path / "made").exists()
    undo(box.journal, again.undo_id)
    assert undo(box.journal).call_id == "edit-1"
    assert not file.exists()
    with pytest.raises(ToolError, match="nothing to undo"):
        undo(box.journal)


def test_undo_after_somebody_changed_it(box: Commands) -> None:
    call = box.apply("mkdir d; echo ours > d/f; echo x > g")
    (box.path / "d/f").write_text("theirs")
    with pytest.raises(UndoConflict, match="changed"):
        undo(box.journal, call)
    with pytest.raises(ToolError, match="go together"):
        undo(box.journal, call, force=True)
    assert (box.path / "d/f").read_text() == "theirs" and (box.path / "g").exists()


def test_names_that_are_no_text_deep_folders_and_holes(box: Commands) -> None:
    held, found = box.run(
        "echo x > $'\\xff\\xfe'; mkdir $'line\\nbreak'; truncate -s 100M hole; p=.; for i in $(seq 150); do"
        " p=$p/d; done; mkdir -p $p; cd $p; for i in $(seq 90); do mkdir e; cd e; done; touch end"
    )
    assert "folders nested too deep" in {change.refused for change in found.refused}
    box.layers.apply(held.id)
    assert os.listxattr(os.fsencode(box.path) + b"/\xff\xfe") == []
    assert (box.path / "hole").stat().st_blocks < 100
    box.layers.undo(held.id)
    box.layers.discard(held.id)
    assert list(box.path.iterdir()) == [] and os.listdir(box.layers.path) == []


def test_attributes_travel(box: Commands) -> None:
    (box.path / "a").write_text("x")
    held, found = box.run(
        "python3 -c \"import os; os.setxattr('a', 'user.mine', b'1'); open('b', 'w');"
        " os.setxattr('b', 'user.overlay.opaque', b'y')\""
    )
    assert actions(found) == {"a": "attributes", "b": "created"}
    box.layers.apply(held.id)
    assert os.getxattr(box.path / "a", "user.mine") == b"1"
    assert os.listxattr(box.path / "b") == []
    box.layers.undo(held.id)
    assert os.listxattr(box.path / "a") == []


def test_granted_folders_are_held_back_too(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "granted").mkdir()
    box = make(tmp_path / "work", tmp_path / "state", SandboxSettings(write_roots=(tmp_path / "granted",)))
    held, found = box.run(f"echo 1 > here; echo 2 > {tmp_path}/granted/there")
    assert {(change.root, change.path) for change in found.changes} == {(0, "here"), (1, "there")}
    assert not (tmp_path / "granted/there").exists()
    box.layers.apply(held.id)
    assert (tmp_path / "granted/there").exists()
    box.close()


def test_another_file_system(tmp_path: Path) -> None:
    """The state lies elsewhere: content is copied, and still goes in and out whole."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev or not os.access(shm, os.W_OK):
        pytest.skip("no second file system")
    workspace = Path(
        subprocess.check_output(["mktemp", "-d", "-p", str(shm), "toolcrib-test-XXXXXX"], text=True).strip()
    )
    try:
        box = make(workspace, tmp_path / "state")
        (workspace / "a").write_text("before")
        (workspace / "gone").mkdir()
        (workspace / "gone/x").write_text("x")
        held, found = box.run(
            "echo after > a; mkdir -p n/m; echo 1 > n/m/f; ln n/m/f n/g; ln -s x n/l; rm -r gone; truncate -s 10M h;"
            " chmod 750 n; touch -d 2001-01-01 n/m/f"
        )
        assert not found.conflicts, found.changes
        call = held.id
        box.changes.apply(box.journal, held)
        assert (workspace / "a").read_text() == "after\n" and not (workspace / "gone").exists()
        assert (workspace / "n/g").stat().st_nlink == 2 and (workspace / "n").stat().st_mode & 0o777 == 0o750
        assert (workspace / "n/m/f").stat().st_mtime < 10**9
        assert (workspace / "h").stat().st_blocks < 100
        assert sorted(os.listdir(workspace)) == ["a", "h", "n"]
        undo(box.journal)
        assert (workspace / "a").read_text() == "before" and (workspace / "gone/x").read_text() == "x"
        assert sorted(os.listdir(workspace)) == ["a", "gone"]
        box.layers.redo(call)
        assert (workspace / "a").read_text() == "after\n"
        box.layers.undo(call)
        assert sorted(os.listdir(workspace)) == ["a", "gone"]
        held, _ = box.run("seq 20000 > large")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                box.layers.apply(held.id)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert sorted(os.listdir(workspace)) == ["a", "gone"]
        box.layers.apply(held.id)
        assert sorted(os.listdir(workspace)) == ["a", "gone", "large"]
        box.close()
    finally:
        shutil.rmtree(workspace)


_KILLED = """
import os, signal, sys
from pathlib import Path
from toolcrib.effects import layer_apply as apply
from toolcrib.effects.layer_store import LayerStore
from toolcrib.record.state import StateFolder
layers = LayerStore(StateFolder.for_workspace(sys.argv[1], Path(sys.argv[2])))
what, name, left = sys.argv[3], sys.argv[4], int(sys.argv[5])
count = 0
def step():
    global count
    count += 1
    if count == left:
        os.kill(os.getpid(), signal.SIGKILL)
def counted(fn):
    def call(*args):
        step()
        return fn(*args)
    return call
apply.rename_new, apply.rename_exchange = counted(apply.rename_new), counted(apply.rename_exchange)
WATCHED = {"os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "os.link", "os.symlink", "open", "os.truncate"}
# Python's own files do not count: whether one is compiled or imported here differs from run to run.
OWN = (".py", ".pyc", "__pycache__")
sys.addaudithook(lambda event, args: step() if event in WATCHED and not any(o in str(args[0]) for o in OWN) else None)
getattr(layers, what)(name)
print(count)
"""


def _turned(python: str, box: Commands, name: str, steps: int) -> subprocess.CompletedProcess[str]:
    """Apply or undo in a process of its own that is killed before its n-th step."""
    what = "undo" if box.layers.get(name).state == "applied" else "redo"
    command = [python, "-c", _KILLED, str(box.path), str(box.layers.path.parent.parent), what, name, str(steps)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def _kill_at(python: str, tmp_path: Path, workspace: Path, rounds: int) -> None:
    box = make(workspace, tmp_path / "state")
    for name in range(40):
        (workspace / f"old{name}").write_text("before")
    (workspace / "dir").mkdir()
    before = _texts(workspace)
    held, _ = box.run("for f in old?; do rm $f; done; for f in old*; do echo after > $f; done; for i in $(seq 40); do"
                      " echo new > new$i; done; rmdir dir; chmod 750 .")  # fmt: skip
    box.layers.apply(held.id)
    after = _texts(workspace)
    undoing = int(_turned(python, box, held.id, -1).stdout)
    assert _texts(workspace) == before
    total = min(undoing, int(_turned(python, box, held.id, -1).stdout))
    assert _texts(workspace) == after
    middle = 0
    for turn in range(rounds):
        process = _turned(python, box, held.id, 1 + total * turn // rounds)
        assert process.returncode == -signal.SIGKILL, process.stderr
        middle += box.layers.get(held.id).state in ("applying", "undoing")
        for line in box.layers.recover():
            assert "completed" in line, line
        held = box.layers.get(held.id)
        assert held.state in ("applied", "undone") and not held.staged
        assert _texts(workspace) == (after if held.state == "applied" else before)
        assert (workspace / "dir").exists() == (held.state == "undone")
        assert (workspace.stat().st_mode & 0o777 == 0o750) == (held.state == "applied")
        assert [name for name in os.listdir(workspace) if name.startswith(".toolcrib")] == []
    assert middle, "no kill came in the middle"
    box.close()


def test_killed_in_the_middle_of_an_apply(tmp_path: Path, forked_python: str) -> None:
    (tmp_path / "work").mkdir()
    _kill_at(forked_python, tmp_path, tmp_path / "work", 7)


@pytest.mark.slow
def test_killed_in_the_middle_many_times(tmp_path: Path, forked_python: str) -> None:
    (tmp_path / "work").mkdir()
    _kill_at(forked_python, tmp_path, tmp_path / "work", 100)
    shm = Path("/dev/shm")
    if shm.is_dir() and shm.stat().st_dev != tmp_path.stat().st_dev:
        workspace = Path(tempfile.mkdtemp(dir=shm, prefix="toolcrib-test-"))
        try:
            _kill_at(forked_python, tmp_path / "other", workspace, 200)
        finally:
            shutil.rmtree(workspace)


def test_what_a_killed_command_left_is_dropped_and_a_running_one_stays(box: Commands) -> None:
    running = box.layers.begin(box.sandbox.layer_roots())
    dead = box.layers.begin(box.sandbox.layer_roots())
    dead.unlock()
    assert box.layers.recover() == [] and dead.folder.exists()
    assert box.layers.recover(newborn=0) == []
    assert running.folder.exists() and not dead.folder.exists()
    running.remove()


def test_a_layer_is_applied_once(box: Commands) -> None:
    held, _ = box.run("echo x > a")
    box.layers.apply(held.id)
    with pytest.raises(LayerUnknown, match="are applied, not held"):
        box.layers.apply(held.id)
    with pytest.raises(LayerUnknown, match="cannot be discarded"):
        box.layers.discard(held.id)
    for name in ("ch-1-000000", "../x", "", "ch-" + "f" * 300):
        with pytest.raises(ToolError):
            box.layers.get(name)


def test_what_is_being_discarded_is_not_applied(box: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    held, _ = box.run("echo a > a; echo b > b")
    other = LayerStore(box.journal.folder)

    def remove(folder: Path) -> None:
        (folder / "lock").unlink()
        with pytest.raises(LayerUnknown):
            other.apply(held.id)
        remove_all(folder)

    monkeypatch.setattr(layer_store, "remove_all", remove)
    box.layers.discard(held.id)
    assert not held.folder.exists()
    assert os.listdir(box.path) == []


def test_changes_that_were_discarded_a_moment_ago_are_unknown(box: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    held, _ = box.run("echo a > a")

    def lock(path: Path, *, wait: bool) -> int | None:
        remove_all(held.folder)
        return lock_file(path, wait=False)

    monkeypatch.setattr(layer_store, "lock_file", lock)
    with pytest.raises(LayerUnknown, match="no changes"):
        box.layers.apply(held.id)


def test_old_changes_are_dropped(box: Commands) -> None:
    held, _ = box.run("echo x > a")
    box.layers.prune()
    assert box.layers.get(held.id)
    time.sleep(0.02)
    box.layers.prune(0.01)
    assert box.layers.all() == []


def test_modes_that_keep_their_owner_out() -> None:
    script = [sys.executable, str(Path(__file__).with_name("layers_as_user.py"))]
    user = ["65534"] if os.geteuid() == 0 else []
    if user and not all(folder.stat().st_mode & stat.S_IXOTH for folder in Path(script[1]).parents):
        pytest.skip("this clone lies in a folder that other users cannot enter")
    with tempfile.TemporaryDirectory() as base:  # pytest's own folders let nobody else in
        done = subprocess.run([*script, base, *user], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen == {"untouched": True, "applied": True, "undone": True, "redone": True, "gone": True, "refused": []}
