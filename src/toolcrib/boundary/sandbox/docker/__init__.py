"""Backend `docker`: docker or podman runs each command in a separate container. All of the backend is in this package;
here it is checked that the engine in the settings runs a command, once per process, engine and image."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ....core.errors import SandboxUnavailable
from ..remedies import engine_remedy
from ..settings import DockerSettings, SandboxSettings
from ..spec import DoctorFinding, Sandbox
from ..trial import try_run
from .container_engine import ContainerEngine, check_image, find_engine
from .docker_sandbox import DockerSandbox


def select(settings: SandboxSettings, workspace: Path) -> Sandbox:
    """Return a sandbox that starts containers. Raises SandboxUnavailable with what to install or set."""
    if os.name != "posix":
        raise SandboxUnavailable("Commands can be run on Linux and macOS only in this version.")
    engine = _require(settings.docker, settings.writable(workspace))
    return DockerSandbox(engine, settings, workspace)


def findings(settings: SandboxSettings, workspace: Path, needed: bool) -> list[DoctorFinding]:
    """Return which engine answers, and whether it runs a command."""
    try:
        engine = _require(settings.docker, settings.writable(workspace))
    except SandboxUnavailable as error:
        what, _, help_ = str(error).partition("\n")
        return [DoctorFinding("docker", False, what, help_)]
    detail = f"{engine.label} ({engine.program})"
    image = settings.docker.image
    if not image:
        return [
            DoctorFinding("docker", False, f"{detail}; no image is set", 'sandbox.docker.image = "python:3.12-slim"')
        ]
    return [DoctorFinding("docker", True, f"{detail}, image {image}; a real run works")]


def _require(settings: DockerSettings, writable: tuple[str, ...]) -> ContainerEngine:
    """Return the engine after a real run has worked. Raises SandboxUnavailable with the reason and the remedy."""
    engine = find_engine(settings.engine, writable)
    if settings.image:
        check_image(engine, settings.image)
        _run(engine, settings)
    return engine


@functools.cache  # only successes are cached: a failure is tried again
def _run(engine: ContainerEngine, settings: DockerSettings) -> None:
    if found := try_run(lambda folder: DockerSandbox(engine, SandboxSettings(docker=settings), folder)):
        text = f"{engine.label} runs no command here, so commands are refused. {found} {engine_remedy(found)}"
        raise SandboxUnavailable(text.strip())
