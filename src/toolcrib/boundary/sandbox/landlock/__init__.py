"""Backend `landlock`: rules for files, a seccomp filter and limits, without namespaces. All of it is in this
package."""

from __future__ import annotations

from pathlib import Path

from ..settings import SandboxSettings
from ..spec import DoctorFinding, Sandbox, without_domains


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return a sandbox with Landlock's rules. Raises SandboxUnavailable with what to install or set."""
    from .detect_landlock import require

    require()
    from .landlock_sandbox import LandlockSandbox

    return LandlockSandbox(settings, workspace)


def findings(settings: SandboxSettings, needed: bool) -> list[DoctorFinding]:
    """Return the features of this kernel, and whether a command runs."""
    from .detect_landlock import findings as found

    return found(needed)


def domain_findings(settings: SandboxSettings) -> list[DoctorFinding]:
    """Report that allowed domains have no effect: commands have no network."""
    return [without_domains("landlock cannot limit the network to domains, so commands have no network at all")]
