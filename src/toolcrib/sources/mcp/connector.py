"""A way to one server: connected when it is needed, again when it was lost, ended when nobody uses it.

    idle → connecting → connected → (lost, or long unused) → connecting → …
                     ↘ failed, tried again at the next need once some time has passed

A server has one, or two where it speaks both eras of the protocol and clients of both are behind us. All of it happens
on one event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...core.bound import safe
from ...core.errors import ToolcribError
from .failure import McpFailure
from .idle import Idle

if TYPE_CHECKING:
    from .client_services import ClientServices
    from .config import ServerConfig
    from .connection import Connection
    from .downstream import Downstream
    from .inflight import Calls, InFlight
    from .upstream import Upstream

log = logging.getLogger("toolcrib.mcp")

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds until a server that failed is tried again; doubled each time."""


class Connector:
    """`mode` says how to negotiate: None asks the configuration and what is known of the server. `connected` is done
    with each new connection."""

    def __init__(
        self,
        server: Upstream,
        services: ClientServices,
        mode: str | None,
        connected: Callable[[Connector, Connection], Awaitable[None]],
    ) -> None:
        self.server, self.mode = server, mode
        self.config: ServerConfig = server.config
        self.error: str | None = None
        self.connection: Connection | None = None
        self.calls: Calls | None = None
        self.used = False
        """Whether a call was made over it."""
        self.opener: Downstream | None = None
        self._services, self._connected = services, connected
        self._connecting: asyncio.Task[Connection] | None = None
        self._failures = 0
        self._not_before = 0.0
        self.closed = False
        self._idle = Idle(self.config.idle_timeout, self._in_use, self.end)

    # --- how it stands

    @property
    def alive(self) -> bool:
        """Whether there is a connection that a call may be tried over."""
        return self.connection is not None and self.connection.alive

    @property
    def connecting(self) -> bool:
        """Whether there will be one soon."""
        return self._connecting is not None and not self._connecting.done()

    def asked(self, *, question: bool = False) -> InFlight | None:
        """The call that something the server says belongs to, if that is known."""
        return self.calls.asked(question=question) if self.calls is not None else None

    def touch(self) -> None:
        """It is used now."""
        self._idle.touch()

    def _in_use(self) -> bool:
        watching = self.connection is not None and self.connection.notifications.subscriptions
        return watching or (self.calls is not None and bool(self.calls.running))

    # --- its life

    async def up(self, who: Downstream | None = None) -> Connection:
        """The live connection; whoever needs one at the same time shares it. `who` is the client it is made for, which
        answers what the server asks at once. Raises McpFailure."""
        if self.connection is not None and self.connection.alive:
            return self.connection
        if self._connecting is None or self._connecting.done():
            self._may_connect()
            self.opener = who
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            # its failure is known from `error`, even if whoever waited has gone
            self._connecting.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return await asyncio.shield(self._connecting)

    def _may_connect(self) -> None:
        name = self.config.name
        if self.closed:
            raise McpFailure(f"MCP server {name} was closed")
        if self.config.fault:
            raise McpFailure(f"MCP server {name} cannot be used: {self.config.fault}")
        left = self._not_before - time.monotonic()
        if left > 0:
            raise McpFailure(f"MCP server {name} is not there: {self.error}. It is tried again in {left:.0f} s.")

    async def _connect(self) -> Connection:
        old, self.connection = self.connection, None
        if old is not None:
            await old.close()
        transport: Any = None
        try:
            loaded = await asyncio.to_thread(importlib.import_module, f"{__package__}.connecting")  # the SDK: ≈ 1 s
            transport, connection = await loaded.prepare(self, self._services)
            await connection.open(self.config.start_timeout)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failures += 1
            self._not_before = time.monotonic() + min(LONGEST_DELAY, FIRST_DELAY * 2 ** (self._failures - 1))
            self.error = self.explain(error, transport)
            self.server.failed(self.error)
            raise McpFailure(f"MCP server {self.config.name} could not be reached: {self.error}") from error
        self._failures, self._not_before, self.error = 0, 0.0, None
        self.connection, self.calls = connection, loaded.Calls()
        self.touch()
        await self._connected(self, connection)
        return connection

    def explain(self, error: BaseException, transport: Any) -> str:
        """Why it failed, in one sentence and what the server itself said."""
        name = self.config.name
        if isinstance(error, TimeoutError):
            said = f"no answer within {self.config.start_timeout:g} s; mcp_servers.{name}.start_timeout can give more"
        elif isinstance(error, FileNotFoundError):
            said = f"there is no {error.filename or self.config.command!r} to run"
        elif isinstance(error, ToolcribError | OSError):
            said = str(error)
        else:
            said = f"{type(error).__name__}: {error}"
        fault = getattr(transport, "error", None)
        if fault is not None and fault is not error:
            said = str(fault)
        account = transport.account() if transport is not None else ""
        if account.startswith("HTTP 401"):
            said, account = account, f"it wants a login: run `toolcrib mcp login {name}`"
        return safe(f"{said} ({account})" if account and said not in account else said)[:2_000]

    async def lost(self, connection: Connection) -> str:
        """Clear a connection away that was lost, and say why it was, as far as is known."""
        await connection.close()
        return connection.transport.account()

    async def end(self) -> None:
        """End the connection unless it is in use; the next need makes another."""
        if self.connection is not None and self.connection.alive and not self._in_use():
            log.info("MCP server %s: a connection that nobody uses is ended", self.config.name)
            await self.connection.close()

    async def close(self) -> None:
        """End it for good."""
        self.closed = True
        self._idle.stop()
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait({self._connecting}, timeout=5)
        if self.connection is not None:
            await self.connection.close()

    def abandon(self) -> None:
        """Its loop has ended, and everything of it there."""
        self.kill()
        self.connection = self._connecting = None
        self._idle.stop()

    def kill(self) -> None:
        """End its process at once; from any thread."""
        if self.connection is not None:
            self.connection.kill()
