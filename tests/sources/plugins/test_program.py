"""A plugin's program: what is hashed is what runs, whatever happens to the file."""

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toolcrib.sources.plugins import program as module
from toolcrib.sources.plugins.program import PinnedProgram, ProgramRefused

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sealed copies are Linux's")

GOOD = b"#!/bin/sh\necho good\n"
EVIL = b"#!/bin/sh\necho evil\n"


def put(path: Path, content: bytes, mode: int = 0o755) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return hashlib.sha256(content).hexdigest()


def run(program: PinnedProgram) -> str:
    fd = program.open()
    try:
        done = subprocess.run([f"/proc/self/fd/{fd}"], pass_fds=[fd], capture_output=True, text=True, check=True)
    finally:
        os.close(fd)
    return done.stdout.strip()


@pytest.mark.parametrize("pinned", [True, False])
def test_a_program_runs(tmp_path: Path, pinned: bool) -> None:
    digest = put(tmp_path / "run", GOOD)
    program = PinnedProgram(tmp_path, "run", digest if pinned else None)
    assert program.check() == digest
    assert [run(program), run(program)] == ["good", "good"]
    program.close()


@pytest.mark.parametrize("old", [True, False])
def test_a_changed_program_is_refused_and_runs_again_when_it_is_back(tmp_path: Path, old: bool) -> None:
    program = PinnedProgram(tmp_path, "run", put(tmp_path / "run", GOOD))
    if old:  # long enough ago that its times are believed
        os.utime(tmp_path / "run", (1, 1))
    run(program)
    put(tmp_path / "run", EVIL)
    for look in (program.open, program.check):
        with pytest.raises(ProgramRefused, match="it has changed, and is not run"):
            look()
    put(tmp_path / "run", GOOD)
    assert run(program) == "good"
    program.close()


def test_a_file_rewritten_in_place_with_its_times_put_back_never_runs(tmp_path: Path) -> None:
    path = tmp_path / "run"
    program = PinnedProgram(tmp_path, "run", put(path, GOOD))
    run(program)
    before = path.stat()
    with open(path, "r+b") as file:
        file.write(EVIL)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ProgramRefused):
        program.open()
    program.close()


def test_an_unchanged_file_is_opened_once_and_a_path_that_leads_elsewhere_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = module._open_beneath

    def counted(folder: Path, path: str) -> int:
        opened.append(path)
        return real(folder, path)

    monkeypatch.setattr(module, "_open_beneath", counted)
    monkeypatch.setattr(module, "_SETTLED_SECONDS", -1.0)  # its status changed just now, and is believed
    program = PinnedProgram(tmp_path, "run", put(tmp_path / "good", GOOD))
    evil = put(tmp_path / "other", EVIL)
    (tmp_path / "run").symlink_to("good")
    assert [run(program), run(program), run(program)] == ["good"] * 3
    assert opened == ["run"]
    (tmp_path / "run").unlink()
    (tmp_path / "run").symlink_to("other")
    with pytest.raises(ProgramRefused, match=evil):
        program.open()
    program.close()


def test_nothing_but_the_pinned_program_runs_whoever_races(tmp_path: Path) -> None:
    """One thread swaps and rewrites the file all the time; a run is the good program or a refusal."""
    path, over = tmp_path / "run", threading.Event()
    program = PinnedProgram(tmp_path, "run", put(path, GOOD))
    put(tmp_path / "evil", EVIL)

    def race() -> None:
        while not over.is_set():
            put(tmp_path / "new", EVIL)
            os.replace(tmp_path / "new", path)
            with open(path, "r+b") as file:
                file.write(GOOD)
                file.flush()
                file.seek(0)
                file.write(EVIL)
            put(tmp_path / "new", GOOD)
            os.replace(tmp_path / "new", path)

    thread = threading.Thread(target=race)
    thread.start()
    ran = refused = 0
    try:
        while (ran < 20 or refused < 20) and ran + refused < 4_000:
            try:
                fd = program.open()
            except ProgramRefused:
                refused += 1
                continue
            try:
                assert Path(f"/proc/self/fd/{fd}").read_bytes() == GOOD
                ran += 1
            finally:
                os.close(fd)
    finally:
        over.set()
        thread.join()
    assert refused
    program.close()


def test_the_copy_cannot_be_written(tmp_path: Path) -> None:
    program = PinnedProgram(tmp_path, "run", put(tmp_path / "run", GOOD))
    fd = program.open()
    with pytest.raises(PermissionError), open(f"/proc/self/fd/{fd}", "r+b", buffering=0) as file:
        file.write(EVIL)
    os.close(fd)
    program.close()


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    put(tmp_path / "plain", GOOD, 0o644)
    put(tmp_path.parent / "outside", GOOD)
    (tmp_path / "link").symlink_to(tmp_path.parent / "outside")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "fifo", 0o755)
    for path, why in {
        "missing": "No such file", "plain": r"chmod \+x", "link": "cannot be opened", "sub": "not a regular file",
        "fifo": "not a regular file",
    }.items():  # fmt: skip
        with pytest.raises(ProgramRefused, match=why):
            PinnedProgram(tmp_path, path).open()


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "real", GOOD)
    (tmp_path / "run").symlink_to("real")
    assert run(PinnedProgram(tmp_path, "run")) == "good"
