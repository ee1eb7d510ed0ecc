"""Ways to run a command inside walls."""

from __future__ import annotations

import sys
from pathlib import Path

from ...core.errors import ConfigError, SandboxUnavailable
from .none import NoSandbox
from .spec import Finding, Limits, Profile, Sandbox, SandboxSettings

__all__ = ["Finding", "Limits", "NoSandbox", "Profile", "Sandbox", "SandboxSettings", "probe", "select_sandbox"]

_PROFILES = ("read-only", "workspace-write", "unrestricted")


def select_sandbox(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """The sandbox that was asked for, never another. Raises SandboxUnavailable with what to install or set."""
    if settings.profile not in (None, *_PROFILES):
        raise ConfigError(f"sandbox.profile is {settings.profile!r}; it can be {', '.join(_PROFILES)}")
    _refuse_later("network", settings.network, "off")
    _refuse_later("effects", settings.effects, "direct")
    backend = settings.backend
    if settings.profile == "unrestricted":
        if backend not in (None, "none"):
            raise ConfigError(f'sandbox.profile "unrestricted" is backend "none"; it cannot be had with {backend!r}')
        backend = "none"
    if backend == "none":
        if settings.profile == "read-only":
            raise ConfigError(
                'sandbox.backend "none" cannot keep a command from writing; profile "read-only" needs a sandbox'
            )
        return NoSandbox()
    if backend not in (None, "bubblewrap"):
        _refuse_later("backend", backend, '"bubblewrap" and "none"')
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"Commands cannot be sandboxed on {sys.platform} in this version. To run them without any sandbox, say "
            'so: sandbox.backend = "none".'
        )
    from .detect import find  # it needs modules that only Linux has

    program = find()
    from .bubblewrap import Bubblewrap

    return Bubblewrap(program, settings, workspace)


def probe() -> list[Finding]:
    """What `toolcrib doctor` shows about the sandbox."""
    if sys.platform != "linux":
        remedy = 'sandbox.backend = "none" runs commands without a sandbox'
        return [Finding("sandbox", False, f"not available on {sys.platform} in this version", remedy)]
    from .detect import findings

    return findings()


def _refuse_later(key: str, value: str, known: str) -> None:
    if value != known:
        raise SandboxUnavailable(
            f"sandbox.{key} = {value!r} is not in this version, which has {known}. Until then commands are refused."
        )
