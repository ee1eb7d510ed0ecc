from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from toolcrib.boundary.own_files import replace_file


def test_a_file_is_private_unless_said_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    replace_file(path, "é = 1\n")
    assert path.read_text("utf-8") == "é = 1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    replace_file(path, b"\xff", 0o644)
    assert path.read_bytes() == b"\xff"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["settings.toml"]


def test_what_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no room") as failed:
        replace_file(path, "new")
    assert failed.value.filename == str(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["settings.toml"]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "settings.toml"
    with pytest.raises(FileNotFoundError) as failed:
        replace_file(path, "new")
    assert failed.value.filename == str(path)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    replace_file(tmp_path / "link", "new")
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert not (tmp_path / "link").is_symlink()
