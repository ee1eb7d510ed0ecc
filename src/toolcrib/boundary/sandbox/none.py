"""No walls: a command runs as the host does. Never chosen by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..spawn import Spawn
from .spec import Profile


class NoSandbox:
    """Backend `none`, profile `unrestricted`."""

    name = "none"
    profile: Profile = "unrestricted"
    active = False
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        return Spawn(argv, str(cwd), env, outlives_thread=True)
