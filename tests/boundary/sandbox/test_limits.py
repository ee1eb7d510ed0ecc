"""Commands that take all they can get: each ends in bounded time, says why, and the host stays responsive.

Each in a process of its own, because its control groups are that process's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.landlock_calls import landlock_abi
from toolcrib.boundary.sandbox import CommandLimits, cgroup

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are for Linux")

MIB = 1 << 20
SCRIPT = """
import asyncio, json, sys, time
from pathlib import Path
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import CommandLimits, SandboxSettings, select_sandbox

async def main():
    backend, workspace, command, timeout, beside = sys.argv[1:]
    limits = CommandLimits(memory=256 << 20, processes=60, tmp=30 << 20, file_size=20 << 20, cores=1)
    sandbox = select_sandbox(SandboxSettings(backend=backend, limits=limits), Path(workspace))
    env = command_environment() | {"PATH": "/usr/bin:/bin"}
    spawn = sandbox.wrap(["/bin/bash", "-c", command], cwd=sandbox.workspace, env=env, timeout=float(timeout))
    spawns = [spawn]
    if beside:
        spawns.append(sandbox.wrap(["/bin/sleep", "1"], cwd=sandbox.workspace, env=env, timeout=20))
    ticks, task = 0, asyncio.gather(*(run(each, timeout=float(timeout)) for each in spawns))
    while not task.done():
        await asyncio.sleep(0.02)
        ticks += 1
    result = task.result()[0]
    spawn.appeared()
    print(json.dumps({
        "code": result.exit_code, "ended": result.ended_by, "reaped": result.reaped, "notes": spawn.notes,
        "ticks": ticks,
        "said": result.stdout.excerpt().text + result.stderr.excerpt().text, "signal": result.signal,
    }))

asyncio.run(main())
"""


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "landlock" and landlock_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    return request.param


def greedy(backend: str, workspace: Path, command: str, timeout: float, beside: str = "") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, backend, str(workspace), command, str(timeout), beside],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["reaped"]
    return found


def needs_groups() -> None:
    """Root is bound by no other limit of processes and of memory: without groups these would take the machine."""
    if not cgroup.places():
        pytest.skip("no control group can be made here")


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "b() { b | b & }; b; wait; sleep 60",
        "python3 -c 'import os\nwhile True:\n try: os.fork()\n except OSError: pass'",
    ],
)
def test_a_fork_bomb(backend: str, program: str, tmp_path: Path) -> None:
    needs_groups()
    marker = f"7{os.getpid()}.25"
    found = greedy(backend, tmp_path, f"sleep {marker} & {program}", 3)
    assert found["ended"] == "timeout"
    assert found["ticks"] > 5  # the loop went on meanwhile
    assert any("limit of 60 processes" in note for note in found["notes"])
    assert not _runs(marker)


def _runs(marker: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.slow
def test_a_memory_hog(backend: str, tmp_path: Path) -> None:
    needs_groups()
    found = greedy(backend, tmp_path, "exec python3 -c 'bytearray(600 << 20)'", 30)
    assert found["code"] == 137 or found["signal"] == 9
    assert any("sandbox.limits.memory" in note for note in found["notes"])


@pytest.mark.slow
def test_memory_of_many_and_a_command_beside_it(backend: str, tmp_path: Path) -> None:
    needs_groups()
    hogs = "for i in 1 2 3; do python3 -c 'import time; x = bytearray(150 << 20); time.sleep(2)' & done; wait; echo end"
    found = greedy(backend, tmp_path, hogs, 60, "beside")
    assert "end" in found["said"]
    assert found["code"] == 0  # what is left of it may go on, and the note says what happened
    shared = not cgroup.places().unified
    assert any(note.startswith("[it, or a command" if shared else "[it reached") for note in found["notes"])


def test_disk_fillers(backend: str, tmp_path: Path) -> None:
    one = greedy(backend, tmp_path, "head -c 100M /dev/zero > big; ls -s --block-size=1M big", 30)
    assert "20 big" in one["said"]
    assert "File size limit exceeded" in one["said"] or "File too large" in one["said"]
    if backend == "bubblewrap":  # with landlock each file is limited only
        many = "for i in $(seq 20); do head -c 10M /dev/zero > /tmp/f$i || break; done; du -xsm /tmp | cut -f1"
        found = greedy(backend, tmp_path, many, 30)
        assert "No space left on device" in found["said"]
        assert int(found["said"].split()[0]) <= 31


@pytest.mark.slow
def test_cpu_burners(backend: str, tmp_path: Path) -> None:
    found = greedy(backend, tmp_path, "for i in 1 2 3 4; do (while :; do :; done) & done; wait", 3)
    assert found["ended"] == "timeout"
    assert found["ticks"] > 5


@pytest.mark.slow
def test_an_ordinary_command_has_no_notes(backend: str, tmp_path: Path) -> None:
    assert greedy(backend, tmp_path, "echo fine", 30)["notes"] == []


def test_groups_of_version_2_are_counted_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def group(limits: CommandLimits) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "memory.events").write_text("low 0\noom 0\noom_kill 0\n")
        (folder / "pids.events").write_text("max 0\n")
        return str(folder)

    monkeypatch.setattr(cgroup, "new_group", group)
    first, second = (
        cgroup.CgroupEvents(CommandLimits(processes=1234)),
        cgroup.CgroupEvents(CommandLimits()),
    )
    first.begin(os.getpid())
    second.begin(os.getpid())
    (tmp_path / "0/pids.events").write_text("max 7\n")
    (tmp_path / "1/memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    first.end()
    second.end()
    assert first.notes() == [
        "[it reached the limit of 1,234 processes (sandbox.limits.processes); starting more failed]"
    ]
    assert len(second.notes()) == 1
    assert second.notes()[0].startswith("[it reached the limit of memory")


def test_where_nothing_is_counted_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "new_group", lambda limits: None)
    monkeypatch.setattr(cgroup, "shared_folders", lambda: {"pids": "/nowhere"})
    found = cgroup.CgroupEvents(CommandLimits())
    found.begin(os.getpid())
    found.end()
    assert found.notes() == []
