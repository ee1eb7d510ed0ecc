"""What worked is remembered while nothing changes, and nothing that another user could have written is believed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib.boundary.sandbox import SandboxSettings, bubblewrap_backend, select_sandbox, trial
from toolcrib.boundary.sandbox.trial import MAX_AGE_SECONDS, RememberedTrial
from toolcrib.core.errors import SandboxUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "bwrap"
    path.write_text("#!/bin/sh\n")
    return str(path)


def remembered(tmp_path: Path, *programs: str) -> RememberedTrial:
    return RememberedTrial(tmp_path / "trial.json", programs)


def test_what_worked_is_remembered(tmp_path: Path, program: str) -> None:
    assert remembered(tmp_path, program).read() is None
    remembered(tmp_path, program).write(program)
    assert remembered(tmp_path, program).read() == program
    assert (tmp_path / "trial.json").stat().st_mode & 0o777 == 0o600


def test_a_changed_program_is_tried_again(tmp_path: Path, program: str) -> None:
    remembered(tmp_path, program).write(program)
    Path(program).write_text("#!/bin/sh\nexit 1\n")
    assert remembered(tmp_path, program).read() is None


def test_another_program_is_tried_again(tmp_path: Path, program: str) -> None:
    remembered(tmp_path, program).write(program)
    assert remembered(tmp_path, "/usr/bin/true", program).read() is None
    data = json.loads((tmp_path / "trial.json").read_text())
    (tmp_path / "trial.json").write_text(json.dumps({**data, "program": "/usr/bin/true"}))
    assert remembered(tmp_path, program).read() is None  # not one that was found


def test_another_kernel_is_tried_again(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(tmp_path, program).write(program)
    monkeypatch.setattr(trial, "_machine", lambda: ["another"])
    assert remembered(tmp_path, program).read() is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_ignored(tmp_path: Path, program: str, mode: int) -> None:
    remembered(tmp_path, program).write(program)
    (tmp_path / "trial.json").chmod(mode)
    assert remembered(tmp_path, program).read() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_ignored(tmp_path: Path, program: str) -> None:
    remembered(tmp_path, program).write(program)
    os.chown(tmp_path / "trial.json", 12345, 12345)
    assert remembered(tmp_path, program).read() is None


def test_a_link_is_ignored(tmp_path: Path, program: str) -> None:
    remembered(tmp_path, program).write(program)
    (tmp_path / "trial.json").rename(tmp_path / "elsewhere")
    (tmp_path / "trial.json").symlink_to(tmp_path / "elsewhere")
    assert remembered(tmp_path, program).read() is None


@pytest.mark.parametrize("offset", [-MAX_AGE_SECONDS - 60, 3600])
def test_an_old_file_and_one_of_the_future_are_ignored(tmp_path: Path, program: str, offset: float) -> None:
    remembered(tmp_path, program).write(program)
    os.utime(tmp_path / "trial.json", (time.time() + offset,) * 2)
    assert remembered(tmp_path, program).read() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"facts": 1}', b"\xff", b'"x"'])
def test_a_broken_file_is_ignored(tmp_path: Path, program: str, content: bytes) -> None:
    (tmp_path / "trial.json").write_bytes(content)
    (tmp_path / "trial.json").chmod(0o600)
    assert remembered(tmp_path, program).read() is None


def test_a_missing_folder_is_no_error(tmp_path: Path, program: str) -> None:
    RememberedTrial(tmp_path / "missing" / "trial.json", [program]).write(program)


@pytest.fixture
def fresh() -> Iterator[None]:
    caches = (bubblewrap_backend.candidates, bubblewrap_backend.working, bubblewrap_backend.try_candidate)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_a_second_process_tries_nothing(tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SandboxSettings(trials=tmp_path)
    workspace = tmp_path / "work"
    workspace.mkdir()
    select_sandbox(settings, workspace)
    bubblewrap_backend.working.cache_clear()

    def refuse(*_: object) -> str:
        raise AssertionError("it was tried again")

    monkeypatch.setattr(bubblewrap_backend, "try_candidate", refuse)
    monkeypatch.setattr(bubblewrap_backend, "_version", refuse)
    assert select_sandbox(settings, workspace).active


def test_failure_is_not_remembered(tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap_backend, "candidates", lambda writable: ())
    with pytest.raises(SandboxUnavailable):
        select_sandbox(SandboxSettings(trials=tmp_path), tmp_path)
    assert not (tmp_path / "bubblewrap.json").exists()
