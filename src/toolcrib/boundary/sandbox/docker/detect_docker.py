"""Check that the container engine in the settings runs a command here. Checked once per process, engine and image."""

from __future__ import annotations

import functools

from ....core.errors import SandboxUnavailable
from ..remedies import engine_remedy
from ..settings import DockerSettings, SandboxSettings
from ..spec import DoctorFinding
from ..trial import try_run
from .container_engine import ContainerEngine, check_image, find_engine
from .docker_sandbox import DockerSandbox


def require(settings: DockerSettings) -> ContainerEngine:
    """Return the engine after a real run has worked. Raises SandboxUnavailable with the reason and the remedy."""
    engine = find_engine(settings.engine)
    if settings.image:
        check_image(engine, settings.image)
        _run(engine, settings)
    return engine


def findings(settings: DockerSettings) -> list[DoctorFinding]:
    """Return which engine answers, and whether it runs a command."""
    try:
        engine = require(settings)
    except SandboxUnavailable as error:
        what, _, help_ = str(error).partition("\n")
        return [DoctorFinding("docker", False, what, help_)]
    detail = f"{engine.label} ({engine.program})"
    if not settings.image:
        return [
            DoctorFinding("docker", False, f"{detail}; no image is set", 'sandbox.docker.image = "python:3.12-slim"')
        ]
    return [DoctorFinding("docker", True, f"{detail}, image {settings.image}; a real run works")]


@functools.cache  # only successes are cached: a failure is tried again
def _run(engine: ContainerEngine, settings: DockerSettings) -> None:
    if found := try_run(lambda folder: DockerSandbox(engine, SandboxSettings(docker=settings), folder)):
        text = f"{engine.label} runs no command here, so commands are refused. {found} {engine_remedy(found)}"
        raise SandboxUnavailable(text.strip())
