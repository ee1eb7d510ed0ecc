"""The interface of a sandbox backend, with one method; a sandbox that is chosen later; and the findings of a probe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ...core.dataclass import dataclass
from ...core.errors import SandboxUnavailable
from ..spawn import Spawn
from .settings import Profile

if TYPE_CHECKING:
    from ...core.context import Wall
    from ..proxy.egress_secret import EgressSecret
    from .protected_paths import ProtectedPaths


class Sandbox(Protocol):
    """A sandbox turns a command into one that runs confined."""

    @property
    def name(self) -> str:
        """Return the backend: "bubblewrap", "landlock", "docker", "external", "none"."""
        ...

    @property
    def profile(self) -> Profile: ...

    @property
    def active(self) -> bool:
        """Return whether a command is confined to the workspace and has no network, except for `domains`. Policy
        relies on the confinement if this is true."""
        ...

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the domains that commands can reach through our proxy; empty without a proxy, whatever the settings
        say."""
        ...

    @property
    def fresh_folders(self) -> tuple[str, ...]:
        """Return folders that every command finds new and empty, and that are removed with it: changes there affect
        no one else. The judgement of commands relies on them."""
        ...

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """Return what to start instead of `argv`. `timeout` None is for a command without a time limit (a session)."""
        ...


class WriteLayer(Protocol):
    """Folders that are laid over those that a command may change: they take the command's writes."""

    protected: Sequence[ProtectedPaths]
    """The protected paths of each root. `wrap` sets it."""

    def arguments(self) -> list[str]:
        """Return bubblewrap's arguments that lay it over its roots."""
        ...

    def remove(self) -> None:
        """Remove it, with everything in it."""


@runtime_checkable
class OverlaySandbox(Protocol):
    """A sandbox that can run a command over a layer, so that the folders that the command may change stay the same."""

    def layer_roots(self) -> list[Path]:
        """Return the folders to lay the layer over; empty if commands may not change any. Raises SandboxUnavailable
        with the reason if that is impossible."""
        ...

    def wrap(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None,
        layer: WriteLayer | None = None,
    ) -> Spawn:  # fmt: skip
        """Do the same as `Sandbox.wrap`; the command's writes go to the layer, if there is one."""
        ...


@runtime_checkable
class HostOpener(Protocol):
    """A sandbox that can give single commands a network to certain hosts."""

    @property
    def opens_hosts(self) -> bool:
        """Return whether the settings leave commands any network."""
        ...

    def refusal(self, host: str) -> str:
        """Return why the settings keep this host (`host:port`) closed to every command; "" if they do not."""
        ...

    def opening(self, hosts: tuple[str, ...], egress: tuple[EgressSecret, ...] = ()) -> Sandbox:
        """Return this sandbox for a command that may also reach these hosts, each as `host:port`, and into whose
        requests the proxy puts these secrets."""
        ...


class LazySandbox:
    """An object that chooses a sandbox at the first use and remembers it. Call it to get the sandbox.

    If a choice raises SandboxUnavailable, it is made again at the next use: missing programs may be installed by then.
    """

    def __init__(self, choose: Callable[[], Sandbox]) -> None:
        self._choose = choose
        self._chosen: Sandbox | None = None
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def of(cls, choose: Callable[[], Sandbox]) -> LazySandbox:
        """Return the argument if it is lazy already, else wrap the function."""
        return choose if isinstance(choose, LazySandbox) else cls(choose)

    def __call__(self) -> Sandbox:
        """Return the sandbox. Raises SandboxUnavailable with what to install."""
        if self._chosen is None:
            with self._lock:
                if self._chosen is None:
                    self._chosen = self._choose()
                    while self._listeners:
                        self._listeners.pop()()
        return self._chosen

    @property
    def known(self) -> Sandbox | None:
        """Return the sandbox if it was chosen already, else None."""
        return self._chosen

    def when_chosen(self, listener: Callable[[], None]) -> bool:
        """Call `listener()` when the sandbox is chosen. Return False if it was chosen already."""
        with self._lock:
            if self._chosen is None:
                self._listeners.append(listener)
            return self._chosen is None

    def is_isolated(self) -> bool:
        """Return whether commands run in an active sandbox without any network. Raises SandboxUnavailable if no
        sandbox works."""
        sandbox = self()
        return sandbox.active and not sandbox.domains


Lift = Literal[".git"] | frozenset[str]
"""What a person can let one command change: the settings and hooks of repositories, or these files (`HostFile.path`)
that the host runs."""


@dataclass(frozen=True, slots=True)
class WalledSandboxes:
    """The sandboxes of the commands of one workspace, by what a command may do at most (`Wall`).

    `own` is the sandbox of the settings. `lifted` returns one in which a command may also change what a person let it,
    `reading` is for the wall `read`, `changing` for `workspace`, `closed` for `all`.
    """

    own: LazySandbox
    lifted: Callable[[Lift], LazySandbox] | None
    reading: LazySandbox
    changing: LazySandbox
    closed: LazySandbox

    @classmethod
    def around(cls, own: LazySandbox) -> WalledSandboxes:
        """Return those of a host that has one sandbox for all commands; without an active one there are no walls."""

        def active() -> Sandbox:
            if not (found := own()).active:
                raise SandboxUnavailable("This host gives its commands no walls.")
            return found

        def none() -> Sandbox:
            raise SandboxUnavailable("This host gives its commands no wall for reading.")

        return cls(own, None, LazySandbox(none), LazySandbox(active), own)

    def behind(self, wall: Wall | None, lift: Lift | None = None) -> LazySandbox:
        """Return the sandbox for a command with this wall; `lift` is what a person let it change."""
        if wall == "read":
            return self.reading
        if wall == "workspace":
            return self.changing
        if lift is not None and self.lifted is not None:
            return self.lifted(lift)
        return self.own if wall is None else self.closed


def works(sandbox: LazySandbox) -> bool:
    """Return whether there is such a sandbox here."""
    try:
        sandbox()
    except SandboxUnavailable:
        return False
    return True


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One result of a probe: whether it is as it should be and, if not, what to do about it."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    needed: bool = True  # False: useful, but not necessary
