"""What a sandbox is: the one-method interface of a backend, and what a probe finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ..spawn import Spawn
from .settings import Profile

if TYPE_CHECKING:
    from .protected_paths import ProtectedPaths


class Sandbox(Protocol):
    """Turns a command into one that runs confined."""

    @property
    def name(self) -> str:
        """The backend: "bubblewrap", "landlock", "docker", "external", "none"."""
        ...

    @property
    def profile(self) -> Profile: ...

    @property
    def active(self) -> bool:
        """Whether a command is confined to the workspace and kept off the network, except for `domains`. Policy
        relies on them where this is true."""
        ...

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that commands can reach through our proxy; empty without a proxy, whatever the settings say."""
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
