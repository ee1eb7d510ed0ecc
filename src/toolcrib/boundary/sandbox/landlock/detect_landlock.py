"""Check whether Landlock works here, and which version this kernel has. Checked once per process."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys

from ....core.errors import SandboxUnavailable
from ...landlock_calls import ask_version, landlock_abi
from ..remedies import LANDLOCK_FORBIDDEN, LANDLOCK_OFF, LANDLOCK_PROC, NO_LANDLOCK
from ..settings import SandboxSettings
from ..spec import DoctorFinding
from ..trial import try_run
from .landlock_sandbox import LandlockSandbox

# The gaps of kernels without the newer versions (docs/sandbox.md), newest first: (version, kernel, gap).
_LACKS = (
    (6, "6.12", "commands can signal other processes of the user"),
    (2, "5.19", "files cannot be moved or linked from one folder to another"),
)


@functools.cache
def problem() -> str:
    """Return why Landlock cannot be used here, with the remedy; "" if a real run works."""
    if landlock_abi() < 1:
        return _missing(_errno())
    if not os.path.isdir("/proc/self/fd"):
        return LANDLOCK_PROC
    return try_run(lambda folder: LandlockSandbox(SandboxSettings(), folder))


def require() -> None:
    """Check that Landlock works here. Raises SandboxUnavailable with the reason and the remedy."""
    if found := problem():
        raise SandboxUnavailable(f"Landlock does not work on this machine, so commands are refused. {found}")


def findings(needed: bool) -> list[DoctorFinding]:
    """Return what the kernel has, and the gaps of its version. `needed` means that the settings ask for this
    backend."""
    if sys.platform != "linux":
        return []
    if found := problem():
        return [DoctorFinding("landlock", False, "does not work here", found, needed)]
    abi = landlock_abi()
    lacks = [f"{what} (Linux {kernel})" for since, kernel, what in _LACKS if abi < since]
    detail = f"version {abi}; a real run works"
    if lacks:
        return [DoctorFinding("landlock", False, f"{detail}, but: {'; '.join(lacks)}", "a newer kernel", needed=False)]
    return [DoctorFinding("landlock", True, detail, needed=needed)]


def _errno() -> int:
    ask_version()
    return ctypes.get_errno()


def _missing(number: int) -> str:
    """Explain an error of landlock_create_ruleset(2)."""
    return {errno.ENOSYS: NO_LANDLOCK, errno.EOPNOTSUPP: LANDLOCK_OFF}.get(number, LANDLOCK_FORBIDDEN)
