"""Confine commands. Each backend is a line here, and one of them is selected by the settings. The backends that do not
confine commands are here; each other one is a module or package."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast, get_args

from ...core.dataclass import dataclass
from ...core.errors import ConfigError, SandboxUnavailable
from ...core.wings import has_wing
from ..spawn import Spawn
from .settings import CommandLimits, DockerSettings, Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox

__all__ = [
    "CommandLimits", "DockerSettings", "DoctorFinding", "NoSandbox", "Profile", "Sandbox", "SandboxSettings", "probe",
    "select_closed", "select_for_changing", "select_for_reading", "select_sandbox",
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

    def findings(self, settings: SandboxSettings, workspace: Path, needed: bool) -> list[DoctorFinding]:
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


def select_for_reading(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return the sandbox of commands that are allowed because they only read: they change nothing and have no network.

    Raises SandboxUnavailable if this machine or backend has none, ConfigError for a contradiction in the settings.
    """
    settings = replace(settings, allowed_domains=(), loopback=False, only_reads=True)
    if backend_of(settings).module:
        return select_sandbox(replace(settings, profile="read-only"), workspace)
    return _wall(replace(settings, profile="read-only"), workspace)


def select_for_changing(settings: SandboxSettings, workspace: Path, plain: Sandbox) -> Sandbox:
    """Return the sandbox of commands that are allowed because they change nothing but the workspace: `plain`, the one
    of the settings without any network, if it is active; with backend `none` they get Landlock's. Raises
    SandboxUnavailable if this machine has none, or the settings name an outer sandbox: whether that is enough is the
    user's to say."""
    if plain.active:
        return select_sandbox(replace(settings, allowed_domains=()), workspace) if plain.domains else plain
    if plain.name == ExternalSandbox.name:
        raise SandboxUnavailable("sandbox.outer_walls does not say that the sandbox around us keeps commands in")
    return _wall(replace(settings, allowed_domains=(), loopback=False, profile="workspace-write"), workspace)


def _wall(settings: SandboxSettings, workspace: Path) -> Sandbox:
    if settings.elsewhere:
        raise SandboxUnavailable("another program runs the command, with its own rights")
    if sys.platform != "linux" or not has_wing("landlock"):
        raise SandboxUnavailable("without a sandbox, only Landlock can keep a command from writing")
    from . import landlock

    return landlock.select(settings, workspace)


def select_closed(settings: SandboxSettings, plain: Sandbox) -> Sandbox:
    """Return the sandbox of commands that nobody approved, for a backend whose sandbox is `plain`: our own state and
    settings are closed to them. An active sandbox does so itself; without Landlock there is no such wall."""
    if plain.active or sys.platform != "linux" or not has_wing("landlock"):
        return plain
    from .landlock import doors_wall

    with contextlib.suppress(SandboxUnavailable):
        return doors_wall(settings, plain.name, plain.profile)
    return plain


def probe(settings: SandboxSettings | None = None, workspace: Path | None = None) -> list[DoctorFinding]:
    """Return what `toolcrib doctor` shows about the sandbox in the settings, and about alternatives. `workspace` is the
    current folder by default.

    Raises ConfigError for a contradiction in the settings.
    """
    settings, workspace = settings or SandboxSettings(), workspace or Path.cwd()
    backend = backend_of(settings)
    if backend.linux and sys.platform != "linux":
        remedy = 'sandbox.backend = "docker" uses containers, "none" runs commands without a sandbox'
        return [DoctorFinding("sandbox", False, f"not available on {sys.platform}", remedy)]
    found = backend.load().findings(settings, workspace, True) if backend.module else []
    if backend is BACKENDS[0]:
        for other in BACKENDS:
            if other.alternative:
                found += other.load().findings(settings, workspace, False)
    if backend.linux:
        found += _machine_findings()
    if not backend.module:
        found.append(_walls_finding(settings, workspace))
    if settings.domains and backend.domains:
        remedy = 'sandbox.backend = "bubblewrap" can limit the network to domains'
        found.append(DoctorFinding("allowed domains", False, backend.domains, remedy, needed=False))
    return found


def _walls_finding(settings: SandboxSettings, workspace: Path) -> DoctorFinding:
    """Report what commands cannot do without a sandbox, and what nothing prevents."""
    open_doors = "A command that you approve can do all that you can, also answer Toolcrib's questions and change rules"
    try:
        select_for_reading(settings, workspace)
    except SandboxUnavailable as error:
        detail = f"none: {error}. What is allowed unasked can do the same. {open_doors}"
        remedy = "a kernel with Landlock (Linux 5.19 or newer), or a sandbox"
        return DoctorFinding("walls", False, detail, remedy, needed=False)
    detail = (
        "Landlock restricts commands that run unasked to reading, or to the workspace, and hides Toolcrib's own files "
        "from commands that nobody approved"
    )
    lacking = _lacks_walls()
    return DoctorFinding("walls", not lacking, f"{detail}{lacking}. {open_doors}", "a newer kernel", needed=False)


def _lacks_walls() -> str:
    from ..landlock_calls import ABI_REFER, ABI_SCOPES, landlock_abi

    if landlock_abi() < ABI_REFER:
        return "; but not here: Toolcrib's own files are open to every command (Linux 5.19)"
    if landlock_abi() < ABI_SCOPES:
        return "; but they can signal your other processes (Linux 6.12)"
    return ""


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
