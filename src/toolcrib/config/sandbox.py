"""The `sandbox` section as the sandbox itself takes it."""

from __future__ import annotations

from pathlib import Path

from ..boundary.sandbox.spec import DockerSettings, Limits, SandboxSettings
from .settings import Settings


def sandbox_settings(settings: Settings, *hidden: Path) -> SandboxSettings:
    """The `sandbox` section as the sandbox itself takes it; `hidden` are further paths that no command may see."""
    box = settings.sandbox
    return SandboxSettings(
        backend=None if box.backend == "auto" else box.backend,
        profile=box.profile,
        network=box.network,
        effects=box.effects,
        read=tuple(box.read_roots),
        write=tuple(box.write_roots),
        hidden=(*box.hidden, *hidden),
        env=tuple(box.env),
        allow_protected=frozenset(box.allow_protected),
        loopback=box.loopback,
        outer_walls=box.outer_walls,
        docker=DockerSettings(**box.docker.model_dump()),
        limits=Limits(**box.limits.model_dump()),
    )
