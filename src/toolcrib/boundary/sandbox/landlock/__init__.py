"""Backend `landlock`: rules for files, a seccomp filter and limits, without namespaces. All of it is in this
package; here it is checked whether Landlock works, once per process."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from pathlib import Path

from ....core.errors import SandboxUnavailable
from ...landlock_calls import ask_version, landlock_abi
from ..remedies import LANDLOCK_FORBIDDEN, LANDLOCK_OFF, LANDLOCK_PROC, NO_LANDLOCK
from ..settings import Profile, SandboxSettings
from ..spec import DoctorFinding, Sandbox
from ..trial import try_run
from .doors_wall import MIN_ABI, DoorsWall
from .landlock_sandbox import LandlockSandbox

# The gaps of kernels without the newer versions (docs/sandbox.md), newest first: (version, kernel, gap).
_LACKS = (
    (6, "6.12", "commands can signal other processes of the user"),
    (2, "5.19", "files cannot be moved or linked from one folder to another"),
)


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return a sandbox with Landlock's rules. Raises SandboxUnavailable with what to install or set."""
    if found := problem():
        raise SandboxUnavailable(f"Landlock does not work on this machine, so commands are refused. {found}")
    return LandlockSandbox(settings, workspace)


def doors_wall(settings: SandboxSettings, name: str, profile: Profile) -> Sandbox:
    """Return the wall `all` of a backend without a sandbox. Raises SandboxUnavailable with the reason."""
    if found := problem():
        raise SandboxUnavailable(f"Landlock does not work on this machine. {found}")
    if landlock_abi() < MIN_ABI:
        raise SandboxUnavailable("Landlock's version 1 cannot close our own files to commands (Linux 5.19 can).")
    return DoorsWall(settings, name, profile)


def findings(settings: SandboxSettings, workspace: Path, needed: bool) -> list[DoctorFinding]:
    """Return what the kernel has, the gaps of its version, and whether a command runs. `needed` means that the settings
    ask for this backend."""
    if found := problem():
        return [DoctorFinding("landlock", False, "does not work here", found, needed)]
    abi = landlock_abi()
    lacks = [f"{what} (Linux {kernel})" for since, kernel, what in _LACKS if abi < since]
    detail = f"version {abi}; a real run works"
    if lacks:
        return [DoctorFinding("landlock", False, f"{detail}, but: {'; '.join(lacks)}", "a newer kernel", needed=False)]
    return [DoctorFinding("landlock", True, detail, needed=needed)]


@functools.cache
def problem() -> str:
    """Return why Landlock cannot be used here, with the remedy; "" if a real run works."""
    if landlock_abi() < 1:
        return {errno.ENOSYS: NO_LANDLOCK, errno.EOPNOTSUPP: LANDLOCK_OFF}.get(_errno(), LANDLOCK_FORBIDDEN)
    if not os.path.isdir("/proc/self/fd"):
        return LANDLOCK_PROC
    return try_run(lambda folder: LandlockSandbox(SandboxSettings(), folder))


def _errno() -> int:
    """Return the error of landlock_create_ruleset(2)."""
    ask_version()
    return ctypes.get_errno()
