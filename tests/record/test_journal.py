"""Every change can be taken back: content, mode and absence, in one process or several, after a crash too."""

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcrib.boundary import staged_file
from toolcrib.boundary.mount_points import Mount
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import ToolError
from toolcrib.record import moving, pruning
from toolcrib.record.change import ChangeTable
from toolcrib.record.journal import Journal
from toolcrib.record.pruning import prune_journal
from toolcrib.record.state import StateFolder
from toolcrib.record.undoing import UndoConflict, undo

from ..locks import locks_of


class Room:
    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.root.mkdir()
        self.ws = Workspace(self.root)
        self.state = StateFolder.for_workspace(self.root, base / "state")
        self.journal = Journal(self.state, self.ws, sync=False)

    def tree(self) -> dict[str, tuple[object, ...]]:
        """Everything in the workspace: kind, mode, content."""
        found: dict[str, tuple[object, ...]] = {}
        for here, dirs, files in os.walk(self.root):
            for name in [*dirs, *files]:
                path = os.path.join(here, name)
                st = os.lstat(path)
                if stat.S_ISLNK(st.st_mode):
                    content: object = os.readlink(path)
                elif stat.S_ISDIR(st.st_mode):
                    content = "dir"
                else:
                    with open(path, "rb") as f:
                        content = f.read()
                found[os.path.relpath(path, self.root)] = (stat.S_IMODE(st.st_mode), content)
        return found


@pytest.fixture
def room(tmp_path):
    room = Room(tmp_path)
    yield room
    room.journal.close()


def test_the_contents_before_and_after_a_change(room):
    room.journal.write("d/f.txt", b"one", call_id="1")
    room.journal.write("d/f.txt", b"two", call_id="2")
    (second,), first = room.journal.changes("2"), room.journal.changes("1")[0]
    assert room.journal.contents(second, 100) == (b"one", b"two")
    assert room.journal.contents(first, 100) == (None, b"two")
    with pytest.raises(ToolError, match="too long"):
        room.journal.contents(second, 2)
    outside = room.root.parent / "outside"
    (room.root / "d").rename(outside)
    (room.root / "d").symlink_to(outside)  # what lies behind a link is not shown as this file
    (outside / "f.txt").write_bytes(b"secret")
    with pytest.raises((ToolError, OSError)):
        room.journal.contents(second, 100)


def test_a_new_file_and_its_directories_go_again(room):
    room.journal.write("a/b/c.txt", b"new", call_id="1")
    assert (room.root / "a/b/c.txt").read_bytes() == b"new"
    undone = undo(room.journal)
    assert room.tree() == {}
    assert undone.call_id == "1" and undone.lines[0].endswith("c.txt")


def test_whatever_is_in_the_id_of_a_session_its_changes_are_kept(room):
    room.journal.write("f", b"new", call_id="1", session_id="half a character: \ud800")
    (change,) = room.journal.changes("1")
    assert change.session_id.startswith("half a character: ?-")


def test_content_and_mode_come_back(room):
    (room.root / "f").write_bytes(b"old\x00\xff")
    (room.root / "f").chmod(0o751)
    before = room.tree()
    room.journal.write("f", b"new", call_id="1", mode=0o600)
    assert room.tree()["f"] == (0o600, b"new")
    undo(room.journal, "1")
    assert room.tree() == before


def test_deleting_goes_to_the_trash_and_back(room):
    (room.root / "d" / "sub").mkdir(parents=True)
    (room.root / "d" / "sub" / "f").write_text("x")
    (room.root / "d" / "link").symlink_to("sub/f")
    before = room.tree()
    trash = room.journal.move_to_trash("d", "1", "test")
    assert room.tree() == {} and (trash / "sub" / "f").read_text() == "x"
    undo(room.journal, "1")
    assert room.tree() == before
    assert not os.listdir(room.state.trash)


def test_a_link_is_trashed_itself(room):
    (room.root / "f").write_text("x")
    (room.root / "l").symlink_to("f")
    room.journal.move_to_trash("l", "1")
    assert (room.root / "f").exists() and not os.path.lexists(room.root / "l")
    undo(room.journal)
    assert os.readlink(room.root / "l") == "f"


@pytest.mark.parametrize("name", [b"src/\xff\xfe\xc3(/.git/config", b"src/\xff\xfe\xc3("])
def test_a_name_that_is_no_utf8_is_moved_and_comes_back(room, name):
    """A command can make any name; what must not stay must not stay for its name."""
    path = os.fsdecode(name)
    (room.root / path).parent.mkdir(parents=True)
    (room.root / path).write_text("x")
    room.journal.move_to_trash(path, "1")
    assert not (room.root / path).exists()
    assert [change.path for change in room.journal.changes()] == [path]
    undo(room.journal, "1")
    assert (room.root / path).read_text() == "x"


def test_undoing_the_undo(room):
    (room.root / "f").write_text("one")
    room.journal.write("f", b"two", call_id="1")
    room.journal.write("g", b"new", call_id="1")
    changed = room.tree()
    undo_id = undo(room.journal, "1").undo_id
    assert (room.root / "f").read_text() == "one"
    undo(room.journal, undo_id)
    assert room.tree() == changed
    undo(room.journal, "1")  # and once more
    assert set(room.tree()) == {"f"} and (room.root / "f").read_text() == "one"


def test_a_removal_is_undone_redone_and_undone(room):
    (room.root / "f").write_text("one")
    room.journal.move_to_trash("f", "1")
    undo(room.journal, undo(room.journal, "1").undo_id)
    assert room.tree() == {}
    undo(room.journal, "1")
    assert (room.root / "f").read_text() == "one"


def test_an_undo_gives_no_protected_name_to_what_was_written_since(room):
    (room.root / "sub").mkdir()
    (room.root / "sub" / "HEAD").write_text("ref: refs/heads/main")
    (room.root / "sub" / "objects").mkdir()
    (room.root / ".cursor").symlink_to("sub")
    for name, written in ((".cursor", "sub/mcp.json"), ("sub/HEAD", "sub/config")):
        room.journal.move_to_trash(name, name)
        room.journal.write(written, b"{}", call_id="w")
        before = room.tree()
        with pytest.raises(UndoConflict, match="other programs run or trust"):
            undo(room.journal, name)
        assert room.tree() == before
        undo(room.journal, name, force=True)
        assert os.path.lexists(room.root / name)


def test_an_undo_is_refused_whatever_else_it_brings_back(room):
    """A protected link is back in a deep folder, and so are files in the folder that it leads to."""
    deep = room.root / "a/b/c/d/e"
    deep.mkdir(parents=True)
    (room.root / "sub").mkdir()
    (room.root / "sub" / "old").write_text("old")
    (deep / ".vscode").symlink_to(room.root / "sub")
    for each in ("sub/old", "a/b/c/d/e/.vscode"):
        room.journal.move_to_trash(each, "1")
    room.journal.write("sub/tasks.json", b"{}", call_id="2")
    before = room.tree()
    with pytest.raises(UndoConflict, match=r"/\.vscode \(it leads to sub\)"):
        undo(room.journal, "1")
    assert room.tree() == before
    undo(room.journal, "2")
    undo(room.journal, "1")
    assert (deep / ".vscode" / "old").read_text() == "old"


def test_an_undo_is_refused_for_names_outside_of_its_folder(room, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "granted" / "sub").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    link = tmp_path / "granted" / "link"
    link.symlink_to("sub")
    (room.root / ".cursor").symlink_to(link)
    (tmp_path / "home" / ".bashrc").symlink_to(link / "bashrc")
    journal = Journal(room.state, Workspace(room.root, write_roots=[tmp_path / "granted"]), sync=False)
    for name in ("mcp.json", "bashrc"):
        journal.move_to_trash(str(link), name)
        journal.write(str(tmp_path / "granted" / "sub" / name), b"{}", call_id=f"w{name}")
        with pytest.raises(UndoConflict, match="other programs run or trust"):
            undo(journal, name)
        undo(journal, f"w{name}")
        undo(journal, name)
    journal.close()


def test_an_undo_that_was_killed_is_completed_by_the_next(room, monkeypatch):
    (room.root / "gone").write_text("gone")
    before = room.tree()
    room.journal.write("new", b"new", call_id="1")
    room.journal.move_to_trash("gone", "1")
    after = room.tree()
    undone, left = ChangeTable.undone, [0]

    def killed(table, number):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        undone(table, number)

    for after_changes in (0, 1):
        left[0] = after_changes
        monkeypatch.setattr(ChangeTable, "undone", killed)
        with pytest.raises(KeyboardInterrupt):
            undo(room.journal, "1")
        monkeypatch.undo()
        assert room.tree() != after
        undo(room.journal, "1")
        assert room.tree() == before
        room.journal.write("new", b"new", call_id="1")
        room.journal.move_to_trash("gone", "1")


def test_calls_are_undone_one_after_another(room):
    for n in range(4):
        room.journal.write("f", str(n).encode(), call_id=f"c{n}")
    for n in (2, 1, 0):
        assert undo(room.journal).call_id == f"c{n + 1}"
        assert (room.root / "f").read_text() == str(n)
    undo(room.journal)
    assert room.tree() == {}
    with pytest.raises(ToolError, match="nothing to undo"):
        undo(room.journal)
    with pytest.raises(ToolError, match="undone already"):
        undo(room.journal, "c1")
    with pytest.raises(ToolError, match="no changes of a call"):
        undo(room.journal, "zz")


def test_a_change_by_others_is_a_conflict_and_force_keeps_it(room):
    (room.root / "f").write_text("one")
    (room.root / "other").write_text("one")
    room.journal.write("other", b"two", call_id="1")
    room.journal.write("f", b"two", call_id="1")
    (room.root / "f").write_text("precious")
    with pytest.raises(UndoConflict, match="f was changed since"):
        undo(room.journal, "1")
    assert (room.root / "other").read_text() == "two"  # nothing was undone
    undo_id = undo(room.journal, "1", force=True).undo_id
    assert (room.root / "f").read_text() == "one"
    undo(room.journal, undo_id)
    assert (room.root / "f").read_text() == "precious"


def test_an_older_call_below_a_newer_one_is_a_conflict(room):
    room.journal.write("f", b"1", call_id="a")
    room.journal.write("f", b"2", call_id="b")
    with pytest.raises(UndoConflict):
        undo(room.journal, "a")


@pytest.mark.parametrize("instead", ["link", "file"])
def test_what_is_in_the_place_of_a_folder_is_a_conflict(room, instead):
    room.journal.write("d/f", b"before", call_id="0")
    room.journal.move_to_trash("d/f", "1")
    room.journal.write("g", b"new", call_id="1")
    (room.root / "d").rmdir()
    if instead == "link":
        (room.root / "d").symlink_to(room.root.parent)
    else:
        (room.root / "d").write_text("precious")
    before = room.tree()
    with pytest.raises(UndoConflict, match="d is no folder any more"):
        undo(room.journal, "1")
    assert room.tree() == before
    with pytest.raises(ToolError, match=r"Before that: removed g. `toolcrib undo undo-\w+` restores it"):
        undo(room.journal, "1", force=True)


def test_the_same_content_written_again_is_no_conflict(room):
    room.journal.write("f", b"same", call_id="1")
    (room.root / "f").unlink()
    (room.root / "f").write_bytes(b"same")  # as git checkout would
    undo(room.journal, "1")
    assert room.tree() == {}


def test_a_directory_that_filled_up_is_kept(room):
    room.journal.write("d/f", b"1", call_id="1")
    (room.root / "d" / "mine").write_text("mine")
    lines = undo(room.journal, "1").lines
    assert set(room.tree()) == {"d", "d/mine"} and any("not empty" in line for line in lines)


def test_large_files_are_kept_without_reading_them_in(room, monkeypatch):
    from toolcrib.record import change, journal

    monkeypatch.setattr(journal, "LINK_LIMIT", 1000)
    for module in (journal, change):
        monkeypatch.setattr(module, "HASH_LIMIT", 100)
    for size in (500, 5000):
        (room.root / "f").write_bytes(b"x" * size)
        room.journal.write("f", b"new", call_id=f"c{size}")
        undo(room.journal, f"c{size}")
        assert (room.root / "f").read_bytes() == b"x" * size


def test_across_file_systems_it_is_copied(room, monkeypatch):
    real = moving.rename_new

    def other_device(src, dst, src_dir, dst_dir):
        if os.fstat(src_dir).st_ino != os.fstat(dst_dir).st_ino:
            raise OSError(18, "Invalid cross-device link")
        real(src, dst, src_dir, dst_dir)

    (room.root / "d").mkdir(mode=0o750)
    (room.root / "d" / "f").write_text("x")
    (room.root / "d" / "f").chmod(0o640)
    (room.root / "d" / "l").symlink_to("/nowhere")
    before = room.tree()
    monkeypatch.setattr(moving, "rename_new", other_device)
    room.journal.move_to_trash("d", "1")
    assert room.tree() == {}
    undo(room.journal, "1")
    assert room.tree() == before


CRASH = """
import os, sys
from toolcrib.boundary.staged_file import Staged
from toolcrib.boundary.mount_points import Mount
from toolcrib.boundary.workspace import Workspace
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder
from pathlib import Path
root, home, when = sys.argv[1:]
ws = Workspace(root)
journal = Journal(StateFolder.for_workspace(root, Path(home)), ws, sync=False)
commit = Staged.commit
def crash(self):
    if when == "after":
        commit(self)
    os._exit(9)
Staged.commit = crash
journal.write("f", b"new", call_id="crashed")
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_leaves_something_consistent(room, forked_python, when):
    (room.root / "f").write_text("old")
    done = subprocess.run([forked_python, "-c", CRASH, room.root, room.state.path.parent, when])
    assert done.returncode == 9
    assert (room.root / "f").read_text() == ("old" if when == "before" else "new")
    assert [c.status for c in room.journal.changes("crashed")] == ["pending"]
    undo(room.journal, "crashed")
    assert (room.root / "f").read_text() == "old"


WRITER = """
import sys
from pathlib import Path
from toolcrib.boundary.mount_points import Mount
from toolcrib.boundary.workspace import Workspace
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder
root, home, me = sys.argv[1:]
journal = Journal(StateFolder.for_workspace(root, Path(home)), Workspace(root), sync=False)
for n in range(40):
    journal.write(f"{me}/f{n}", me.encode() * n, call_id=f"{me}-{n}")
"""


def test_several_processes_share_one_journal(room, forked_python):
    writers = [
        subprocess.Popen([forked_python, "-c", WRITER, room.root, room.state.path.parent, name]) for name in "abc"
    ]
    assert [w.wait() for w in writers] == [0, 0, 0]
    assert len(room.journal.changes(limit=1000)) == 3 * 41
    for _ in range(120):
        undo(room.journal)
    assert room.tree() == {}


FORKED = """
import os, sys
from pathlib import Path
from toolcrib.boundary.mount_points import Mount
from toolcrib.boundary.workspace import Workspace
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder
root, home = sys.argv[1:]
journal = Journal(StateFolder.for_workspace(root, Path(home)), Workspace(root), sync=False)
def write(number):
    journal.write(f"f{number}", b"1", call_id=str(number))
write(1)
(written, tell_written), (closed, tell_closed) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    write(2)
    os.write(tell_written, b"1")
    os.read(closed, 1)
    write(3)
    os._exit(0)
os.read(written, 1)
journal.close()
os.write(tell_closed, b"1")
os.waitpid(child, 0)
"""


def test_a_forked_process_loses_no_changes(room, forked_python):
    subprocess.run([forked_python, "-c", FORKED, room.root, room.state.path.parent], check=True)
    assert [change.call_id for change in room.journal.changes()] == ["3", "2", "1"]


def test_cleaning_drops_no_lock_of_this_process(room):
    """Without its lock, another process that ends deletes the log, with the changes that this one writes from then."""
    journal, state = room.journal, room.state
    journal.write("f", b"1", call_id="1")
    before = locks_of(state.journal / "journal.db")
    assert before
    prune_journal(state, 1 << 30, 1e9)
    assert locks_of(state.journal / "journal.db") == before


def test_cleaning_a_full_disk_leaves_what_is_only_in_the_log_of_sqlite(room, monkeypatch):
    journal, state = room.journal, room.state
    journal.write("f", b"1", call_id="1")
    journal.close()  # moves that change out of the log
    journal.write("f", b"2", call_id="2")
    kept = journal.images.path(journal.changes("2")[0])
    os.utime(kept, (1, 1))

    def full(folder):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(pruning, "open_journal_db", full)
    prune_journal(state, 1 << 30, 1e9)
    assert kept.read_bytes() == b"1"


def test_a_journal_that_is_locked_is_not_cleaned(room, monkeypatch):
    def locked(folder):
        raise sqlite3.OperationalError("database is locked")

    room.journal.write("f", b"1", call_id="1")
    monkeypatch.setattr(pruning, "open_journal_db", locked)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        prune_journal(room.state, 1 << 30, 1e9)
    room.journal.prune_sometimes(1 << 30)


FORKING = """
import os, sys, threading, time
from pathlib import Path
from toolcrib.record.change import ChangeTable
from toolcrib.record.forks import keep_fork_safe
from toolcrib.record.state import StateFolder

class SlowLock:
    def __init__(self):
        self.lock = threading.RLock()
        self.acquire = self.lock.acquire
    def __enter__(self):
        self.lock.acquire()
    def __exit__(self, *_):
        self.release()
    def release(self):
        self.lock.release()
        time.sleep(0.002)

state = StateFolder.for_workspace(sys.argv[1], Path(sys.argv[2]))
tables = [ChangeTable(state) for _ in range(3)]
for table in tables:
    table.lock = SlowLock()
    keep_fork_safe(table, table.lock)
sys.unraisablehook = lambda error: os._exit(3)  # an error in a hook of a fork
def fork():
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
threads = [threading.Thread(target=fork) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert all(table.listed(None, 1) == [] for table in tables)
"""


def test_threads_may_fork_at_the_same_time(room):
    subprocess.run([sys.executable, "-c", FORKING, room.root, room.state.path.parent], check=True, timeout=60)


def test_a_journal_that_cannot_be_written_stops_the_change(room):
    room.journal.write("f", b"1", call_id="1")
    room.journal.close()
    shutil.rmtree(room.state.journal)
    room.state.journal.mkdir()
    (room.state.journal / "journal.db").write_text("not a database, " * 100)
    with pytest.raises(Exception, match=r"nothing was changed|not a database"):
        room.journal.write("f", b"2", call_id="2")
    assert (room.root / "f").read_bytes() == b"1"


@pytest.mark.parametrize("damaged", [b"", b"one, and more", b"two"])
def test_a_damaged_content_is_not_restored(room, damaged):
    room.journal.write("a", b"one", call_id="1")
    room.journal.write("a", b"new", call_id="2")
    room.journal.images.path(room.journal.changes("2")[0]).write_bytes(damaged)
    with pytest.raises(ToolError, match="damaged"):
        undo(room.journal, "2")
    assert (room.root / "a").read_bytes() == b"new"


def test_undo_of_a_file_larger_than_the_memory_copies_it_with_its_holes(room):
    large = room.root / "disk.img"
    large.write_bytes(b"boot")
    os.truncate(large, 1 << 40)
    room.journal.write("disk.img", b"small", call_id="1")
    for _ in range(2):
        undone = undo(room.journal, "1")
        with large.open("rb") as file:
            assert file.read(5) == b"boot\0"
        assert large.stat().st_size == 1 << 40
        assert large.stat().st_blocks < 100
        undo(room.journal, undone.undo_id)
        assert large.read_bytes() == b"small"


def test_what_something_is_mounted_in_is_not_moved(room, monkeypatch):
    """Removing it from the trash would remove what is mounted, which may be a folder anywhere."""
    for name in ("d/mounted", "d-other"):
        (room.root / name).mkdir(parents=True)
    here = Mount("2", "1", "8:1", "/srv/data", str(room.root / "d" / "mounted"))
    monkeypatch.setattr(moving, "mounts", lambda: [here])
    for path in ("d", "d/mounted"):
        with pytest.raises(OSError, match="is mounted in it"):
            room.journal.move_to_trash(path, "1")
    assert (room.root / "d" / "mounted").is_dir()
    assert not room.journal.changes()
    room.journal.move_to_trash("d-other", "2")


def test_a_program_that_removes_temporary_files_takes_no_undo_away(room, monkeypatch):
    swapped = staged_file.rename_exchange

    def swap_and_lose(temp, name, *folders):
        swapped(temp, name, *folders)
        os.unlink(temp, dir_fd=folders[0])

    (room.root / "f").write_bytes(b"before")
    monkeypatch.setattr(staged_file, "rename_exchange", swap_and_lose)
    room.journal.write("f", b"after", call_id="1")
    assert (room.root / "f").read_bytes() == b"after"
    undo(room.journal, "1")
    assert (room.root / "f").read_bytes() == b"before"


def test_large_changes_and_many_short_processes_are_cleaned_too(room, monkeypatch):
    monkeypatch.setattr("toolcrib.record.journal._PRUNE_EVERY", 10)
    monkeypatch.setattr("toolcrib.record.journal.JOURNAL_QUOTA", 4 << 20)
    for n in range(9):  # of which each counts as three
        room.journal.write("large", bytes([n]) * (2 << 20), call_id=f"large{n}")
    assert room.state.sizes()["journal"] < 14 << 20
    monkeypatch.setattr("toolcrib.record.journal.JOURNAL_QUOTA", 100)
    for n in range(100):
        Journal(room.state, room.ws, sync=False).write("small", bytes([n]) * 50, call_id=f"small{n}")
    assert len(room.journal.changes()) < 90


@pytest.mark.parametrize("kept", ["", ".", "..", "trash", "trash/..", "trash/../../x/y", "OTHER", "OTHER/file"])
def test_a_damaged_row_leads_nowhere_else(room, tmp_path, kept):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("mine")
    (room.root / "a").write_text("x")
    room.journal.move_to_trash("a", "1")
    room.journal.table.execute("UPDATE change SET kept = ?", kept.replace("OTHER", str(other)))
    with pytest.raises(ToolError, match="no longer stored"):
        undo(room.journal, "1")
    prune_journal(room.state, 0, -1)
    assert (other / "file").read_text() == "mine"
    assert len([*room.state.trash.glob("*/a")]) == 1


def test_what_is_larger_than_the_quota_can_be_undone_and_takes_nothing_else_with_it(room):
    room.journal.write("small", b"1", call_id="before")
    room.journal.write("small", b"2", call_id="small")
    (room.root / "large").write_bytes(bytes(range(250)) * 40)
    room.journal.write("large", b"", call_id="large")
    prune_journal(room.state, 3000, 1e9)
    undo(room.journal, "large")
    assert (room.root / "large").stat().st_size == 10_000
    room.journal.write("large", b"", call_id="again")
    room.journal.move_to_trash("large", "later")
    assert [removed.size for removed in prune_journal(room.state, 3000, 1e9)] == [10_000] * 2
    undo(room.journal, "later")
    undo(room.journal, "small")
    assert (room.root / "small").read_bytes() == b"1"


def test_holes_of_a_file_do_not_take_room_in_the_history(room):
    room.journal.write("small", b"1", call_id="before")
    room.journal.write("small", b"2", call_id="small")
    for n in range(3):
        with open(room.root / "holes", "wb") as file:
            file.truncate(1 << 30)
        room.journal.move_to_trash("holes", f"holes{n}")
    prune_journal(room.state, 1 << 20, 1e9)
    assert room.journal.knows("small")


def test_pruning_forgets_the_oldest_first(room):
    for n in range(6):
        room.journal.write("f", bytes(1000), call_id=str(n))
    room.journal.move_to_trash("f", "6")
    listed = prune_journal(room.state, 3000, 1e9, dry_run=True)
    assert len(room.journal.changes()) == 7
    removed = prune_journal(room.state, 3000, 1e9)
    assert listed == removed or [r.name for r in listed] == [r.name for r in removed]
    assert sum(r.size for r in removed) == 2000  # the newest call does not count
    kept = [c.call_id for c in room.journal.changes()]
    assert "6" in kept and "1" not in kept
    undo(room.journal, "6")
    assert (room.root / "f").stat().st_size == 1000
    (room.root / "\udcff").write_text("x")  # a name that is no UTF-8
    room.journal.move_to_trash("\udcff", "last")
    assert len(prune_journal(room.state, 10**9, -1)) > 0 and room.journal.changes() == []


NAMES = st.sampled_from(["a", "b", "d/a", "d/e/b", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.binary(max_size=40), st.sampled_from([None, 0o600, 0o755, 0o444])),
        st.tuples(st.just("delete"), NAMES),
    ),
    max_size=12,
)


@settings(max_examples=80, deadline=None)
@example(steps=[("delete", "d"), ("write", "d/a", b"", None), ("delete", "d")], jump=False)
@example(steps=[("write", "a", b"", 0o444)], jump=False)
@given(steps=STEPS, jump=st.booleans())
def test_undo_is_byte_identical_after_any_changes(tmp_path_factory, steps, jump):
    base = tmp_path_factory.mktemp("journal")
    room = Room(base)
    try:
        (room.root / "a").write_bytes(b"first")
        (room.root / "d").mkdir()
        (room.root / "d" / "a").write_bytes(b"second")
        (room.root / "d" / "a").chmod(0o640)
        states = []
        for number, step in enumerate(steps):
            before = room.tree()
            try:
                if step[0] == "write":
                    room.journal.write(step[1], step[2], mode=step[3], call_id=str(number))
                else:
                    room.journal.move_to_trash(step[1], str(number))
            except (OSError, ToolError):
                assert room.tree() == before
                continue
            states.append((str(number), before))
        final = room.tree()
        redo = []
        for call, before in reversed(states):
            redo.append(undo(room.journal, None if jump else call).undo_id)
            assert room.tree() == before
        for undo_id in reversed(redo):
            undo(room.journal, undo_id)
        assert room.tree() == final
    finally:
        room.journal.close()
        room.ws.close()
        shutil.rmtree(base)


def other_file_system(monkeypatch):
    """As if the state folder were on another file system than the workspace."""
    real = moving.rename_new

    def rename(src, dst, src_dir, dst_dir):
        if os.fstat(src_dir).st_ino != os.fstat(dst_dir).st_ino:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(src, dst, src_dir, dst_dir)

    monkeypatch.setattr(moving, "rename_new", rename)


class Killed(BaseException):
    pass


def removes_one_and_raises(error):
    def remove(name, dir_fd):
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
        os.unlink("a", dir_fd=below)
        os.close(below)
        raise error

    return remove


def test_killed_while_the_source_is_removed(room, monkeypatch):
    other_file_system(monkeypatch)
    for name in "abc":
        (room.root / "d").mkdir(exist_ok=True)
        (room.root / "d" / name).write_text(name)
    whole = room.tree()
    monkeypatch.setattr(moving, "remove_all", removes_one_and_raises(Killed))
    monkeypatch.setattr("toolcrib.record.journal.remove_entry", lambda path: None)  # dead processes tidy up nothing
    monkeypatch.setattr(ChangeTable, "execute", lambda self, sql, *values: [])
    with pytest.raises(Killed):
        room.journal.move_to_trash("d", "1")
    monkeypatch.undo()
    other_file_system(monkeypatch)
    assert not (room.root / "d").exists()
    undo(room.journal, "1")
    assert {path: entry for path, entry in room.tree().items() if path.startswith("d")} == whole


def test_what_is_written_while_a_file_is_moved_is_not_lost(room, monkeypatch):
    other_file_system(monkeypatch)
    (room.root / "f").write_text("old")
    real = moving.copy_tree

    def copy(*place, **options):
        real(*place, **options)
        (room.root / "f").write_text("newer")

    monkeypatch.setattr(moving, "copy_tree", copy)
    with pytest.raises(OSError, match="changed while"):
        room.journal.move_to_trash("f", "1")
    assert (room.root / "f").read_text() == "newer"
    assert room.journal.changes() == []


def test_a_source_that_cannot_be_removed_wholly_loses_nothing(room, monkeypatch):
    other_file_system(monkeypatch)
    (room.root / "d").mkdir()
    for name in "ab":
        (room.root / "d" / name).write_text(name)
    monkeypatch.setattr(moving, "remove_all", removes_one_and_raises(PermissionError(errno.EACCES, "no")))
    room.journal.move_to_trash("d", "1")
    monkeypatch.undo()
    undo(room.journal, "1")
    assert sorted(os.listdir(room.root / "d")) == ["a", "b"]


def test_directories_without_end_are_not_made(room):
    with pytest.raises(ToolError, match="new directories"):
        room.journal.write("q/" * 500 + "f", b"", call_id="1")
    assert room.tree() == {}


UNDOER = """
import sys
from pathlib import Path
from toolcrib.boundary.mount_points import Mount
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import ToolcribError
from toolcrib.record.journal import Journal
from toolcrib.record.undoing import undo
from toolcrib.record.state import StateFolder
root, home = sys.argv[1:]
journal = Journal(StateFolder.for_workspace(root, Path(home)), Workspace(root), sync=False)
for n in range(30):
    try:
        undo(journal)
    except ToolcribError:
        pass
"""


def test_several_processes_undo_at_once(room, forked_python):
    for n in range(30):
        room.journal.write(f"f{n}", b"x", call_id=str(n))
    command = [forked_python, "-c", UNDOER, str(room.root), str(room.state.path.parent)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[1] for process in running] == ["", "", ""]
    assert room.tree() == {}


def test_nobody_else_can_read_the_list_of_changes(tmp_path):
    (tmp_path / "ws").mkdir()
    before = os.umask(0)
    try:
        folder = StateFolder.for_workspace(tmp_path / "ws", tmp_path / "state")
        journal = Journal(folder, Workspace(tmp_path / "ws"), sync=False)
        journal.write("a", b"x", call_id="c")
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.journal.glob("journal.db*")}
        assert modes and set(modes.values()) == {0o600}
        journal.close()
    finally:
        os.umask(before)
