"""Test whether a sandbox really runs a command here, and report the machine features that sandboxes need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ..environment import command_environment
from ..process import start
from . import cgroup, seccomp
from .spec import DoctorFinding, Sandbox

_RUN_SECONDS = 20.0


def try_run(make: Callable[[Path], Sandbox]) -> str:
    """Run a command in a sandbox around a new folder; the command writes there. Return "" if that works, else the
    error text."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-probe-") as name:
        folder = Path(os.path.realpath(name))
        command = ["/bin/sh", "-c", "echo probe > probe && exit 7"]
        try:
            spawn = make(folder).wrap(command, cwd=folder, env=command_environment(), timeout=5)
            result = start(spawn, timeout=_RUN_SECONDS).wait()
        except SandboxUnavailable as error:
            return str(error)
        except OSError as error:
            return f"{error.strerror or error}"
        if result is None or result.exit_code != 7:
            said = "" if result is None else result.stderr.excerpt().text.strip()[:200]
            return (
                f"a test command ended with {None if result is None else result.exit_code} instead of 7. {said}".strip()
            )
        return "" if (folder / "probe").exists() else "what a test command wrote did not arrive in its folder"


def machine_findings() -> list[DoctorFinding]:
    """Report the machine features that bubblewrap and Landlock both need."""
    machine = seccomp.this_machine()
    remedy = "" if machine else "only x86-64 and aarch64 are known"
    return [DoctorFinding("seccomp", machine is not None, os.uname().machine, remedy), _cgroups()]


def _cgroups() -> DoctorFinding:
    if cgroup.places():
        return DoctorFinding("cgroups", True, "memory and process count of whole commands are limited", needed=False)
    return DoctorFinding(
        "cgroups",
        False,
        "none can be made here; memory is limited for each process only",
        "start toolcrib in a systemd user session, or delegate a cgroup to it",
        needed=False,
    )
