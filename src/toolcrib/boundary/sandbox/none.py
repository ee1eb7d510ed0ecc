"""Backend `none`: a command runs with the rights of the host. It is used only if the settings ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..spawn import Spawn
from .settings import Profile, SandboxSettings
from .spec import DoctorFinding, Sandbox, without_domains


class NoSandbox:
    """Backend `none`, profile `unrestricted`."""

    name = "none"
    profile: Profile = "unrestricted"
    active = False
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        return Spawn(argv, str(cwd), env, outlives_thread=True)


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return the sandbox that does not confine."""
    return NoSandbox()


def findings(settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
    """Return no findings: this backend needs nothing."""
    return []


def domain_findings(settings: SandboxSettings) -> list[DoctorFinding]:
    """Report that allowed domains have no effect."""
    return [without_domains("backend none does not limit the network: sandbox.allowed_domains changes nothing")]
