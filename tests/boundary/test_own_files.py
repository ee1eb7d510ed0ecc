from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib.boundary.own_files import make_private, read_file, replace_file

from ..locks import locks_of


def test_a_file_is_private_unless_said_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    replace_file(path, "é = 1\n")
    assert path.read_text("utf-8") == "é = 1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    replace_file(path, b"\xff", 0o644)
    assert path.read_bytes() == b"\xff"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["settings.toml"]


@pytest.mark.parametrize("can", [True, False])
def test_an_empty_file_is_made_once_and_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can: bool) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "only root")

    if not can:
        monkeypatch.setattr(os, "mknod", refuse)
    path = tmp_path / "jobs.db"
    make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("kept")
    make_private(path)
    assert path.read_text() == "kept"
    with pytest.raises(FileNotFoundError):
        make_private(tmp_path / "gone" / "jobs.db")


@pytest.mark.parametrize("can", [True, False])
def test_a_file_that_is_there_keeps_its_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can: bool) -> None:
    if not can:
        monkeypatch.delattr(os, "mknod")
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        before = locks_of(path)
        assert before
        make_private(path)
        assert locks_of(path) == before


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


def test_only_regular_files_and_what_the_shell_opened_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("abc")
    assert read_file(tmp_path / "a") == b"abc"
    assert read_file(tmp_path / "a", 1) == b"ab"  # one more shows that there is more
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "none", "/dev/zero"):
        with pytest.raises(OSError, match=r"regular file|directory"):
            read_file(path)
    reader, writer = os.pipe()
    os.write(writer, b"piped")
    os.close(writer)
    assert read_file(f"/dev/fd/{reader}") == b"piped"
    os.close(reader)
