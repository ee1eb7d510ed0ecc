"""Backend `external`: we stand in somebody's sandbox already, as the user has said. No walls of our own.

A container of a build service, a virtual machine, a Kubernetes pod. Nothing here can be checked: `active` is true,
and policy relies on walls, only where the user says that the outer ones keep commands to the workspace and off the
network (`sandbox.outer_walls`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..spawn import Spawn
from .spec import Profile


class ExternalSandbox:
    """Commands run as with backend `none`; what holds them is outside."""

    name = "external"
    profile: Profile = "workspace-write"
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, outer_walls: bool) -> None:
        self.active = outer_walls

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        return Spawn(argv, str(cwd), env, outlives_thread=True)
