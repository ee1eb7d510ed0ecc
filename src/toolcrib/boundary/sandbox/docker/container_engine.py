"""Find the container engine that answers here, and its arguments. It is looked up once per process and image."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import subprocess
from pathlib import Path

from ....core.dataclass import dataclass
from ....core.errors import SandboxUnavailable
from ...process_tree import began
from ...programs import host_environment, look_up
from ..remedies import ENGINE_DOWN, NO_ENGINE, explain_engine

LABEL = "toolcrib.owner"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """A docker or podman that answers. `arguments` are the special arguments for its kind."""

    program: str
    label: str
    arguments: tuple[str, ...]


def find_engine(name: str, writable: tuple[str, ...] = ()) -> ContainerEngine:
    """Return the engine of that name. Raises SandboxUnavailable if it is missing, if it lies where tools (`writable`)
    or other users may write, or if it does not answer."""
    found = dict(look_up(name, writable))
    program = next((path for path, doubt in found.items() if doubt is None), None)
    if program is None:
        why = "; ".join(f"{path} is not used: {doubt}" for path, doubt in found.items())
        why = why or f"there is no {name!r} on this machine"
        raise SandboxUnavailable(f"Commands are refused: {why}. {NO_ENGINE}")
    return _ask(program)


@functools.cache
def _ask(program: str) -> ContainerEngine:
    version = _say(program, "--version")
    podman = "podman" in version.lower()
    if podman:
        rootless = _say(program, "info", "--format", "{{.Host.Security.Rootless}}").strip() == "true"
    else:
        rootless = "rootless" in _say(program, "info", "--format", "{{json .SecurityOptions}}")
    found = ContainerEngine(program, version.strip(), (*_user(podman, rootless), *_selinux()))
    _remove_stale(program)
    return found


def check_image(engine: ContainerEngine, image: str) -> None:
    """Check that the image is on this machine. Raises SandboxUnavailable if it is not."""
    try:
        _say(engine.program, "image", "inspect", "--format", "{{.Id}}", image)
    except SandboxUnavailable:
        raise SandboxUnavailable(
            f"The image {image!r} is not on this machine, and nothing is downloaded for a command: "
            f"`{os.path.basename(engine.program)} pull {image}`, or set another, sandbox.docker.image."
        ) from None


def owner() -> str:
    """Return which process a container belongs to: boot, pid and start time, so that a later process is not mistaken
    for it."""
    return f"{_boot()}-{os.getpid()}-{began(os.getpid())}"


def _say(program: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False, env=host_environment()
        )
    except subprocess.TimeoutExpired:
        raise SandboxUnavailable(f"{program} did not answer within {_SECONDS:.0f} s. {ENGINE_DOWN}") from None
    except OSError as error:
        raise SandboxUnavailable(f"{program} cannot be run: {error.strerror or error}. {NO_ENGINE}") from None
    if done.returncode:
        raise SandboxUnavailable(explain_engine(done.stderr or done.stdout))
    return done.stdout


def _user(podman: bool, rootless: bool) -> tuple[str, ...]:
    """Return the user arguments: files in the workspace should belong to the user who runs us."""
    ids = f"{os.getuid()}:{os.getgid()}"
    if not rootless:
        return ("--user", ids)
    if podman:
        return ("--userns", "keep-id", "--user", ids)
    return ("--user", "0:0")  # rootless Docker: root inside is the user who runs the engine


def _selinux() -> tuple[str, ...]:
    """Return the SELinux arguments. Where SELinux is enforced, a container cannot read folders without its label; we
    do not relabel them."""
    with contextlib.suppress(OSError):
        if Path("/sys/fs/selinux/enforce").read_text().strip() == "1":
            return ("--security-opt", "label=disable")
    return ()


def _remove_stale(program: str) -> None:
    """Remove containers of processes that were killed before they could end them."""
    with contextlib.suppress(SandboxUnavailable, ValueError):
        ids = _say(program, "ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
        if not ids:
            return
        shape = f'{{{{.Id}}}} {{{{index .Config.Labels "{LABEL}"}}}}'
        for line in _say(program, "inspect", "--format", shape, *ids).splitlines():
            container, _, label = line.partition(" ")
            boot, pid, started = label.rsplit("-", 2)
            if boot == _boot() and str(began(int(pid))) != started:
                _say(program, "rm", "--force", container)


@functools.cache
def _boot() -> str:
    """Identify the current boot of this machine and the namespace of process numbers."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    return secrets.token_hex(16)  # then containers of other owners are never removed
