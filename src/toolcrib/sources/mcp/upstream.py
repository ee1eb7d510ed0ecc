"""One configured server: what it lists and offers, and calls of its tools, over as many ways to it as are needed.

Everything happens on one event loop, the one where it was first needed; calls from other loops are sent there.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...core.context import ToolContext
from ...core.errors import ConfigError, ToolError
from ...core.output import ToolOutput
from .config import ServerConfig
from .connector import FIRST_DELAY, LONGEST_DELAY, Connector
from .downstream import Downstream, downstream_of
from .failure import McpFailure
from .listed import ListedTool, ServerListing
from .loops import abroad, on_loop
from .server_content import EMPTY_CONTENT, ServerContent, ask_content, content_from_json
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from .client_services import ClientServices
    from .connection import Connection

log = logging.getLogger("toolcrib.mcp")

State = Literal["idle", "connecting", "connected", "failed", "disabled"]
SETTLE_SECONDS = 0.05
"""How long is waited for more changes before a server is asked anew what it has."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How a server stands. `tools` is how many of its tools are there; `cached` whether nobody has asked it yet."""

    name: str
    state: State
    where: str
    transport: str
    tools: int = 0
    cached: bool = False
    error: str | None = None
    pid: int | None = None
    protocol: str | None = None
    server: str | None = None
    faults: tuple[str, ...] = ()


class Upstream:
    """A server by its settings. `host` is what it needs of the toolbox; `changed` hears of each new listing."""

    def __init__(
        self,
        config: ServerConfig,
        services: ClientServices,
        changed: Callable[[Upstream, ServerListing], None],
        where: str = "",
    ) -> None:
        self.config, self._services, self._changed = config, services, changed
        self._where = where or config.where
        self.error: str | None = config.fault
        self.listing: ServerListing | None = None
        if not config.fault:
            self.listing = services.cache.read(self.identity)
            self.error = services.cache.failure(self.identity)
        self.checked = False
        self.relay = services.relay
        self.main = Connector(self, services, None, self._connected)
        self._legacy: Connector | None = None
        self._modern_only = False
        self.subscriptions = Subscriptions(self._connectors)
        self._content: ServerContent | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._ear: asyncio.Task[None] | None = None
        self._again = False
        self._changed_over: Connector | None = None
        self._lock = threading.Lock()

    # --- how it stands

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def identity(self) -> str:
        """What its listing and what was accepted of it are kept under."""
        return self.config.identity(str(self._services.workspace))

    @property
    def state(self) -> State:
        """Where in its life it is."""
        if self.config.disabled:
            return "disabled"
        if any(connector.alive for connector in self._connectors()):
            return "connected"
        if any(connector.connecting for connector in self._connectors()):
            return "connecting"
        return "failed" if self.error else "idle"

    @property
    def busy(self) -> bool:
        """Whether it has, or is getting, a connection that must be ended."""
        return any(connector.connection is not None or connector.connecting for connector in self._connectors())

    def status(self, tools: int) -> ServerStatus:
        """How it stands, for people."""
        connection = next((connector.connection for connector in self._connectors() if connector.alive), None)
        listing = self.listing
        return ServerStatus(
            self.name, self.state, self._where, self.config.transport, tools,
            cached=listing is not None and not self.checked, error=self.error,
            pid=getattr(connection.transport, "pid", None) if connection is not None else None,
            protocol=listing.protocol if listing else None, server=listing.server if listing else None,
            faults=listing.faults if listing else (),
        )  # fmt: skip

    # --- what is done with it

    async def refresh(self) -> ServerListing:
        """Connect if needed, and ask what it has. Raises McpFailure."""
        return await self._at_home(self._refresh)

    async def call(self, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        """One call of one tool. A lost connection is made again; the call is repeated only where that is safe."""
        home = self._settle()
        if home is asyncio.get_running_loop():
            return await self._call(tool, arguments, ctx)
        elsewhere = abroad(ctx)
        return await on_loop(home, lambda: self._call(tool, arguments, elsewhere))

    async def use(self, work: Callable[[Any], Coroutine[Any, Any, T]], who: Downstream | None = None) -> T:
        """Do something with the SDK's client, on its loop: `await server.use(lambda client: client.list_prompts())`.

        Raises McpFailure where there is no connection, ToolError for what the server refused.
        """
        return await self._at_home(lambda: self._in_time(self._use(work, who)))

    @property
    def known_content(self) -> ServerContent | None:
        """What it offered when it was last asked."""
        if self._content is None:
            kept = self._services.cache.kept(self.identity, "offers")
            if kept is not None:
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    self._content = content_from_json(kept)
        return self._content

    async def content(self, who: Downstream | None = None) -> ServerContent:
        """What it offers beside tools: asked for if it is connected or was never asked. Raises McpFailure."""
        listing = self.listing
        if listing is not None and not listing.has_resources and not listing.has_prompts:
            return EMPTY_CONTENT
        known = self.known_content
        if known is not None and self.state != "connected":
            return known
        return await self._at_home(lambda: self._ask_content(who))

    async def watch(self, uri: str, who: Downstream | None = None) -> None:
        """Let it tell of changes of a resource, until `unwatch` was called as often. Raises McpFailure, and MCPError
        for what it refuses."""
        await self._at_home(lambda: self._in_time(self._watch(uri, who)))

    async def unwatch(self, uri: str) -> None:
        """Stop that."""
        await self._at_home(lambda: self._in_time(self.subscriptions.remove(uri)))

    async def log_level(self, level: str) -> None:
        """How severe a log message has to be for it to be told (up to 2025-11-25), now and over later connections."""
        self.subscriptions.level = level
        if self.state == "connected":
            await self._at_home(lambda: self._in_time(self.subscriptions.tell_level()))

    async def renew(self) -> None:
        """End a connection that was made when nobody stood behind us, unless it is in use: the next says more."""
        connection = self.main.connection
        if (
            connection is not None
            and connection.alive
            and not connection.modern
            and connection.callbacks.sampling is None
        ):
            await self._at_home(self.main.end)

    async def aclose(self) -> None:
        """End the connection and its process."""
        home = self._home
        if home is not None and home.is_running():
            await on_loop(home, self._close)
        else:
            self._shut()
            self.kill()

    def close(self, seconds: float) -> None:
        """`aclose` for callers outside its loop, within so many seconds; on its loop it only ends the process."""
        self._shut()
        home = self._home
        if home is None or not home.is_running():
            self.kill()
            return
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop() is home:
                self.kill()
                return
        done = asyncio.run_coroutine_threadsafe(self._close(), home)
        try:
            done.result(seconds)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End its processes at once."""
        for connector in self._connectors():
            connector.kill()

    def _shut(self) -> None:
        for connector in self._connectors():
            connector.closed = True

    # --- at home

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await on_loop(self._settle(), work)

    def _settle(self) -> asyncio.AbstractEventLoop:
        """The loop it lives on: this one, if the one before has ended."""
        with self._lock:
            loop = asyncio.get_running_loop()
            if self._home is None or (self._home is not loop and not self._home.is_running()):
                for connector in self._connectors():
                    connector.abandon()
                self._refreshing = None
                self._home = loop
            return self._home

    # --- the ways to it

    def _connectors(self) -> list[Connector]:
        return [self.main] if self._legacy is None else [self.main, self._legacy]

    async def _connection(self, who: Downstream | None) -> tuple[Connector, Connection]:
        """A way to it for a client behind us, None for ourselves. Raises McpFailure.

        A client of the handshake era reaches a server that speaks both over the handshake era, too: what a tool may ask
        while it runs is not the same in both.
        """
        old = who is not None and not who.modern
        if old and self._legacy is not None and self._legacy.alive and self._legacy.connection is not None:
            return self._legacy, self._legacy.connection
        if not old or self._modern_only or not await self._speaks_both():
            return self.main, await self.main.up(who)
        if self._legacy is None:
            self._legacy = Connector(self, self._services, "legacy", self._connected)
        connector = self._legacy
        if not connector.alive and self.config.url is None and self.main.alive and not self.main.used:
            self._ending = asyncio.get_running_loop().create_task(self.main.end())  # one process will do
        try:
            return connector, await connector.up(who)
        except McpFailure:
            if self.listing is None or self.listing.protocol in _handshakes():
                raise
            connection = await self.main.up(who)
            self._modern_only = True
            return self.main, connection

    async def _speaks_both(self) -> bool:
        """Whether it may know both eras: it was asked, and chose the later one; or it was never asked."""
        if self.config.protocol != "auto":
            return False
        if self.main.alive and self.main.connection is not None:
            return self.main.connection.modern
        known = self.listing.protocol if self.listing is not None else None
        return known is None or known not in await asyncio.to_thread(_handshakes)

    async def _any_connection(self, who: Downstream | None) -> tuple[Connector, Connection]:
        """One that is there, that of this client first; else one for it."""
        connectors = self._connectors()
        if who is not None and not who.modern:
            connectors.reverse()
        for connector in connectors:
            if connector.alive and connector.connection is not None:
                return connector, connector.connection
        return await self._connection(who)

    async def _connected(self, connector: Connector, connection: Connection) -> None:
        self.error = None
        await self.subscriptions.take_up(connector, connection)
        connection.when_over(self._listen_again)

    def _listen_again(self) -> None:
        """A connection is over: what was listened for over it is listened for over another, without a call."""
        if self.subscriptions.unheard and not self.main.closed and (self._ear is None or self._ear.done()):
            self._ear = asyncio.get_running_loop().create_task(self._find_ear(), context=contextvars.Context())

    async def _find_ear(self) -> None:
        delay = FIRST_DELAY
        while (missed := self.subscriptions.unheard) and not self.main.closed:
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY)
            with contextlib.suppress(McpFailure):
                await self.main.up()
                for uri in missed:  # it may have changed meanwhile
                    self.relay.updated(self, uri)

    def failed(self, error: str) -> None:
        """A connection could not be made."""
        self.error = error
        if self.listing is None:
            self._services.cache.failed(self.identity, error)

    # --- what it lists

    async def _refresh(self) -> ServerListing:
        connector, connection = await self._any_connection(None)
        return await self._list(connector, connection)

    async def _list(self, connector: Connector, connection: Connection) -> ServerListing:
        from .listing import list_server

        try:
            listing = await list_server(connection.client)
        except Exception as error:
            self.error = f"its tools could not be listed: {connector.explain(error, connection.transport)}"
            raise McpFailure(f"MCP server {self.name}: {self.error}") from error
        if (
            connector is not self.main
        ):  # what it speaks when it is asked for the older era says nothing of the later one
            listing = replace(listing, protocol=self.listing.protocol if self.listing is not None else None)
        self.checked, self.error = True, None
        for fault in listing.faults:
            log.warning("MCP server %s: %s", self.name, fault)
        if listing != self.listing:
            self.listing = listing
            self._services.cache.write(self.identity, self.name, listing)
        self._changed(self, listing)
        return listing

    def heard_change(self, connector: Connector | None = None) -> None:
        """The server says, over this line, that what it lists has changed: ask again, once for many such words."""
        self._again, self._changed_over = True, connector or self._changed_over
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_soon())

    async def _refresh_soon(self) -> None:
        while self._again:
            await asyncio.sleep(SETTLE_SECONDS)
            self._again = False
            told = [self._changed_over] if self._changed_over is not None else []
            connector = next((connector for connector in (*told, *self._connectors()) if connector.alive), None)
            if connector is None or connector.connection is None:
                return
            try:
                await self._list(connector, connector.connection)
            except Exception as error:
                log.warning("%s", error)

    # --- what it offers and tells

    async def _ask_content(self, who: Downstream | None) -> ServerContent:
        connector, connection = await self._any_connection(who)
        faults: list[str] = []
        try:
            async with asyncio.timeout(self.config.timeout):
                found = await ask_content(connection.client, faults)
        except Exception as error:
            said = connector.explain(error, connection.transport)
            raise McpFailure(f"MCP server {self.name}: what it offers could not be listed: {said}") from error
        finally:
            connector.touch()
        for fault in faults:
            log.warning("MCP server %s: %s", self.name, fault)
        if found != self.known_content:
            self._content = found
            self._services.cache.keep(self.identity, "offers", found.to_json())
        return found

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """What is no call has the time of one that says nothing, and that of a connection."""
        seconds = self.config.timeout + (0 if self.state == "connected" else self.config.start_timeout)
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise ToolError(f"MCP server {self.name} did not answer within {seconds:g} s") from None

    async def _watch(self, uri: str, who: Downstream | None) -> None:
        connector, connection = await self._connection(who)
        await self.subscriptions.add(uri, connector, connection)

    # --- calls

    async def _use(self, work: Callable[[Any], Coroutine[Any, Any, T]], who: Downstream | None) -> T:
        from mcp.shared.exceptions import MCPError

        connector, connection = await self._any_connection(who)
        connector.touch()
        try:
            return await work(connection.client)
        except MCPError as error:
            if connection.lost:
                raise McpFailure(
                    f"MCP server {self.name} went away: {await connector.lost(connection) or error.message}"
                ) from error
            raise ToolError(f"MCP server {self.name}: {error.message} ({error.code})") from error

    async def _call(self, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        for last in (False, True):
            connector, connection = await self._connection(downstream_of(ctx))  # loads the SDK, in a thread

            from .calling import ConnectionLost

            self._look_again()
            try:
                return await self._once(connector, connection, tool, arguments, ctx)
            except ConnectionLost as error:
                why = await connector.lost(connection)
                log.info("MCP server %s went away in a call of %s: %s", self.name, tool.name, why)
                if last or not (tool.repeatable or not error.delivered):
                    done = "It may have had part of its effect: look before you repeat it."
                    if tool.repeatable:
                        done = "It was asked twice."
                    raise ToolError(
                        f"MCP server {self.name} went away while {tool.name} ran{f': {why}' if why else ''}. {done}"
                    ) from error
        raise AssertionError("unreachable")

    def _look_again(self) -> None:
        """A list from the disk is checked against the server once it is there, beside the first call."""
        if not self.checked:
            self.checked = True
            self.heard_change()

    async def _once(
        self,
        connector: Connector,
        connection: Connection,
        tool: ListedTool,
        arguments: dict[str, Any],
        ctx: ToolContext,
    ) -> ToolOutput:
        from .calling import call
        from .inflight import caller_of
        from .operations import operation
        from .progress_timeout import Expired, ProgressTimeout

        own, config = self.config.of_tool(tool.name), self.config
        idle, most = own.timeout or config.timeout, own.max_timeout or config.max_timeout
        assert connector.calls is not None
        connector.used = True
        if connector.calls.asks:
            try:
                async with asyncio.timeout(idle):
                    await connector.calls.turn(tool.name, caller_of(ctx))
            except TimeoutError:
                raise ToolError(
                    f"{tool.name} of MCP server {self.name} was not called: it asks questions, and somebody else "
                    "has not answered theirs yet. Try again later."
                ) from None
        try:
            async with ProgressTimeout(idle, most) as timeout:
                work = operation(self, tool, arguments, ctx)
                return await call(connection, connector.calls, tool.name, work, ctx, timeout)
        except Expired as over:
            waited = f"within {over.seconds:g} s" + (
                " of its last report" if over.progress and over.seconds == idle else ""
            )
            text = f"{tool.name} of MCP server {self.name} did not answer {waited}; the server was told to stop."
            hint = f"mcp_servers.{self.name}.timeout can give it more"
            return ToolOutput.error(f"{text} It may have had part of its effect. ({hint})", "timeout")
        finally:
            connector.touch()
            connector.opener = None

    async def _close(self) -> None:
        if self._ear is not None:
            self._ear.cancel()
        if self._refreshing is not None and not self._refreshing.done():
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing}, timeout=5)
        await asyncio.gather(*(connector.close() for connector in self._connectors()))


def _handshakes() -> frozenset[str]:
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    return frozenset(HANDSHAKE_PROTOCOL_VERSIONS)


def check_category(config: ServerConfig) -> None:
    """Raises ConfigError for a category that there is not."""
    from ...core.tool import ToolCategory

    for where, given in (
        ("category", config.category),
        *((f"per_tool.{k}", v.category) for k, v in config.per_tool.items()),
    ):
        if given is not None and given not in set(ToolCategory):
            known = ", ".join(ToolCategory)
            raise ConfigError(f"mcp_servers.{config.name}.{where}: unknown category {given!r}; known: {known}")
