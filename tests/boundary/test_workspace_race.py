"""An attacker swaps a directory with a link to outside, without pause, while paths below it are used.

The attacker is a process of its own that exchanges the two names atomically (renameat2 RENAME_EXCHANGE). A resolved
path that is opened afterwards loses this race dozens of times in five seconds.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolcrib.boundary.descriptors import closing_fd
from toolcrib.boundary.openat2 import has_openat2
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import ToolError

METHODS = ["walk", *(["openat2"] if has_openat2() else [])]

ATTACKER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
inside, link = sys.argv[1].encode(), sys.argv[2].encode()
print("ready", flush=True)
while True:
    libc.renameat2(-100, inside, -100, link, 2)  # RENAME_EXCHANGE
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "renameat2"), reason="needs renameat2"
)


class Arena:
    """A workspace with `dir/` (an attacker swaps it with a link to outside) and bait on both sides."""

    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.outside = base / "outside"
        for folder in (self.root / "dir", self.outside):
            folder.mkdir(parents=True)
        self.reset()
        (self.root / "link").symlink_to(self.outside)

    def reset(self) -> None:
        (self.outside / "f.txt").write_text("outside")

    def intact(self) -> bool:
        return sorted(os.listdir(self.outside)) == ["f.txt"] and (self.outside / "f.txt").read_text() == "outside"

    @contextlib.contextmanager
    def attacked(self):
        argv = [sys.executable, "-c", ATTACKER, str(self.root / "dir"), str(self.root / "link")]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as attacker:
            assert attacker.stdout is not None and attacker.stdout.readline() == b"ready\n"
            try:
                yield
            finally:
                attacker.kill()


@pytest.fixture
def arena(tmp_path):
    return Arena(tmp_path)


def opening(arena: Arena, ws: Workspace, seconds: float) -> tuple[int, int, int]:
    """Tries, successes, escapes."""
    (arena.root / "dir" / "f.txt").write_text("inside")
    tries = good = escapes = 0
    with arena.attacked():
        end = time.monotonic() + seconds
        while time.monotonic() < end or not 0 < good < tries:  # a busy machine may not let both run at first
            for _ in range(100):
                tries += 1
                try:
                    fd = ws.open_read("dir/f.txt")
                except (ToolError, OSError):
                    continue
                good += 1
                escapes += os.read(fd, 20) != b"inside"
                os.close(fd)
    return tries, good, escapes


def writing(arena: Arena, ws: Workspace, seconds: float) -> tuple[int, int, int]:
    tries = good = 0
    with arena.attacked():
        end = time.monotonic() + seconds
        while time.monotonic() < end or not 0 < good < tries:  # a busy machine may not let both run at first
            tries += 1
            try:
                ws.stage("dir/f.txt", b"written", sync=False).commit()
                good += 1
            except (ToolError, OSError):
                pass
    return tries, good, 0 if arena.intact() else 1


def unlink(ws: Workspace, path: str) -> None:
    parent, name, _ = ws.open_parent(path)
    with closing_fd(parent):
        os.unlink(name, dir_fd=parent)


def deleting(arena: Arena, ws: Workspace, seconds: float) -> tuple[int, int, int]:
    tries = good = escapes = 0
    with arena.attacked():
        end = time.monotonic() + seconds
        while time.monotonic() < end or not 0 < good < tries:  # a busy machine may not let both run at first
            for action in (lambda: ws.stage("dir/f.txt", b"x", sync=False).commit(), lambda: unlink(ws, "dir/f.txt")):
                tries += 1
                try:
                    action()
                    good += 1
                except (ToolError, OSError):
                    pass
            if not arena.intact():
                escapes += 1
                arena.reset()
    return tries, good, escapes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("action", [opening, writing, deleting])
def test_no_escape_in_a_short_race(arena, method, action):
    tries, good, escapes = action(arena, Workspace(arena.root, method=method), 0.4)
    assert escapes == 0, (tries, good, escapes)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("action", [opening, writing, deleting])
def test_no_escape_in_a_long_race(arena, method, action):
    tries = good = escapes = 0
    while tries < (100_000 if action is opening else 1):  # a slow machine needs longer for as many
        more = action(arena, Workspace(arena.root, method=method), 5)
        tries, good, escapes = tries + more[0], good + more[1], escapes + more[2]
    print(f"{action.__name__} {method}: {tries} tries, {good} good, {escapes} escapes")
    assert escapes == 0


def test_the_attacker_beats_resolve_then_open(arena):
    """The race is real: the naive way loses it. Otherwise the tests above would prove nothing."""
    (arena.root / "dir" / "f.txt").write_text("inside")
    with arena.attacked():
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                path = (arena.root / "dir" / "f.txt").resolve()
                path.relative_to(arena.root.resolve())
                if path.read_text() == "outside":
                    return
            except (OSError, ValueError):
                continue
    pytest.skip("the attacker never won within 10 s on this machine")
