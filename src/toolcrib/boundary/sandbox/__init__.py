"""Ways to run a command inside walls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ...core.errors import ConfigError, SandboxUnavailable
from .none import NoSandbox
from .spec import CommandLimits, DockerSettings, DoctorFinding, Profile, Sandbox, SandboxSettings

__all__ = [
    "CommandLimits",
    "DockerSettings",
    "DoctorFinding",
    "NoSandbox",
    "Profile",
    "Sandbox",
    "SandboxSettings",
    "probe",
    "select_sandbox",
]

_PROFILES = ("read-only", "workspace-write", "unrestricted")
_BACKENDS = ("bubblewrap", "landlock", "docker", "external", "none")
_NO_WALLS = ("external", "none")


def select_sandbox(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """The sandbox that was asked for, never another. Raises SandboxUnavailable with what to install or set."""
    backend = _backend(settings)
    if backend == "none":
        return NoSandbox()
    if backend == "external":
        from .external import ExternalSandbox

        return ExternalSandbox(settings.outer_walls)
    if backend == "docker":
        return _docker(settings, workspace)
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"Commands cannot be sandboxed by {backend} on {sys.platform}. To run them in containers: "
            'sandbox.backend = "docker"; without any sandbox, say so: sandbox.backend = "none".'
        )
    return _landlock(settings, workspace) if backend == "landlock" else _bubblewrap(settings, workspace)


def probe(settings: SandboxSettings | None = None) -> list[DoctorFinding]:
    """What `toolcrib doctor` shows about the sandbox that settings ask for, and about what could stand in for it."""
    settings = settings or SandboxSettings()
    from .detect_network import findings as network_findings

    backend = _backend(settings)
    return [*_findings(settings, backend), *network_findings(settings, backend)]


def _findings(settings: SandboxSettings, backend: str) -> list[DoctorFinding]:
    if backend in _NO_WALLS:
        return []
    if backend == "docker":
        from .docker.detect_docker import findings as docker_findings

        return docker_findings(settings.docker)
    if sys.platform != "linux":
        remedy = 'sandbox.backend = "docker" uses containers, "none" runs commands without a sandbox'
        return [DoctorFinding("sandbox", False, f"not available on {sys.platform}", remedy)]
    from .detect_bubblewrap import bubblewrap_findings, machine_findings
    from .landlock.detect_landlock import findings as landlock_findings

    found = bubblewrap_findings() if backend == "bubblewrap" else []
    return [*found, *landlock_findings(backend == "landlock"), *machine_findings()]


def _backend(settings: SandboxSettings) -> str:
    """The backend by name. Raises ConfigError for a profile that it cannot have."""
    profile, backend = settings.profile, settings.backend
    if profile not in (None, *_PROFILES):
        raise ConfigError(f"sandbox.profile is {profile!r}; it can be {', '.join(_PROFILES)}")
    if backend is not None and backend not in _BACKENDS:
        raise ConfigError(f"sandbox.backend is {backend!r}; it can be auto, {', '.join(_BACKENDS)}")
    if profile == "unrestricted":
        if backend not in (None, "none"):
            raise ConfigError(f'sandbox.profile "unrestricted" is backend "none"; it cannot be had with {backend!r}')
        return "none"
    if profile == "read-only" and backend in _NO_WALLS:
        raise ConfigError(
            f'sandbox.backend "{backend}" cannot keep a command from writing; profile "read-only" needs another'
        )
    return backend or "bubblewrap"


def _bubblewrap(settings: SandboxSettings, workspace: Path) -> Sandbox:
    from .detect_bubblewrap import find  # it needs modules that only Linux has

    program = find()
    from .bubblewrap import BubblewrapSandbox

    return BubblewrapSandbox(program, settings, workspace)


def _landlock(settings: SandboxSettings, workspace: Path) -> Sandbox:
    from .landlock.detect_landlock import require

    require()
    from .landlock.landlock_sandbox import LandlockSandbox

    return LandlockSandbox(settings, workspace)


def _docker(settings: SandboxSettings, workspace: Path) -> Sandbox:
    if os.name != "posix":
        raise SandboxUnavailable("Commands can be run on Linux and macOS only in this version.")
    from .docker.detect_docker import require
    from .docker.docker_sandbox import DockerSandbox

    return DockerSandbox(require(settings.docker), settings, workspace)
