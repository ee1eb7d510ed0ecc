"""Maintain the connections to a server: made when needed, and again after they were lost. `states` defines the states.

There is one connection for all clients, and at most one more for clients of the handshake era.

Everything happens on one event loop. It does not know what a server lists; it reports to `ConnectorEvents`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...core.bound import safe
from ...core.errors import ToolcribError, ToolError
from ...policy.starts import StartRefused
from .config import ServerConfig
from .downstream import Downstream
from .states import Event, State, next_state

if TYPE_CHECKING:
    from .connection import Connection

MIN_DELAY, MAX_DELAY = 1.0, 60.0
"""Seconds until a failed server is tried again. The delay doubles each time, up to the maximum."""

FIRST_STATELESS = "2026-07-28"
"""The first revision after the handshake era. Revisions are dates."""

Dial = Callable[[Downstream | None], Awaitable["Connection"]]
"""Makes a connection that is not open yet, for a downstream client. Raises ToolError or ConfigError."""


class McpFailure(ToolError):
    """A server cannot be used now. The text says why, and which setting it concerns."""


class ConnectorEvents(Protocol):
    """Receives the events of a connector."""

    async def connected(self, connection: Connection) -> None:
        """Handle a new connection. A caller that waits for the connection also waits for this."""

    def failed(self, error: str) -> None:
        """Handle that no connection could be made."""

    def over(self) -> None:
        """Handle that a connection has ended, with everything that belonged to it."""


class Connector:
    """Maintains at most one live connection at a time."""

    def __init__(self, config: ServerConfig, dial: Dial, events: ConnectorEvents) -> None:
        self._config, self._dial, self._events = config, dial, events
        self.state: State = "idle"
        self.error: str | None = None
        self.connection: Connection | None = None
        """The last connection, which may be over."""
        self._connecting: asyncio.Task[Connection] | None = None
        self._failures = 0
        self._not_before = 0.0

    @property
    def live(self) -> Connection | None:
        """The connection over which a call may be tried; None if there is none."""
        return self.connection if self.state == "connected" else None

    async def up(self, who: Downstream | None = None) -> Connection:
        """Return the live connection; make one if needed.

        Parallel callers share it. `who` is the client that it is made for, which answers early requests of the
        server. Raises McpFailure if there can be no connection now.
        """
        if self.live is not None:
            return self.live
        if self._connecting is None or self._connecting.done():
            self._check()
            self._move("connect")
            self._connecting = asyncio.get_running_loop().create_task(self._connect(who))
            # its failure is in `error`, even if no caller waits for it any more
            self._connecting.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return await asyncio.shield(self._connecting)

    def _check(self) -> None:
        """Raises McpFailure if no connection may be tried now."""
        name = self._config.name
        if self.state == "closed":
            raise McpFailure(f"MCP server {name} was closed")
        if self._config.fault:
            raise McpFailure(f"MCP server {name} cannot be used: {self._config.fault}")
        left = self._not_before - time.monotonic()
        if left > 0:
            raise McpFailure(f"MCP server {name} is not available: {self.error}. It is tried again in {left:.0f} s.")

    async def _connect(self, who: Downstream | None) -> Connection:
        connection: Connection | None = None
        try:
            old, self.connection = self.connection, None
            if old is not None:
                await old.close()
            connection = await self._dial(who)
            await connection.open(self._config.start_timeout)
        except asyncio.CancelledError:
            self._move("cancelled")
            raise
        except BaseException as error:
            self._move("failed")
            if not isinstance(error, StartRefused):  # that ends with a person's answer, not with time
                self._failures += 1
                self._not_before = time.monotonic() + min(MAX_DELAY, MIN_DELAY * 2 ** (self._failures - 1))
            self.error = explain(self._config, error, connection.transport if connection is not None else None)
            self._events.failed(self.error)
            raise McpFailure(f"MCP server {self._config.name} could not be reached: {self.error}") from error
        if self.state == "closed":  # closed from another thread in the meantime
            await connection.close()
            self._check()
        self._move("opened")
        self._failures, self._not_before, self.error = 0, 0.0, None
        self.connection = connection
        connection.when_lost(partial(self._lost, connection))
        connection.when_over(self._events.over)
        connection.touch()
        await self._events.connected(connection)
        return connection

    def _lost(self, connection: Connection) -> None:
        if connection is self.connection:
            self._move("lost")

    def _move(self, event: Event) -> None:
        self.state = next_state(self.state, event)

    def shut(self) -> None:
        """Make no more connections."""
        self._move("close")

    async def close(self) -> None:
        """End it permanently."""
        self.shut()
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait({self._connecting}, timeout=5)
        if self.connection is not None:
            await self.connection.close()

    def abandon(self) -> None:
        """Clean up after its loop has ended, together with everything on it."""
        self.kill()
        self._move("abandon")
        self.connection = self._connecting = None

    def kill(self) -> None:
        """End its process immediately. May be called from any thread."""
        if self.connection is not None:
            self.connection.kill()


class Connectors:
    """The connectors of one server.

    `dial(older, who)` makes a connection. `protocol()` is the revision that the server chose last time, if it is
    known.
    """

    def __init__(
        self,
        config: ServerConfig,
        dial: Callable[[bool, Downstream | None], Awaitable[Connection]],
        events: ConnectorEvents,
        protocol: Callable[[], str | None],
    ) -> None:
        self._config, self._dial, self._events, self._protocol = config, dial, events, protocol
        self.main = Connector(config, partial(dial, False), events)
        self.older: Connector | None = None
        """For clients of the handshake era, if the server uses the later one with other clients."""
        self.ending: asyncio.Task[None] | None = None
        self._only_modern = False
        self._using: list[Downstream | None] = []

    def __iter__(self) -> Iterator[Connector]:
        yield self.main
        if self.older is not None:
            yield self.older

    @property
    def live(self) -> list[Connection]:
        """The live connections."""
        return [each.live for each in self if each.live is not None]

    async def of(self, who: Downstream | None, older: bool = False) -> Connection:
        """Return the connection for a downstream client, or None for ourselves. Make it if needed. Raises McpFailure
        if it fails. `older`: as for a client of the handshake era.

        A client of the handshake era uses the handshake era also with a server that supports both eras, because the
        two eras differ in what a tool may ask while it runs.
        """
        old = older or (who is not None and not who.modern)
        if old and self.older is not None and self.older.live is not None:
            return self.older.live
        if not old or self._only_modern or not self._speaks_both():
            return await self.main.up(who)
        if self.older is None:
            self.older = Connector(self._config, partial(self._dial, True), self._events)
        unused = self.main.live
        if self.older.live is None and self._config.url is None and unused is not None and not unused.used:
            self.ending = asyncio.get_running_loop().create_task(unused.end())  # one process is enough
        try:
            return await self.older.up(who)
        except McpFailure as error:
            known, unreachable = self._protocol(), isinstance(error.__cause__, TimeoutError | OSError | ToolcribError)
            if is_handshake_era(known) or (known is None and (unreachable or not older)):
                raise
            connection = await self.main.up(who)
            self._only_modern = True
            return connection

    async def any(self, who: Downstream | None = None, older: bool = False) -> Connection:
        """Return any live connection, preferably this client's; otherwise make one for it. `older` as for `of`.

        Raises McpFailure if it fails.
        """
        live = self.live
        if not live:
            return await self.of(who, older)
        return live[-1] if older or (who is not None and not who.modern) else live[0]

    @contextmanager
    def used_by(self, who: Downstream | None) -> Generator[None]:
        """Mark that a request of a client, or of the host, is under way."""
        self._using.append(who)
        try:
            yield
        finally:
            self._using.remove(who)

    def is_alone(self, who: Downstream) -> bool:
        """Return whether a request is under way, and all others that are belong to the same session."""
        return who in self._using and all(each is not None and each.session == who.session for each in self._using)

    def _speaks_both(self) -> bool:
        """Whether the server may support both eras: it was asked and chose the later one, or it was never asked."""
        if self._config.protocol != "auto":
            return False
        if self.main.live is not None:
            return self.main.live.modern
        return not is_handshake_era(self._protocol())


def explain(config: ServerConfig, error: BaseException, transport: Any) -> str:
    """Return why something with a server failed: one sentence, and the server's own error text."""
    if isinstance(error, TimeoutError):
        limit = f"mcp_servers.{config.name}.start_timeout"
        said = f"no answer within {config.start_timeout:g} s; {limit} can give more"
    elif isinstance(error, FileNotFoundError):
        said = f"there is no {error.filename or config.command!r} to run"
    elif isinstance(error, ToolcribError | OSError):
        said = str(error)
    else:
        said = f"{type(error).__name__}: {error}"
    fault = getattr(transport, "error", None)
    if fault is not None and fault is not error:
        said = str(fault)
    account = transport.account() if transport is not None else ""
    if account.startswith("HTTP 401"):
        said, account = account, f"it wants a login: run `toolcrib mcp login {config.name}`"
    elif account.startswith(("HTTP 404", "HTTP 405")) and config.transport == "http":
        account += '; if it speaks the older protocol with server-sent events, set type = "sse"'
    return safe(f"{said} ({account})" if account and said not in account else said)[:2_000]


def is_handshake_era(protocol: str | None) -> bool:
    """Whether a server chose a revision of the handshake era. None, if it was never asked, is not."""
    return protocol is not None and protocol < FIRST_STATELESS
