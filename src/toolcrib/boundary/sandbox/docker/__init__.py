"""Backend `docker`: docker or podman runs each command in a separate container. All of the backend is in this
package."""

from __future__ import annotations

import os
from pathlib import Path

from ....core.errors import SandboxUnavailable
from ..settings import SandboxSettings
from ..spec import DoctorFinding, Sandbox, without_domains


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return a sandbox that starts containers. Raises SandboxUnavailable with what to install or set."""
    if os.name != "posix":
        raise SandboxUnavailable("Commands can be run on Linux and macOS only in this version.")
    from .detect_docker import require
    from .docker_sandbox import DockerSandbox

    return DockerSandbox(require(settings.docker), settings, workspace)


def findings(settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
    """Return which engine answers, and whether it runs a command."""
    from .detect_docker import findings as found

    return found(settings.docker)


def domain_findings(settings: SandboxSettings) -> list[DoctorFinding]:
    """Report that allowed domains have no effect: containers have no network."""
    return [without_domains("containers run with --network none, so commands have no network at all")]
