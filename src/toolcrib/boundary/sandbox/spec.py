"""What a sandbox is: settings, the one-method interface of a backend, and what a probe finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ..spawn import Spawn

if TYPE_CHECKING:
    from ..network.address_guard import AddressGuard
    from .protected_paths import ProtectedPaths

Profile = Literal["read-only", "workspace-write", "unrestricted"]

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What one command may use. Resource limits hold for each process, those of `cgroup`s for the whole tree.

    `address_space` is virtual memory: V8 and the JVM reserve far more than they use, hence the generous default
    (WebAssembly in node fails under 16 GiB, measured with node 20).
    """

    address_space: int = 64 * GIB
    memory: int | None = None  # of the whole tree; None for three quarters of this machine's
    file_size: int = 4 * GIB
    open_files: int = 4096
    processes: int = 4096
    tmp: int = 2 * GIB
    cores: int | None = None  # of the CPU time limit, timeout × cores; None for those of this machine


@dataclass(frozen=True, slots=True)
class DockerSettings:
    """What backend `docker` runs: an `engine` (docker, podman, or a path) and an `image` that is on this machine.

    `cpus` is how many processors' time a command may use; None for those of this machine.
    """

    engine: str = "docker"
    image: str | None = None
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """How commands are confined.

    `backend` None means the default of the platform. `read` and `write` are further paths a command may reach,
    `env` names of host variables that are handed in, `allow_protected` protected names (".git/config", or
    "*" for all) that commands may change. `loopback` allows TCP and UDP inside the sandbox's own network, which
    has nothing but a loopback interface. `hidden` are paths that are masked even inside the workspace.
    `domains` are what commands may reach through our proxy (patterns as `domain_pattern` writes them; none: no
    network), `guard` judges their addresses.
    `trials` is a private folder, hidden from commands, where a backend may remember that it works here.
    `outer_walls` is the user's word on the sandbox that backend `external` stands in: that it lets commands change
    the workspace only, and reach no network.
    """

    backend: str | None = None
    profile: Profile | None = None
    domains: tuple[str, ...] = ()
    guard: AddressGuard | None = None
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    allow_protected: frozenset[str] = frozenset()
    loopback: bool = False
    outer_walls: bool = False
    docker: DockerSettings = field(default_factory=DockerSettings)
    limits: CommandLimits = field(default_factory=CommandLimits)
    trials: Path | None = None


class Sandbox(Protocol):
    """Turns a command into one that runs inside walls."""

    @property
    def name(self) -> str:
        """The backend: "bubblewrap", "landlock", "docker", "external", "none"."""
        ...

    @property
    def profile(self) -> Profile: ...

    @property
    def active(self) -> bool:
        """Whether walls stand that keep a command to the workspace and off the network, but for `domains`. Policy
        relies on them where this is true."""
        ...

    @property
    def domains(self) -> tuple[str, ...]:
        """What commands can reach through our proxy; none where there is no such proxy, whatever the settings say."""
        ...

    @property
    def fresh_folders(self) -> tuple[str, ...]:
        """Folders that every command finds new and empty, and that go with it: what it does there is its own affair.
        The judgement of commands relies on them."""
        ...

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """What to start instead of `argv`. `timeout` None is a command without end (a session)."""
        ...


class WriteLayer(Protocol):
    """Folders laid over those that a command may change: they take what the command writes."""

    protected: Sequence[ProtectedPaths]
    """What is protected in each root. `wrap` sets it."""

    def arguments(self) -> list[str]:
        """Bubblewrap's arguments that lay it over its roots."""
        ...

    def remove(self) -> None:
        """Drop it, with everything in it."""
        ...


@runtime_checkable
class OverlaySandbox(Protocol):
    """A sandbox that can run a command over a layer, so that the folders that the command may change stay the same."""

    def layer_roots(self) -> list[Path]:
        """The folders to lay the layer over; empty where commands may change none. Raises SandboxUnavailable with the
        reason where that is impossible."""
        ...

    def wrap(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None,
        layer: WriteLayer | None = None,
    ) -> Spawn:  # fmt: skip
        """As `Sandbox.wrap`; what the command writes goes to the layer, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that a probe looked at: whether it is as it should be and, if not, what to do about it."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    needed: bool = True  # False: good to have


def without_domains(detail: str) -> DoctorFinding:
    """For backends that cannot limit the network to `sandbox.allowed_domains`."""
    remedy = 'sandbox.backend = "bubblewrap" can limit the network to domains'
    return DoctorFinding("allowed domains", False, detail, remedy, needed=False)
