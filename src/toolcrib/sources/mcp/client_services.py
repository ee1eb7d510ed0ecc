"""The services that servers need from the toolbox, passed in as plain callables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...core.dataclass import dataclass
from ...core.errors import SandboxUnavailable
from ...policy.starts import Starts
from .cache import ListCache, Pins

if TYPE_CHECKING:
    from ...boundary.network.address_guard import AddressGuard
    from ...boundary.sandbox import Profile, Sandbox
    from .config import ServerConfig


class LoginDoor(Protocol):
    """Sends a person to a login page, and waits until they return with the page's answer."""

    @property
    def redirect_uri(self) -> str:
        """The address to which the login page sends them back."""
        ...

    async def open(self, url: str) -> None:
        """Show the login page."""

    async def answer(self) -> Mapping[str, str]:
        """Return the query of the address they came back to: `code`, `state`, `iss`, or `error`."""
        ...


def _no_walls(profile: Profile, read: tuple[Path, ...], write: tuple[Path, ...]) -> Sandbox:
    raise SandboxUnavailable("there is no sandbox here that a server could run in")


@dataclass(frozen=True, slots=True)
class ClientServices:
    """The services for MCP servers.

    `environ` supplies the few harmless variables of local servers. `resolve(text, asker)` inserts granted secrets.
    `walls(profile, read, write)` returns the sandbox for a server, in which it may read these paths and write to those.
    `learn(name, value)` registers a secret with the redactor. `login(config)` returns access to a person's browser, if
    there is one. `starts` finds the programs of local servers.
    `pins` stores what was accepted of servers; without it, changes are not noticed.
    """

    workspace: Path
    cache: ListCache
    tokens: Path
    environ: Mapping[str, str]
    resolve: Callable[[str, str], str] = lambda text, asker: text
    walls: Callable[[Profile, tuple[Path, ...], tuple[Path, ...]], Sandbox] = _no_walls
    guard: Callable[[], AddressGuard] | None = None
    learn: Callable[[str, str], None] = lambda name, value: None
    login: Callable[[ServerConfig], LoginDoor] | None = None
    pins: Pins | None = None
    starts: Starts = field(default_factory=Starts)
