"""One configured server: its tools, calls of them, and other requests to it. Each concern has its own object.

    connectors     the connection for each client    (`states`: the possible states)
    tools          the server's listing
    subscriptions  what downstream clients subscribed to
    tool_caller    one call of a tool

Everything runs on one event loop, the one where the server was first needed. Work from other loops is sent there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...core.output import ToolOutput
from ...core.tool import encode
from ...core.verdict import Judgement
from ...policy.starts import StartDoubt
from .client_services import ClientServices
from .config import ServerConfig
from .connector import Connectors, McpFailure, is_handshake_era
from .downstream import Downstream, downstream_of
from .home_loop import HomeLoop, abroad, on_loop
from .listed import ListedTool, ServerListing
from .relay import Relay
from .server_start import start_of
from .states import ServerState, State, server_state
from .subscriptions import Subscriptions
from .tool_list import ToolList

if TYPE_CHECKING:
    from .connection import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of a server.

    `tools` is the number of its registered tools. `cached` means that their list is from the disk and the server
    was not asked yet.
    """

    name: str
    state: ServerState
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
    """A server by its settings.

    `listed` is called with each new listing. `where` is the command or address shown to people.
    """

    def __init__(
        self,
        config: ServerConfig,
        services: ClientServices,
        relay: Relay,
        listed: Callable[[Upstream, ServerListing], None],
        where: str = "",
    ) -> None:
        self.config, self.services, self._relay = config, services, relay
        self._where = where or config.where
        self.identity = config.identity(str(services.workspace))
        """The key of its listing in the cache, and of its accepted tools."""
        self.connectors = Connectors(config, self._dial, self, lambda: self.tools.protocol)
        self.tools = ToolList(
            config, self.identity, services.cache, lambda: self.connectors.live, lambda found: listed(self, found)
        )
        self.subscriptions = Subscriptions(config.name, self.connectors, relay)
        self._home = HomeLoop(self._abandon)
        self.start = start_of(config, services.workspace)
        """The command that the host starts; None for other servers."""
        self._asked: dict[str, set[str]] = {}  # calls that asked about a change of its files → the digests then

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def state(self) -> ServerState:
        """The state that people see."""
        states: list[State] = [each.state for each in self.connectors]
        return server_state(states, disabled=self.config.disabled, failed=bool(self.tools.error))

    def status(self, tools: int) -> ServerStatus:
        """Return its status, for people."""
        live, listing = self.connectors.live, self.tools.listing
        return ServerStatus(
            self.name, self.state, self._where, self.config.transport or "", tools,
            cached=listing is not None and not self.tools.checked, error=self.tools.error,
            pid=getattr(live[0].transport, "pid", None) if live else None,
            protocol=listing.protocol if listing else None, server=listing.server if listing else None,
            faults=listing.faults if listing else (),
        )  # fmt: skip

    def would_start(self) -> bool:
        """Return whether a call would start its command now."""
        return self.start is not None and not self.connectors.live

    def doubt(self) -> StartDoubt | None:
        """Return what has changed in its files since it was trusted, if it would have to be started."""
        if self.start is None or not self.would_start():
            return None
        return self.services.starts.doubt(self.start)

    def judge(self, tool: ListedTool, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Ask about a call that would start it after a change of its files, or of one that runs and may load a file
        that a command has made meanwhile."""
        found, key = self.doubt(), _call_key(tool, arguments, ctx)
        if found is None:
            self._asked.pop(key, None)  # an earlier question about this call, which got no yes
            made = self._made()
            return None if made is None else Judgement("ask", made, "start:made", insists=True)
        self._asked.setdefault(key, set()).add(found.digest)
        return Judgement("ask", f"{found.text}. A yes starts it as it is now", f"start:{found.digest}", insists=True)

    def _made(self) -> str | None:
        """Return that it may load a file that a command has made meanwhile, or, if it would start now, could make."""
        return None if self.start is None else self.services.starts.made(self.start, could=self.would_start())

    # --- requests

    async def refresh(self, handshake: bool = False) -> ServerListing:
        """Connect if needed, and fetch its tools. Raises McpFailure if it fails.

        `handshake`: if it is a local server, connect as for a client of the handshake era.
        """

        async def read() -> ServerListing:
            return await self.tools.read(await self.connectors.any(older=handshake and self.config.url is None))

        return await self._home.run(read)

    async def call(self, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        """Call one tool. Raises ToolError if the server cannot be reached, or refuses."""
        shown = self._asked.pop(_call_key(tool, arguments, ctx), set[str]())
        if len(shown) == 1 and self.start is not None:  # approved after that question; of several, which one is unknown
            await asyncio.to_thread(self.services.starts.accept, self.start, *shown)
        there = ctx if self._home.settle() is asyncio.get_running_loop() else abroad(ctx)

        async def called() -> ToolOutput:
            with self.connectors.used_by(downstream_of(there)):
                await self.connectors.of(downstream_of(there))  # loads the SDK, in a thread

                from .tool_caller import ToolCaller

                caller = ToolCaller(self.config, self.connectors, self.tools, self._relay)
                return await caller.call(tool, arguments, there)

        return await self._home.run(called)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run something that is not a call, on its loop: `await server.run(lambda: server.subscriptions.add(uri))`.

        The time limit is that of a call without progress, plus that of connecting. Raises ToolError after that.
        """
        seconds = self.config.timeout + (0 if self.state == "connected" else self.config.start_timeout)

        async def in_time() -> T:
            try:
                async with asyncio.timeout(seconds):
                    return await work()
            except TimeoutError:
                raise ToolError(f"MCP server {self.name} did not answer within {seconds:g} s") from None

        return await self._home.run(in_time)

    async def use(self, work: Callable[[Any], Coroutine[Any, Any, T]], who: Downstream | None = None) -> T:
        """Run something with the SDK's client: `await server.use(lambda client: client.list_prompts())`.

        Raises McpFailure if there is no connection, ToolError if the server refuses or is too slow.
        """

        async def used() -> T:
            from mcp.shared.exceptions import MCPError

            if made := await asyncio.to_thread(self._made):
                raise ToolError(f"{made}. End that one first: exec_session lists and ends those in the background")
            connection = await self.connectors.any(who)
            connection.touch()
            try:
                return await work(connection.client)
            except MCPError as error:
                if connection.lost:
                    why = await connection.clear() or error.message
                    raise McpFailure(f"MCP server {self.name} went away: {why}") from error
                raise ToolError(f"MCP server {self.name}: {error.message} ({error.code})") from error

        with self.connectors.used_by(who):
            return await self.run(used)

    async def renew(self) -> None:
        """End an unused connection that was made without a gateway. The next one declares more capabilities."""
        live = self.connectors.main.live
        if live is not None and not live.modern and live.callbacks.sampling is None:
            await self._home.run(live.end)

    # --- closing

    async def aclose(self) -> None:
        """End its connections and processes."""
        if (home := self._home.running) is not None:
            await on_loop(home, self._close)
        else:
            self._shut()
            self.kill()

    def close(self) -> concurrent.futures.Future[None] | None:
        """Begin the same as `aclose`, for callers outside its loop, and return the future of its end.

        On its loop, or if its loop has ended, only end the processes.
        """
        self._shut()
        home = self._home.running
        if home is None or home is _current_loop():
            self.kill()
            return None
        return asyncio.run_coroutine_threadsafe(self._close(), home)

    def kill(self) -> None:
        """End its processes immediately."""
        for connector in self.connectors:
            connector.kill()

    def _shut(self) -> None:
        for connector in self.connectors:
            connector.shut()

    async def _close(self) -> None:
        self.subscriptions.close()
        await self.tools.close()
        await asyncio.gather(*(connector.close() for connector in self.connectors))

    def _abandon(self) -> None:
        """Clean up after its loop has ended."""
        for connector in self.connectors:
            connector.abandon()
        self.tools.abandon()

    # --- connections

    async def _dial(self, older: bool, who: Downstream | None) -> Connection:
        from .connecting import prepare

        # a server that chose the handshake era last time is not asked for the later one first
        known = self.config.protocol == "auto" and self.tools.error is None and is_handshake_era(self.tools.protocol)
        mode = "legacy" if older or known else self.config.protocol
        changed, alone = self.tools.list_changed, self.connectors.is_alone
        return await prepare(self.config, self.services, self._relay, changed, mode, older, who, alone)

    async def connected(self, connection: Connection) -> None:
        """Handle a new connection. See `ConnectorEvents`."""
        self.tools.error, self.tools.checked = None, False  # a server that was started again may say something else
        await self.subscriptions.take_up(connection)

    def failed(self, error: str) -> None:
        """Handle a failed connection. See `ConnectorEvents`."""
        self.tools.failed(error)

    def over(self) -> None:
        """Handle the end of a connection. See `ConnectorEvents`."""
        self.subscriptions.renew()


def _call_key(tool: ListedTool, arguments: Mapping[str, Any], ctx: ToolContext) -> str:
    return "\0".join([tool.name, ctx.session_id or "", encode(arguments)])


def _current_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
