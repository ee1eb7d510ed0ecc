"""Puts up what attackers would like to reach, runs `attacks.py` in a sandbox, and reports.

    python arena.py FOLDER BWRAP [UID]

With UID it becomes that user first (needs root). Prints the attacks' JSON, and under "host" what the host noticed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import SandboxSettings, cgroup, seccomp
from toolcrib.boundary.sandbox.bubblewrap import Bubblewrap

SCRIPT = Path(__file__).with_name("attacks.py")


def build(base: Path, uid: int | None) -> None:
    workspace, outside = base / "workspace", base / "outside"
    for folder in (outside, workspace / ".git/hooks", workspace / "sub/project/.git", workspace / "dotconfig/fish"):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("S")
    for path in (".git/config", "sub/project/.git/config", ".mcp.json", "dotconfig/fish/config.fish"):
        (workspace / path).write_text("genuine")
    (workspace / ".config").symlink_to("dotconfig")
    shutil.copy(SCRIPT, workspace / "attacks.py")
    home = base / "home"
    home.mkdir()
    (home / "secret").write_text("S")
    if uid is not None:
        for path in (base, *base.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


async def fight(base: Path, program: str) -> dict[str, object]:
    workspace, outside = base / "workspace", base / "outside"
    listener = socket.create_server(("127.0.0.1", 0))
    path_socket, abstract_socket = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    path_socket.bind(str(outside / "socket"))
    path_socket.listen()
    name = f"toolcrib-{secrets.token_hex(4)}"
    abstract_socket.bind("\0" + name)
    abstract_socket.listen()
    bystander = subprocess.Popen(["sleep", "60"])
    daemon = f"86{secrets.randbelow(10**6):06d}.25"
    secret = secrets.token_hex(8)
    os.environ["HOME"] = str(base / "home")
    os.environ["OPENAI_API_KEY"] = secret
    machine = seccomp.this_machine()
    assert machine is not None
    numbers = {key: pair[machine.column] for key, pair in seccomp.DENIED.items()}
    numbers |= {"clone": machine.clone, "clone3": machine.clone3, "socket": machine.socket}
    targets = {
        "workspace": str(workspace), "outside": str(outside), "pid": bystander.pid, "daemon": daemon,
        "port": listener.getsockname()[1], "abstract": name, "numbers": numbers,
        "home_secret": str(base / "home" / "secret"), "environment_secret": secret,
    }  # fmt: skip
    (workspace / "targets.json").write_text(json.dumps(targets))
    env = command_environment() | {"PATH": "/usr/bin:/bin"}
    sandbox = Bubblewrap(program, SandboxSettings(), workspace)
    spawn = sandbox.wrap(["/usr/bin/python3", "attacks.py", "targets.json"], cwd=workspace, env=env, timeout=30)
    result = await run(spawn, timeout=30)
    if result.exit_code != 0:
        raise SystemExit(f"{result.exit_code}: {result.stdout.excerpt().text}\n{result.stderr.excerpt().text}")
    report = json.loads(result.stdout.excerpt().text)
    files = (".git/config", "sub/project/.git/config", ".mcp.json", "dotconfig/fish/config.fish")
    report["host"] = {
        "bystander_lives": bystander.poll() is None,
        "daemon_left": running(daemon),
        "outside": sorted(os.listdir(outside)),
        "hooks": os.listdir(workspace / ".git/hooks"),
        "home": os.listdir(base / "home"),
        "protected": [(workspace / path).read_text() for path in files],
        "leftovers": [p for p in ("/tmp/.attacker", "/dev/shm/.attacker", "/evil", "/usr/evil") if os.path.exists(p)],
        "made": (workspace / "made").read_text(),
        "uid": os.getuid(),
    }
    bystander.kill()
    bystander.wait()
    return report


def running(marker: str) -> bool:
    """Whether any process has this argument."""
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                if marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return True
            except OSError:
                continue
    return False


def main() -> None:
    base, program = Path(sys.argv[1]), sys.argv[2]
    uid = int(sys.argv[3]) if len(sys.argv) > 3 else None
    build(base, uid)
    if uid is not None:
        cgroup.places = cgroup.Places  # the other user could not remove what root has made
    # Everything that is imported late is imported now: another user may not reach this interpreter's files.
    warm_up = Bubblewrap(program, SandboxSettings(), base / "workspace")
    environment = command_environment()
    asyncio.run(run(warm_up.wrap(["/bin/true"], cwd=base / "workspace", env=environment, timeout=9), timeout=9))
    if uid is not None:
        become(uid)
    started = time.monotonic()
    report = asyncio.run(fight(base, program))
    report["seconds"] = time.monotonic() - started
    print(json.dumps(report))


if __name__ == "__main__":
    main()
