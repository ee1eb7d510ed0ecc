"""Backend `external`: the user says that Toolcrib already runs in a sandbox. This backend adds none.

The sandbox is a container of a build service, a virtual machine or a Kubernetes pod. We cannot check it from here. So
`active` is true, and policy relies on the sandbox, only if the user says that it confines commands to the workspace and
keeps them off the network (`sandbox.outer_walls`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..spawn import Spawn
from .settings import Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox, without_domains


class ExternalSandbox:
    """A sandbox that runs commands as backend `none` does; the confinement is outside."""

    name = "external"
    profile: Profile = "workspace-write"
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, outer_walls: bool) -> None:
        self.active = outer_walls

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        return Spawn(argv, str(cwd), env, outlives_thread=True)


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return the outer sandbox."""
    return ExternalSandbox(settings.outer_walls)


def findings(settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
    """Return no findings: the outer sandbox cannot be checked from here."""
    return []


def domain_findings(settings: SandboxSettings) -> list[DoctorFinding]:
    """Report that allowed domains have no effect."""
    return [without_domains("backend external does not limit the network: sandbox.allowed_domains changes nothing")]
