"""List the backends that confine commands, a line for each, and select the one in the settings."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast, get_args

from ...core.errors import ConfigError, SandboxUnavailable
from ...core.wings import has_wing
from .settings import Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox


class BackendModule(Protocol):
    """The interface of a backend's module."""

    def select(self, settings: SandboxSettings, workspace: Path) -> Sandbox:
        """Return a sandbox around a workspace. Raises SandboxUnavailable with what to install or set."""
        ...

    def findings(self, settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
        """Return what `toolcrib doctor` shows. `needed` means that the settings ask for this backend."""
        ...

    def domain_findings(self, settings: SandboxSettings) -> list[DoctorFinding]:
        """Return what `toolcrib doctor` shows about `sandbox.allowed_domains`, if any are set."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to confine commands. `confines`: it can prevent a command from writing. `alternative`: doctor also
    shows it where the default is used. `linux`: it needs Linux. `wing`: it is a separate wing with its own name."""

    name: str
    module: str
    confines: bool = True
    alternative: bool = False
    linux: bool = False
    wing: bool = False

    def load(self) -> BackendModule:
        """Import and return the backend's module."""
        return cast("BackendModule", importlib.import_module(self.module, __package__))


_ALL = (
    Backend("bubblewrap", ".bubblewrap_backend", linux=True),  # the default
    Backend("landlock", ".landlock", linux=True, alternative=True, wing=True),
    Backend("docker", ".docker", wing=True),
    Backend("external", ".external", confines=False),
    Backend("none", ".none", confines=False),
)
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
    return backend.load().select(settings, workspace)


def probe(settings: SandboxSettings | None = None) -> list[DoctorFinding]:
    """Return what `toolcrib doctor` shows about the sandbox in the settings, and about alternatives.

    Raises ConfigError for a contradiction in the settings.
    """
    settings = settings or SandboxSettings()
    backend = backend_of(settings)
    if backend.linux and sys.platform != "linux":
        remedy = 'sandbox.backend = "docker" uses containers, "none" runs commands without a sandbox'
        return [DoctorFinding("sandbox", False, f"not available on {sys.platform}", remedy)]
    found = backend.load().findings(settings, True)
    if backend is BACKENDS[0]:
        for other in BACKENDS:
            if other.alternative:
                found += other.load().findings(settings, False)
    if backend.linux:
        from .trial import machine_findings

        found += machine_findings()
    return [*found, *(backend.load().domain_findings(settings) if settings.domains else [])]


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
    if profile == "read-only" and not backend.confines:
        raise ConfigError(
            f'sandbox.backend "{name}" cannot keep a command from writing; profile "read-only" needs another'
        )
    return backend
