"""Confine commands. Each backend is a line here, and one of them is selected by the settings. The backends that do not
confine commands are here; each other one is a module or package."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast, get_args

from ...core.errors import ConfigError, SandboxUnavailable
from ...core.wings import has_wing
from ..spawn import Spawn
from .settings import CommandLimits, DockerSettings, Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox

__all__ = [
    "CommandLimits", "DockerSettings", "DoctorFinding", "NoSandbox", "Profile", "Sandbox", "SandboxSettings", "probe",
    "select_sandbox",
]  # fmt: skip


class NoSandbox:
    """Backend `none`: a command runs with the rights of the host. It is used only if the settings ask for it."""

    name = "none"
    profile: Profile = "unrestricted"
    active = False
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        return Spawn(argv, str(cwd), env, outlives_thread=True)


class ExternalSandbox(NoSandbox):
    """Backend `external`: the user says that Toolcrib already runs in a sandbox. This backend adds none.

    The sandbox is a container of a build service, a virtual machine or a Kubernetes pod. We cannot check it from here.
    So `active` is true, and policy relies on the sandbox, only if the user says that it confines commands to the
    workspace and keeps them off the network (`sandbox.outer_walls`).
    """

    name = "external"
    profile: Profile = "workspace-write"

    def __init__(self, outer_walls: bool) -> None:
        self.active = outer_walls


class BackendModule(Protocol):
    """The interface of the module of a backend that confines commands."""

    def select(self, settings: SandboxSettings, workspace: Path) -> Sandbox:
        """Return a sandbox around a workspace. Raises SandboxUnavailable with what to install or set."""
        ...

    def findings(self, settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
        """Return what `toolcrib doctor` shows. `needed` means that the settings ask for this backend."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to run commands. `module` confines them, if there is one. `domains`: what doctor says about
    `sandbox.allowed_domains`, if they have no effect. `alternative`: doctor also shows it where the default is used.
    `linux`: it needs Linux. `wing`: it is a separate wing with its own name."""

    name: str
    module: str = ""
    domains: str = ""
    alternative: bool = False
    linux: bool = False
    wing: bool = False

    def load(self) -> BackendModule:
        """Import and return the backend's module."""
        return cast("BackendModule", importlib.import_module(self.module, __package__))


_UNLIMITED = "backend {} does not limit the network: sandbox.allowed_domains changes nothing"
_ALL = (
    Backend("bubblewrap", ".bubblewrap_backend", linux=True),  # the default
    Backend(
        "landlock", ".landlock", "landlock cannot limit the network to domains, so commands have no network at all",
        linux=True, alternative=True, wing=True,
    ),
    Backend(
        "docker", ".docker", "containers run with --network none, so commands have no network at all", wing=True
    ),
    Backend("external", domains=_UNLIMITED.format("external")),
    Backend("none", domains=_UNLIMITED.format("none")),
)  # fmt: skip
BACKENDS = tuple(backend for backend in _ALL if not backend.wing or has_wing(backend.name))


def select_sandbox(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return the sandbox that the settings ask for, never another one.

    Raises SandboxUnavailable with what to install or set, ConfigError for a contradiction in the settings.
    """
    backend = backend_of(settings)
    if backend.linux and sys.platform != "linux":
        raise SandboxUnavailable(
            f"Commands cannot be sandboxed by {backend.name} on {sys.platform}. To run them in containers: "
            'sandbox.backend = "docker"; without any sandbox, say so: sandbox.backend = "none".'
        )
    if backend.module:
        return backend.load().select(settings, workspace)
    return NoSandbox() if backend.name == "none" else ExternalSandbox(settings.outer_walls)


def probe(settings: SandboxSettings | None = None) -> list[DoctorFinding]:
    """Return what `toolcrib doctor` shows about the sandbox in the settings, and about alternatives.

    Raises ConfigError for a contradiction in the settings.
    """
    settings = settings or SandboxSettings()
    backend = backend_of(settings)
    if backend.linux and sys.platform != "linux":
        remedy = 'sandbox.backend = "docker" uses containers, "none" runs commands without a sandbox'
        return [DoctorFinding("sandbox", False, f"not available on {sys.platform}", remedy)]
    found = backend.load().findings(settings, True) if backend.module else []
    if backend is BACKENDS[0]:
        for other in BACKENDS:
            if other.alternative:
                found += other.load().findings(settings, False)
    if backend.linux:
        found += _machine_findings()
    if settings.domains and backend.domains:
        remedy = 'sandbox.backend = "bubblewrap" can limit the network to domains'
        found.append(DoctorFinding("allowed domains", False, backend.domains, remedy, needed=False))
    return found


def _machine_findings() -> list[DoctorFinding]:
    """Report the machine features that bubblewrap and Landlock both need."""
    from . import cgroup, seccomp

    machine = seccomp.this_machine()
    remedy = "" if machine else "only x86-64 and aarch64 are known"
    groups = DoctorFinding("cgroups", True, "memory and process count of whole commands are limited", needed=False)
    if not cgroup.places():
        groups = DoctorFinding(
            "cgroups",
            False,
            "none can be made here; memory is limited for each process only",
            "start toolcrib in a systemd user session, or delegate a cgroup to it",
            needed=False,
        )
    return [DoctorFinding("seccomp", machine is not None, os.uname().machine, remedy), groups]


def backend_of(settings: SandboxSettings) -> Backend:
    """Return the backend in the settings. Raises ConfigError for an unknown backend, or a profile that it does not
    support."""
    profile, name = settings.profile, settings.backend
    known = {backend.name: backend for backend in BACKENDS}
    if profile not in get_args(Profile):
        raise ConfigError(f"sandbox.profile is {profile!r}; it can be {', '.join(get_args(Profile))}")
    if name != "auto" and name not in known:
        raise ConfigError(f"sandbox.backend is {name!r}; it can be auto, {', '.join(known)}")
    if profile == "unrestricted":
        if name not in ("auto", "none"):
            raise ConfigError(f'sandbox.profile "unrestricted" is backend "none"; it cannot be had with {name!r}')
        return known["none"]
    backend = known.get(name, BACKENDS[0])
    if profile == "read-only" and not backend.module:
        raise ConfigError(
            f'sandbox.backend "{name}" cannot keep a command from writing; profile "read-only" needs another'
        )
    return backend
