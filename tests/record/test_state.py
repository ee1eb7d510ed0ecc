"""The state folder is private, shared, outside the workspace, and can be cleaned."""

import os
import stat
import time

import pytest

from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import ConfigError
from toolcrib.core.homes import state_home
from toolcrib.record.journal import Journal
from toolcrib.record.pruning import clean
from toolcrib.record.spill import Spill
from toolcrib.record.state import StateFolder, workspace_id

from ..boundary.test_read_tree import nested


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    (tmp_path / "ws").mkdir()
    return tmp_path / "xdg"


def test_where_it_is(tmp_path, home):
    folder = StateFolder.for_workspace(tmp_path / "ws")
    assert folder.path == home / "toolcrib" / workspace_id(tmp_path / "ws")
    assert folder == StateFolder.for_workspace(tmp_path / "ws" / ".." / "ws")
    for path in (folder.path, folder.journal, folder.trash, folder.spill):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_an_id_for_every_workspace(tmp_path):
    assert workspace_id("/a/x") != workspace_id("/b/x")
    assert workspace_id("/").startswith("root-") and workspace_id("/ä ö/../ü*").isascii()


def test_a_link_to_a_workspace_is_that_workspace(tmp_path, home):
    (tmp_path / "alias").symlink_to("ws")
    assert StateFolder.for_workspace(tmp_path / "alias") == StateFolder.for_workspace(tmp_path / "ws")


def test_a_relative_xdg_path_counts_as_unset(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert state_home() == tmp_path / ".local" / "state" / "toolcrib"


def test_it_may_lie_in_the_workspace(tmp_path, monkeypatch):
    (tmp_path / "ws" / "state").mkdir(parents=True)
    (tmp_path / "sneaky").symlink_to("ws/state")
    for inside in ("ws/state", "sneaky"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / inside))
        path = StateFolder.for_workspace(tmp_path / "ws").path
        assert path.parent == tmp_path / "ws/state/toolcrib"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_an_open_folder_is_closed_and_a_link_refused(tmp_path, home):
    folder = StateFolder.for_workspace(tmp_path / "ws")
    folder.spill.chmod(0o755)
    StateFolder.for_workspace(tmp_path / "ws")
    assert stat.S_IMODE(folder.spill.stat().st_mode) == 0o700
    folder.spill.rmdir()
    folder.spill.symlink_to(tmp_path / "ws")
    with pytest.raises(ConfigError, match="not a directory of this user"):
        StateFolder.for_workspace(tmp_path / "ws")


def test_the_folder_of_all_workspaces_is_private_too(tmp_path, home, monkeypatch):
    (home / "toolcrib").mkdir(parents=True)
    (home / "toolcrib").chmod(0o777)
    StateFolder.for_workspace(tmp_path / "ws")
    assert stat.S_IMODE((home / "toolcrib").stat().st_mode) == 0o700
    monkeypatch.setattr(os, "getuid", lambda: home.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="xdg/toolcrib is not a directory of this user"):
        StateFolder.for_workspace(tmp_path / "ws")


def test_a_folder_of_all_users_is_refused_and_stays_theirs(tmp_path, home):
    path = StateFolder.for_workspace(tmp_path / "ws").spill
    path.chmod(0o1777)  # as /tmp is
    with pytest.raises(ConfigError, match="all users share"):
        StateFolder.for_workspace(tmp_path / "ws")
    assert stat.S_IMODE(path.stat().st_mode) == 0o1777


def test_cleaning(tmp_path, home):
    folder = StateFolder.for_workspace(tmp_path / "ws")
    spill = Spill(folder.spill)
    for n in range(4):
        path = spill.store(f"call{n}", "out", bytes(1000))
        past = time.time() - 1000 * (4 - n)
        os.utime(path.parent, (past, past))
    journal = Journal(folder, Workspace(tmp_path / "ws"), sync=False)
    journal.write("f", bytes(500), call_id="1")
    journal.write("f", b"", call_id="2")
    plan = clean(folder, spill_quota=2500, dry_run=True)
    assert [r.name for r in plan.removed] == ["call0", "call1"] and plan.freed == 2000 and plan.sizes["spill"] == 4000
    assert len(os.listdir(folder.spill)) == 4
    assert clean(folder, spill_quota=2500).freed == 2000
    assert sorted(os.listdir(folder.spill)) == ["call2", "call3"]
    assert [r.name for r in clean(folder, spill_age=1500).removed] == ["call2"]
    assert clean(folder, journal_age=-1).freed == 500
    assert journal.changes() == []
    assert folder.sizes()["trash"] == 0


def test_cleaning_of_what_is_nested_very_deeply(tmp_path, home):
    folder = StateFolder.for_workspace(tmp_path / "ws")
    nested(tmp_path / "ws" / "deep", 3_000)
    Journal(folder, Workspace(tmp_path / "ws"), sync=False).move_to_trash("deep", call_id="1", tool="delete_file")
    assert folder.sizes()["trash"] == 7
    assert clean(folder, journal_age=-1).freed == 7
    assert os.listdir(folder.trash) == []


def test_a_place_that_cannot_hold_it_is_named_with_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "ws").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="XDG_STATE_HOME"):
        StateFolder.for_workspace(tmp_path / "ws")
