"""What runs in process groups of ours ends with us, also when we are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ..waiting import until

HOST = """
import sys, time
from pathlib import Path
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import NoSandbox
def begin(command):
    spawn = NoSandbox().wrap(["/bin/sh", "-c", command], cwd=Path("/"), env={"PATH": "/usr/bin:/bin"}, timeout=60)
    return start(spawn, timeout=None)
begin("true").wait(60)
for _ in range(3):
    begin("trap '' TERM HUP; echo $$ >> " + sys.argv[1] + "; sleep 600 & echo $! >> " + sys.argv[1] + "; wait")
Path(sys.argv[1] + ".begun").touch()
time.sleep(600)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_killed_host_leaves_no_command_behind(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    file.touch()
    with subprocess.Popen([sys.executable, "-c", HOST, str(file)], cwd=tmp_path) as host:
        await until(lambda: len(file.read_text().split()) == 6 and file.with_suffix(".begun").exists())
        pids = [int(pid) for pid in file.read_text().split()]
        assert all(map(_alive, pids))
        os.kill(host.pid, signal.SIGKILL)
        await until(lambda: not any(map(_alive, pids)))
