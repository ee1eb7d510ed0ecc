import glob
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.sandbox import cgroup

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cgroups are Linux's")

# In a process of its own, so that the groups end with it.
SCRIPT = """
import asyncio, sys
from pathlib import Path
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import CommandLimits, SandboxSettings, select_sandbox
settings = SandboxSettings(limits=CommandLimits(memory=128 << 20, processes=40))
sandbox = select_sandbox(settings, Path(sys.argv[1]))
spawn = sandbox.wrap(["/bin/bash", "-c", sys.argv[2]], cwd=sandbox.workspace, env=command_environment(), timeout=20)
result = asyncio.run(run(spawn, timeout=20))
print(result.exit_code, result.stdout.excerpt().text, result.stderr.excerpt().text)
"""

FORKS = """
import os, time
made = 0
try:
    while made < 80:
        if os.fork() == 0:
            time.sleep(10)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""


def sandboxed(workspace: Path, command: str, more: str = "") -> str:
    if not cgroup.places():
        pytest.skip("no control group can be made here")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + more, str(workspace), command], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_memory_of_the_whole_tree_is_limited(tmp_path: Path) -> None:
    program = "import time; b = bytearray(60 << 20); time.sleep(1)"
    said = sandboxed(tmp_path, f"for i in 1 2 3 4 5; do python3 -c '{program}' & done; wait; echo survived $?")
    assert "Killed" in said
    assert "137" in sandboxed(tmp_path, "exec python3 -c 'bytearray(400 << 20)'")


def test_the_number_of_processes_is_limited(tmp_path: Path) -> None:
    # Not by bash: it tries a failed fork again for seconds, and then gives the script up.
    (tmp_path / "fork.py").write_text(FORKS)
    code, made = sandboxed(tmp_path, "exec python3 fork.py").split()
    assert (code, 0 < int(made) < 40) == ("0", True)


def test_groups_are_gone_afterwards(tmp_path: Path) -> None:
    script = "import os; print(os.getpid(), bool(__import__('glob').glob(f'/sys/fs/cgroup/**/toolcrib-{os.getpid()}*',"
    pid, made = sandboxed(tmp_path, "true", script + " recursive=True)))").split()[-2:]
    assert made == "True"
    assert not glob.glob(f"/sys/fs/cgroup/**/toolcrib-{pid}*", recursive=True)


def test_version_2_needs_a_delegated_parent(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.procs").write_text("")
    assert cgroup._is_delegated(str(tmp_path))
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    assert not cgroup._is_delegated(str(tmp_path))
    assert not cgroup._is_delegated(str(tmp_path / "missing"))
