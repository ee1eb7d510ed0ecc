"""What servers need of the toolbox around them, handed in as plain callables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...core.errors import SandboxUnavailable
from .cache import ListCache
from .pins import Pins

if TYPE_CHECKING:
    from ...boundary.network.address_guard import AddressGuard
    from ...boundary.sandbox import Profile, Sandbox
    from .config import ServerConfig

Sampler = Callable[[Any], Awaitable[Any]]
"""`await sampler(params)` lets a model of ours write what a server asks for (`CreateMessageRequestParams`), and gives
the `CreateMessageResult`."""


class LoginDoor(Protocol):
    """Sends a person to a login page, and waits for them to come back with what the page gave them."""

    @property
    def redirect_uri(self) -> str:
        """The address that the login page sends them back to."""
        ...

    async def open(self, url: str) -> None:
        """Show the login page."""
        ...

    async def answer(self) -> Mapping[str, str]:
        """The query of the address they came back to: `code`, `state`, `iss`, or `error`."""
        ...


def _no_walls(profile: Profile, read: tuple[Path, ...]) -> Sandbox:
    raise SandboxUnavailable("there is no sandbox here that a server could run in")


@dataclass(frozen=True, slots=True)
class ClientServices:
    """`environ` is where the few harmless variables of local servers come from; `resolve(text, asker)` puts granted
    secrets in; `walls(profile, read)` gives the sandbox for a server, which may read these paths in it;
    `learn(name, value)` tells the redactor a secret. `login(config)` gives a door to a person's browser, where there is
    one; `pins` knows what was accepted of servers, without them no change is noticed."""

    workspace: Path
    cache: ListCache
    tokens: Path
    environ: Mapping[str, str]
    resolve: Callable[[str, str], str] = lambda text, asker: text
    walls: Callable[[Profile, tuple[Path, ...]], Sandbox] = _no_walls
    guard: Callable[[], AddressGuard] | None = None
    learn: Callable[[str, str], None] = lambda name, value: None
    sampler: Sampler | None = None
    login: Callable[[ServerConfig], LoginDoor] | None = None
    pins: Pins | None = None
