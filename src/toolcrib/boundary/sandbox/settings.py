"""The settings of the sandbox, and of the folders that tools may reach."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from ...core.dataclass import dataclass
from ...core.settings import AnyPath, Count, NotASetting, Seconds, Section
from ...core.tightening import Fewer, More, Only, Rank, Smaller
from ..host_file import HostFile
from ..network.settings import Domain
from ..programs import followed
from ..proxy.egress_secret import EgressSecret
from ..real_path import real_path
from ..workspace_paths import WHOLE_MACHINE

Denied = Callable[[Literal["Read", "Edit"]], Callable[[str], bool] | None]
Backend = Literal["auto", "bubblewrap", "landlock", "docker", "external", "none"]
Profile = Literal["read-only", "workspace-write", "unrestricted"]

_GIB = 1 << 30


def most_memory() -> int:
    """Return three quarters of this machine's memory. The rest is for us and the other programs."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


def _processors() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class CommandLimits(Section):
    """Limits for one command, in bytes and numbers."""

    # V8 and the JVM reserve far more than they use: WebAssembly in node fails under 16 GiB, measured with node 20
    address_space: Annotated[Count, Smaller()] = 64 * _GIB
    """Virtual memory of one process."""
    memory: Annotated[Count | None, Smaller(most_memory)] = None
    """Memory of all processes of a command together. Unset: three quarters of this machine's."""
    file_size: Annotated[Count, Smaller()] = 4 * _GIB
    open_files: Annotated[Count, Smaller()] = 4096
    processes: Annotated[Count, Smaller()] = 4096
    tmp: Annotated[Count, Smaller()] = 2 * _GIB
    cores: Annotated[Count | None, Smaller(_processors)] = None
    """CPU time is the timeout times this. Unset: this machine's."""


@dataclass(frozen=True, slots=True)
class DockerSettings(Section):
    """Backend `docker`."""

    engine: str = "docker"
    """docker, podman, or a path to one."""
    image: str | None = None
    """The image that commands run in. It must be on this machine; nothing is downloaded for a command."""
    cpus: Annotated[Seconds | None, Smaller(_processors)] = None
    """The number of processors that a command may use. Unset: all of this machine."""


@dataclass(frozen=True, slots=True)
class SandboxSettings(Section):
    """The sandbox of commands, and the directories that tools may reach."""

    backend: Annotated[Backend, Rank(("none", "external", "landlock", "auto", "bubblewrap"))] = "auto"
    """auto is bubblewrap, and nothing else where that does not work. landlock is weaker and needs no namespaces;
    docker runs commands in containers; external says that this machine is a sandbox itself; none runs commands without
    a sandbox. docs/sandbox.md compares them."""
    docker: DockerSettings = DockerSettings()
    outer_walls: Annotated[bool, Only(False)] = False
    """For external: the sandbox around us keeps commands to the workspace and off the network. Only then are commands
    allowed unasked because of it."""
    profile: Annotated[Profile, Rank(("unrestricted", "workspace-write", "read-only"))] = "workspace-write"
    """unrestricted is backend none."""
    network: Annotated[Literal["off", "proxy"], Rank(("proxy", "off"))] = "proxy"
    """off: no network, even if allowed_domains is set. proxy: the domains of allowed_domains, through our proxy."""
    allowed_domains: Annotated[tuple[Domain, ...], Fewer()] = ()
    """Domains that commands may reach (`pypi.org`, `*.myco.com`); without any they have no network. With bubblewrap
    only; the section web has the rules for addresses and ports."""
    effects: Annotated[Literal["direct", "review", "journal"], Rank(("direct", "journal", "review"))] = "direct"
    """What happens to a command's changes: direct writes it at once; journal applies it when the command has ended,
    so that undo covers it; review shows it and asks first. The last two need bubblewrap 0.11 (docs/effects.md)."""
    env: Annotated[tuple[str, ...], Fewer()] = ()
    """Names of environment variables that commands get besides the harmless ones. This is how a secret is granted."""
    allow_protected: Annotated[tuple[str, ...], Fewer()] = ()
    """Protected names (`.git/config`) that commands may change; `*` for all."""
    read_roots: tuple[AnyPath, ...] = ()
    """Further directories, and single files, that file tools and commands may read. One in a folder that they may
    change is read-only, so it takes a trusted file to leave one out."""
    write_roots: tuple[AnyPath, ...] = ()
    """Further directories that file tools and commands may change. What Toolcrib runs or trusts in them is protected,
    so it takes a trusted file to leave one out."""
    hidden: Annotated[tuple[AnyPath, ...], More()] = ()
    """Paths that commands do not see, even inside the workspace."""
    loopback: Annotated[bool, Only(False)] = False
    """TCP and UDP between the processes of one command."""
    limits: CommandLimits = CommandLimits()

    guard: Annotated[Any, NotASetting()] = None
    """The AddressGuard that judges the addresses that commands reach, or a function that returns it; None for one that
    passes public addresses alone."""
    opened: Annotated[tuple[str, ...], NotASetting()] = ()
    """The hosts that were opened to one command, each as `host:port`."""
    egress: Annotated[tuple[EgressSecret, ...], NotASetting()] = ()
    """The secrets that the proxy puts into requests of one command."""
    host_files: Annotated[tuple[HostFile, ...], NotASetting()] = ()
    """Files that the host runs, besides our own environment: commands cannot change them."""
    host_files_writable: Annotated[frozenset[str], NotASetting()] = frozenset()
    """The paths of files that the host runs, and that a command may change all the same: a person approved it."""
    denied: Annotated[Denied | None, NotASetting()] = None
    """`denied("Read")` returns a function that says which paths rules deny to read: commands cannot read them either.
    `denied("Edit")`: which they cannot change."""
    only_reads: Annotated[bool, NotASetting()] = False
    """Whether this is for commands that are allowed because they only read: they get no sockets, and no files whose
    names mean secrets."""
    elsewhere: Annotated[bool, NotASetting()] = False
    """Whether another program runs the commands: then no wall of ours is around them."""
    trials: Annotated[Path | None, NotASetting()] = None
    """A private folder, hidden from commands, where a backend may remember that it works here."""

    def writable(self, workspace: Path) -> tuple[str, ...]:
        """Return the folders that tools may write. The host runs no program that lies in them."""
        own = () if str(workspace) == WHOLE_MACHINE else (str(workspace),)
        return (*own, *map(str, self.write_roots))

    def beside(self, paths: Iterable[Path], workspace: Path) -> list[Path]:
        """Return those granted paths that lie in no writable folder, nor lead through one. The others are there with
        that folder, and tools could put a link in the place of one."""
        inside = tuple(f"{name}/" for root in self.writable(workspace) for name in (root, real_path(root)))
        return [path for path in paths if not any(name.startswith(inside) for name in (str(path), *followed(path)))]

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the domains that commands may reach; empty if the network is off."""
        return () if self.network == "off" else self.allowed_domains
