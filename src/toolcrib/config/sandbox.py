"""The `sandbox` section as the sandbox itself takes it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..boundary.sandbox.spec import CommandLimits, DockerSettings, SandboxSettings
from .settings import Settings

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard


def sandbox_settings(settings: Settings, *hidden: Path, trials: Path | None = None) -> SandboxSettings:
    """The `sandbox` section as the sandbox itself takes it; `hidden` are further paths that no command may see.

    `trials` is where a backend remembers that it works here. Raises ConfigError.
    """
    box = settings.sandbox
    domains = _domains(settings)
    return SandboxSettings(
        backend=None if box.backend == "auto" else box.backend,
        profile=box.profile,
        domains=domains,
        guard=_guard(settings) if domains else None,
        read=tuple(box.read_roots),
        write=tuple(box.write_roots),
        hidden=(*box.hidden, *hidden),
        env=tuple(box.env),
        allow_protected=frozenset(box.allow_protected),
        loopback=box.loopback,
        outer_walls=box.outer_walls,
        docker=DockerSettings(**asdict(box.docker)),
        limits=CommandLimits(**asdict(box.limits)),
        trials=trials,
    )


def _domains(settings: Settings) -> tuple[str, ...]:
    """What commands may reach. ConfigError for an entry that is no domain."""
    box = settings.sandbox
    if box.network == "off" or not box.allowed_domains:
        return ()
    from ..boundary.network.host_grants import domain_pattern

    return tuple(domain_pattern(each, "sandbox.allowed_domains") for each in box.allowed_domains)


def _guard(settings: Settings) -> AddressGuard:
    """The guard of every other request, too: section `web`."""
    from ..boundary.network.address_guard import AddressGuard
    from .network import guard_settings

    return AddressGuard(guard_settings(settings))
