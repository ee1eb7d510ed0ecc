"""Backend `external`: Toolcrib runs in a sandbox already, as the user has said. It adds none of its own.

A container of a build service, a virtual machine, a Kubernetes pod. Nothing here can be checked. So `active` is true,
and policy relies on the sandbox, only where the user says that it keeps commands to the workspace and off the network
(`sandbox.outer_walls`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..spawn import Spawn
from .settings import Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox, without_domains


class ExternalSandbox:
    """Commands run as with backend `none`; what confines them is outside."""

    name = "external"
    profile: Profile = "workspace-write"
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, outer_walls: bool) -> None:
        self.active = outer_walls

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        return Spawn(argv, str(cwd), env, outlives_thread=True)


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """The sandbox that is outside."""
    return ExternalSandbox(settings.outer_walls)


def findings(settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
    """Nothing: it cannot be looked at from here."""
    return []


def domain_findings(settings: SandboxSettings) -> list[DoctorFinding]:
    """They change nothing."""
    return [without_domains("backend external does not limit the network: sandbox.allowed_domains changes nothing")]
