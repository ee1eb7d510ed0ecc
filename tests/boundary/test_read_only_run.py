"""Programs that may only read: where they can look, and that they end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from toolcrib.boundary.landlock_calls import landlock_abi
from toolcrib.boundary.read_only_run import Haystack, Running, run_read_only
from toolcrib.boundary.ripgrep import find_ripgrep

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="works on directory descriptors")
needs_landlock = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock")


def run(directory: Path, *command: str, seconds: float = 10, confine: bool = True) -> tuple[bytes, Running]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with run_read_only(command, Haystack(descriptor), seconds=seconds, confine=confine) as running:
            out = b"".join(running.chunks())
    finally:
        os.close(descriptor)
    return out, running


@pytest.fixture
def two(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a.txt").write_text("in\n")
    (tmp_path / "outside.txt").write_text("out\n")
    (tmp_path / "inside" / "link").symlink_to("../outside.txt")
    return tmp_path / "inside"


def test_it_starts_in_the_directory_that_was_opened(two: Path) -> None:
    out, running = run(two, "/bin/cat", "a.txt")
    assert out == b"in\n"
    assert (running.process.returncode, running.stopped) == (0, None)


@needs_landlock
@pytest.mark.parametrize("path", ["link", "../outside.txt", "/etc/passwd"])
def test_it_reads_nothing_outside(two: Path, path: str) -> None:
    assert run(two, "/bin/cat", path, confine=False)[0] != b""  # the probe itself works
    out, running = run(two, "/bin/cat", path)
    assert out == b""
    assert "Permission denied" in running.said


@needs_landlock
def test_it_writes_and_starts_nothing(two: Path) -> None:
    assert "Permission denied" in run(two, "/bin/touch", "new")[1].said
    assert not (two / "new").exists()
    script = two / "script"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    out, running = run(two, "/usr/bin/env", "./script")
    assert out == b""
    assert running.process.returncode != 0


@needs_landlock
def test_our_own_threads_stay_free(two: Path) -> None:
    run(two, "/bin/cat", "a.txt")
    assert (two.parent / "outside.txt").read_text() == "out\n"
    (two.parent / "written").write_text("x")


def test_its_time_is_limited(two: Path) -> None:
    start = time.monotonic()
    _, running = run(two, "/bin/sleep", "30", seconds=0.2)
    assert time.monotonic() - start < 20
    assert running.stopped == "time"
    assert running.process.returncode is not None


def test_cancellation_ends_it(two: Path) -> None:
    descriptor = os.open(two, os.O_RDONLY)
    start = time.monotonic()
    with run_read_only(["/bin/sleep", "30"], Haystack(descriptor), seconds=30, cancelled=lambda: True) as r:
        assert list(r.chunks()) == []
    os.close(descriptor)
    assert r.stopped == "cancelled"
    assert time.monotonic() - start < 20


def test_leaving_early_ends_it(two: Path) -> None:
    descriptor = os.open(two, os.O_RDONLY)
    with run_read_only(["/usr/bin/yes"], Haystack(descriptor), seconds=30) as running:
        next(running.chunks())
    os.close(descriptor)
    assert running.stopped == "enough"
    assert running.process.returncode is not None


def test_a_program_that_is_not_there(two: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(two, str(two / "nothing"))


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit")
def test_its_memory_is_limited(two: Path) -> None:
    with open(two / "line", "wb") as file:
        file.writelines(b"a" * (1 << 20) for _ in range(64))
    ripgrep = find_ripgrep()
    assert ripgrep is not None
    command = [ripgrep.path, "--no-config", "--no-mmap", "--threads=1", "--count", "aa", "line"]
    descriptor = os.open(two, os.O_RDONLY)
    answers: list[tuple[bytes, str]] = []
    for memory in (1 << 30, 48 << 20):
        with run_read_only(command, Haystack(descriptor), seconds=10, memory=memory) as running:
            out = b"".join(running.chunks())
        answers.append((out, running.said))
    os.close(descriptor)
    assert answers[0] == (b"1\n", "")
    assert "memory allocation" in answers[1][1]
