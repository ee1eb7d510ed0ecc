"""A command does not begin when our process was killed before it had set the command's limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolcrib.boundary.process_tree import end_left_behind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

KILLED = """
import os, signal, sys, time
from pathlib import Path
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox

workspace = Path(sys.argv[1])
sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), workspace)
for number in range(8):
    if os.fork():
        os.wait()
        continue
    command = ["/bin/sh", "-c", f"echo ran > {number}"]
    spawn = sandbox.wrap(command, cwd=workspace, env=command_environment(), timeout=60)
    spawn.handshake.feed = lambda data: os.kill(os.getpid(), signal.SIGKILL)  # it is ready to be released
    start(spawn, timeout=60, limit=100)
    time.sleep(60)
"""


def left_behind(workspace: Path) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if b"--block-fd" in words and str(workspace).encode() in words:
            found.append(int(folder.name))
    return found


def waits(pid: int) -> bool:
    """Whether a process waits for a pipe, or has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "SZ"
    except OSError:
        return True


def test_a_killed_process_leaves_no_command_that_begins(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], timeout=100, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    until = time.monotonic() + 30
    quiet = 0
    while quiet < 20 and time.monotonic() < until:  # they set up their sandboxes, and come to where they wait
        quiet = quiet + 1 if all(map(waits, left_behind(tmp_path))) else 0
        time.sleep(0.01)
    assert quiet == 20
    assert list(tmp_path.iterdir()) == []
    mine = subprocess.Popen(["sleep", "60"], env={**os.environ, "TOOLCRIB_COMMAND": "1.2.3"})  # no sandbox
    try:
        end_left_behind()
        while left_behind(tmp_path) and time.monotonic() < until:
            time.sleep(0.01)
        assert left_behind(tmp_path) == []
        assert mine.poll() is None
    finally:
        mine.send_signal(signal.SIGKILL)
        mine.wait()
