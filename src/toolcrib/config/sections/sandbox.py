"""Settings of the sandbox, and of the folders that tools may reach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from ...core.settings import AnyPath, Count, Seconds, Section
from ...core.tightening import Fewer, More, Only, Rank, Smaller

Backend = Literal["auto", "bubblewrap", "landlock", "docker", "external", "none"]
_GIB = 1 << 30


def _most_memory() -> float:
    from ...boundary.sandbox.cgroup import most_memory

    return most_memory()


def _processors() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class SandboxLimits(Section):
    """What one command may use: bytes, and counts."""

    # the numbers of `Limits` in boundary/sandbox/spec.py, held together by a test: loading it takes 10 ms

    address_space: Annotated[Count, Smaller()] = 64 * _GIB
    memory: Annotated[Count | None, Smaller(_most_memory)] = None
    """Of all processes of a command together. Unset: three quarters of this machine's."""
    file_size: Annotated[Count, Smaller()] = 4 * _GIB
    open_files: Annotated[Count, Smaller()] = 4096
    processes: Annotated[Count, Smaller()] = 4096
    tmp: Annotated[Count, Smaller()] = 2 * _GIB
    cores: Annotated[Count | None, Smaller(_processors)] = None
    """CPU time is the timeout times this. Unset: this machine's."""


@dataclass(frozen=True, slots=True)
class Docker(Section):
    """Backend `docker`."""

    engine: str = "docker"
    """docker, podman, or a path to one."""
    image: str | None = None
    """The image that commands run in. It must be on this machine; nothing is downloaded for a command."""
    cpus: Annotated[Seconds | None, Smaller(_processors)] = None
    """How many processors' time a command may use. Unset: those of this machine."""


@dataclass(frozen=True, slots=True)
class Sandbox(Section):
    """The walls around commands, and the directories that tools may reach."""

    backend: Annotated[Backend, Rank(("none", "external", "landlock", "auto", "bubblewrap"))] = "auto"
    """auto is bubblewrap, and nothing else where that does not work. landlock has weaker walls that need no namespaces;
    docker runs commands in containers; external says that this machine is a sandbox itself; none runs commands without
    walls. docs/sandbox.md compares them."""
    docker: Docker = Docker()
    outer_walls: Annotated[bool, Only(False)] = False
    """For external: the sandbox around us keeps commands to the workspace and off the network. Only then are commands
    allowed unasked because of it."""
    profile: Annotated[
        Literal["read-only", "workspace-write", "unrestricted"], Rank(("unrestricted", "workspace-write", "read-only"))
    ] = "workspace-write"
    """unrestricted is backend none."""
    network: Annotated[Literal["off", "proxy"], Rank(("proxy", "off"))] = "proxy"
    """off: none, whatever allowed_domains says. proxy: what allowed_domains says, through our filtering proxy."""
    allowed_domains: Annotated[tuple[str, ...], Fewer()] = ()
    """Domains that commands may reach (`pypi.org`, `*.myco.com`); without any they have no network. With bubblewrap
    only; the section web has the rules for addresses and ports."""
    effects: Annotated[Literal["direct", "review", "journal"], Rank(("direct", "journal", "review"))] = "direct"
    """What becomes of what a command changes: direct writes it at once; journal applies it when the command has ended,
    so that undo covers it; review shows it and asks first. The last two need bubblewrap 0.11 (docs/effects.md)."""
    env: Annotated[tuple[str, ...], Fewer()] = ()
    """Names of environment variables that commands get beside the harmless ones. This is how a secret is granted."""
    allow_protected: Annotated[tuple[str, ...], Fewer()] = ()
    """Protected names (`.git/config`) that commands may change; `*` for all."""
    read_roots: Annotated[tuple[AnyPath, ...], Fewer()] = ()
    """Further directories that file tools and commands may read."""
    write_roots: Annotated[tuple[AnyPath, ...], Fewer()] = ()
    """Further directories that file tools and commands may change."""
    hidden: Annotated[tuple[AnyPath, ...], More()] = ()
    """Paths that commands do not see, even inside the workspace."""
    loopback: Annotated[bool, Only(False)] = False
    """TCP and UDP between the processes of one command."""
    limits: SandboxLimits = SandboxLimits()
