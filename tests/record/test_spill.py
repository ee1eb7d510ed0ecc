"""Spilled output is whole up to its limits, private, and never outside its folder."""

import os
import stat
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import OutsideWorkspace
from toolcrib.record.spill import Spill, safe_name, spilled
from toolcrib.record.state import folder_entries


def test_store_and_read_back(tmp_path):
    spill = Spill(tmp_path / "spill")
    path = spill.store("call-1", "output.txt", "grüße")
    assert path == tmp_path / "spill" / "call-1" / "output.txt" and path.read_text("utf-8") == "grüße"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = spill.store("call-1", "output.txt", b"2")
    assert again.name == "output-2.txt" and path.read_text("utf-8") == "grüße"


def test_streaming_stops_at_the_limit_of_the_call(tmp_path):
    spill = Spill(tmp_path / "spill", call_limit=1000)
    with closing(spill.open("c", "stdout")) as out, closing(spill.open("c", "stderr")) as err:
        out.write(b"x" * 700)
        assert not out.truncated
        err.write(b"y" * 700)
        assert err.truncated
        out.write(b"z")
        assert out.truncated
    assert out.path.stat().st_size == 700 and err.path.stat().st_size == 300
    assert spill.store("other", "stdout", b"x" * 700).stat().st_size == 700
    out.close()


def test_the_oldest_calls_go_first(tmp_path):
    first = Spill(tmp_path / "spill", quota=10_000)
    for n in range(8):
        path = first.store(f"c{n}", "out", bytes(2000))
        past = time.time() - 100 + n
        os.utime(path.parent, (past, past))
    later = Spill(tmp_path / "spill", quota=10_000)  # another process counts at its first use
    later.store("c9", "out", bytes(100))
    assert sum(size for _, size, _ in folder_entries(later.folder)) <= 10_000
    left = sorted(os.listdir(tmp_path / "spill"))
    assert left[-2:] == ["c7", "c9"] and "c0" not in left


def test_a_full_disk_is_no_crash_for_the_pipeline(tmp_path, monkeypatch):
    spill = Spill(tmp_path / "spill")
    monkeypatch.setattr(spill, "open", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert spill.keep("c", "out", "text") is None


@given(st.text(max_size=200))
def test_names_are_safe_and_distinct(text):
    name = safe_name(text)
    assert name and "/" not in name and "\0" not in name and not name.startswith(".") and len(name) <= 120
    if name != text:
        assert name != safe_name(text + "x")


def test_hostile_call_ids_stay_inside(tmp_path):
    spill = Spill(tmp_path / "spill")
    for evil in ("../../x", "/etc/passwd", "..", "", "a/b", "a\0b", "ü" * 300):
        path = spill.store(evil, evil, b"x")
        assert path.parent.parent == tmp_path / "spill"


def test_the_place_of_a_file_cannot_be_guessed(tmp_path):
    """Models number their calls, so two sessions can have calls of one name."""
    (tmp_path / "ws").mkdir()
    spill = Spill(tmp_path / "spill", call_limit=10, unguessable=True)
    ours, theirs = spill.store("call_1", "output.txt", "ours"), spill.store("call_1", "output.txt", "theirs")
    assert ours.parent != theirs.parent
    assert len(bytes.fromhex(ours.parent.name.removeprefix("call_1-"))) * 8 >= 128
    assert spill.call_of(str(ours)) == "call_1"
    assert spilled(spill.folder, "call_1") == sorted([ours, theirs])
    assert spill.call_of(f"{spill.folder}/call_1-{'a' * 16}/x") == "call_1"  # of an earlier version
    assert theirs.read_text() == "theirs"
    assert spill.store("call_1", "output.txt", "more").read_text() == ""  # the limit is that of the call
    with closing(Workspace(tmp_path / "ws", unlisted=[spill.folder])) as workspace:
        with open(workspace.open_read(str(ours))) as file:
            assert file.read() == "ours"
        (tmp_path / "ws/link").symlink_to(spill.folder)
        for path in (spill.folder, f"{ours.parent}/..", "link", f"{spill.folder}/./"):
            with pytest.raises(OutsideWorkspace):
                workspace.open_dir(path)
