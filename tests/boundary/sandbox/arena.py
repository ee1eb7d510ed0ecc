"""Puts up what attackers would like to reach, runs `attacks.py` in a sandbox, and reports.

    python arena.py FOLDER BACKEND [UID]

BACKEND is a path of bubblewrap, `proxied:` and such a path (with a domain allowed), `helped:` and such a path (what is
protected is bound as where there is very much of it), `landlock`, `landlock-N` (as on a
kernel with version N of it), or `none`. With UID it becomes that user first (needs root). Prints the attacks' JSON,
and under "host" what the host noticed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import NoSandbox, Sandbox, SandboxSettings, bubblewrap, cgroup, namespace_helper, seccomp
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.boundary.sandbox.landlock import landlock_syscalls
from toolcrib.boundary.sandbox.landlock.landlock_sandbox import LandlockSandbox

SCRIPT = Path(__file__).with_name("attacks.py")


def build(base: Path, uid: int | None) -> None:
    workspace, outside = base / "workspace", base / "outside"
    for folder in (outside, workspace / ".git/hooks", workspace / "sub/project/.git", workspace / "dotconfig/fish"):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("S")
    (outside / "readable").write_text("S")
    (outside / "movable").write_text("S")
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


def capabilities() -> set[str]:
    """Those of all threads of this process."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found |= set(re.findall("CapEff.*", (task / "status").read_text()))
    return found


def become(uid: int) -> None:
    while len(capabilities()) > 1:  # the thread that started a command has none, and then glibc would end the process
        time.sleep(0.01)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def make(backend: str, workspace: Path) -> Sandbox:
    if backend == "none":
        return NoSandbox()
    if backend.startswith("landlock"):
        version = backend.partition("-")[2]
        return LandlockSandbox(SandboxSettings(), workspace, int(version) if version else None)
    kind, _, program = backend.rpartition(":")
    domains = ("allowed.test",) if kind == "proxied" else ()
    if kind == "helped":
        bubblewrap.MAX_OWN_BINDS = 0
    return BubblewrapSandbox(program, SandboxSettings(allowed_domains=domains), workspace)


def shared_memory() -> int:
    """The key of a segment of System V shared memory that lives until this process ends."""
    key = secrets.randbelow(1 << 30) + 1
    libc = ctypes.CDLL(None)
    found = libc.shmget(key, 4096, 0o1600)  # IPC_CREAT
    atexit.register(lambda: libc.shmctl(found, 0, None))  # IPC_RMID
    return key


async def fight(base: Path, backend: str) -> dict[str, object]:
    workspace, outside = base / "workspace", base / "outside"
    listener = socket.create_server(("127.0.0.1", 0))
    path_socket, abstract_socket = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    path_socket.bind(str(outside / "socket"))
    path_socket.listen()
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagrams.bind(str(outside / "datagrams"))
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
    numbers |= {key: pair[machine.column] for key, pair in landlock_syscalls.IPC.items()}
    numbers["prlimit64"] = landlock_syscalls.PRLIMIT[machine.column]
    numbers |= {"clone": machine.clone, "clone3": machine.clone3, "socket": machine.socket}
    targets = {
        "workspace": str(workspace), "outside": str(outside), "pid": bystander.pid,
        "devices": os.stat("/dev/ptmx").st_dev, "daemon": daemon,
        "port": listener.getsockname()[1], "abstract": name, "numbers": numbers,
        "shared_memory": shared_memory(), "home_secret": str(base / "home" / "secret"), "environment_secret": secret,
    }  # fmt: skip
    (workspace / "targets.json").write_text(json.dumps(targets))
    env = command_environment() | {"PATH": "/usr/bin:/bin"}
    sandbox = make(backend, workspace)
    spawn = sandbox.wrap(["/usr/bin/python3", "attacks.py", "targets.json"], cwd=workspace, env=env, timeout=30)
    result = await run(spawn, timeout=30)
    if result.exit_code != 0:
        raise SystemExit(f"{result.exit_code}: {result.stdout.excerpt().text}\n{result.stderr.excerpt().text}")
    report = json.loads(result.stdout.excerpt().text)
    appeared = spawn.appeared()
    files = (".git/config", "sub/project/.git/config", ".mcp.json", "dotconfig/fish/config.fish")
    report["host"] = {
        "bystander_lives": bystander.poll() is None,
        "daemon_left": bool(running(daemon)),
        "outside": sorted(os.listdir(outside)),
        "secret_mode": (outside / "secret").stat().st_mode & 0o777,
        "readable": (outside / "readable").read_text(),
        "datagrams": received(datagrams),
        "limits": resource.prlimit(bystander.pid, resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY,
        "hooks": listed(workspace / ".git/hooks"),
        "home": os.listdir(base / "home"),
        "protected": [(workspace / path).read_text() for path in files if (workspace / path).exists()],
        "leftovers": [p for p in ("/tmp/.attacker", "/dev/shm/.attacker", "/evil", "/usr/evil") if os.path.exists(p)],
        "appeared": sorted(appeared),
        "made": (workspace / "made").read_text() if (workspace / "made").exists() else "",
        "uid": os.getuid(),
    }
    bystander.kill()
    bystander.wait()
    if backend == "none":
        tidy_up(daemon)
    return report


def tidy_up(daemon: str) -> None:
    """What attacks leave on this machine where nothing stops them."""
    ctypes.CDLL(None).mq_unlink(b"toolcrib-probe")
    for pid in running(daemon):
        os.kill(pid, signal.SIGKILL)
    for path in ("/tmp/.attacker", "/dev/shm/.attacker"):
        Path(path).unlink(missing_ok=True)


def listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def received(datagrams: socket.socket) -> bool:
    datagrams.setblocking(False)
    try:
        return bool(datagrams.recv(10))
    except BlockingIOError:
        return False


def running(marker: str) -> list[int]:
    """The processes that have this argument, but those that were killed and only have not had the processor since."""
    found: list[int] = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                if marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    pending = re.findall(r"^S\w+Pnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
                    if not any(int(each, 16) & 1 << signal.SIGKILL - 1 for each in pending):
                        found.append(int(pid))
            except OSError:
                continue
    return found


def main() -> None:
    base, backend = Path(sys.argv[1]), sys.argv[2]
    uid = int(sys.argv[3]) if len(sys.argv) > 3 else None
    if backend == "none" and (uid or os.geteuid()) == 0:
        raise SystemExit("without walls, root would do all of this to this machine")
    build(base, uid)
    if uid is not None:
        namespace_helper._own_python = lambda: "/usr/bin/python3"  # which another user reaches, too
        cgroup.places = cgroup.Places  # the other user could not remove what root has made
    # Everything that is imported late is imported now: another user may not reach this interpreter's files.
    environment = command_environment()
    spawn = make(backend, base / "workspace").wrap(["/bin/true"], cwd=base / "workspace", env=environment, timeout=9)
    asyncio.run(run(spawn, timeout=9))
    spawn.appeared()
    namespace_helper.namespace_helper.close()  # another user may have none of ours
    if uid is not None:
        become(uid)
    started = time.monotonic()
    report = asyncio.run(fight(base, backend))
    report["seconds"] = time.monotonic() - started
    print(json.dumps(report))


if __name__ == "__main__":
    main()
