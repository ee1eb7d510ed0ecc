"""One configured server: connected when it is needed, again when it was lost, asked what it has, and called.

    idle → connecting → connected → (lost) → connecting → …
                     ↘ failed, tried again at the next need once some time has passed

Everything happens on one event loop, the one where it was first needed; calls from other loops are sent there.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...core.bound import safe
from ...core.context import ToolContext
from ...core.errors import ConfigError, ToolcribError, ToolError
from ...core.output import ToolOutput
from .config import ServerConfig
from .idle import Idle
from .listed import ListedTool, Listing
from .loops import abroad, on_loop
from .offers import NOTHING, Offers, ask_offers, offers_from_json

if TYPE_CHECKING:
    from .calling import Calls, InFlight
    from .connection import Link
    from .host import Host

log = logging.getLogger("toolcrib.mcp")

State = Literal["idle", "connecting", "connected", "failed", "disabled"]
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds until a server that failed is tried again; doubled each time."""
SETTLE_SECONDS = 0.05
"""How long is waited for more changes before a server is asked anew what it has."""

T = TypeVar("T")


class McpFailure(ToolError):
    """A server cannot be used now; the text says why and where it is set."""


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


class Server:
    """A server by its settings. `host` is what it needs of the toolbox; `changed` hears of each new listing."""

    def __init__(
        self, config: ServerConfig, host: Host, changed: Callable[[Server, Listing], None], where: str = ""
    ) -> None:
        self.config, self._host, self._changed = config, host, changed
        self._where = where or config.where
        self.error: str | None = config.fault
        self.listing: Listing | None = None
        if not config.fault:
            self.listing = host.cache.read(self.identity)
            self.error = host.cache.failure(self.identity)
        self.checked = False
        self._link: Link | None = None
        self._calls: Calls | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._connecting: asyncio.Task[Link] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._again = False
        self._failures = 0
        self._not_before = 0.0
        self._closed = False
        self._lock = threading.Lock()
        self.relay = host.relay
        self._offers: Offers | None = None
        self._watched: Counter[str] = Counter()
        self._level: str | None = None
        self._idle = Idle(config.idle_timeout, self._in_use, self._end_idle)

    # --- how it stands

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def identity(self) -> str:
        """What its listing and what was accepted of it are kept under."""
        return self.config.identity(str(self._host.workspace))

    @property
    def state(self) -> State:
        """Where in its life it is."""
        if self.config.disabled:
            return "disabled"
        if self._link is not None and self._link.alive:
            return "connected"
        if self._connecting is not None and not self._connecting.done():
            return "connecting"
        return "failed" if self.error else "idle"

    @property
    def busy(self) -> bool:
        """Whether it has, or is getting, a connection that must be ended."""
        return self._link is not None or (self._connecting is not None and not self._connecting.done())

    def status(self, tools: int) -> ServerStatus:
        """How it stands, for people."""
        link, listing = self._link, self.listing
        return ServerStatus(
            self.name, self.state, self._where, self.config.transport, tools,
            cached=listing is not None and not self.checked, error=self.error,
            pid=getattr(link.transport, "pid", None) if link is not None and link.alive else None,
            protocol=listing.protocol if listing else None, server=listing.server if listing else None,
            faults=listing.faults if listing else (),
        )  # fmt: skip

    # --- what is done with it

    async def refresh(self) -> Listing:
        """Connect if needed, and ask what it has. Raises McpFailure."""
        return await self._at_home(self._refresh)

    async def call(self, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        """One call of one tool. A lost connection is made again; the call is repeated only where that is safe."""
        home = self._settle()
        if home is asyncio.get_running_loop():
            return await self._call(tool, arguments, ctx)
        elsewhere = abroad(ctx)
        return await on_loop(home, lambda: self._call(tool, arguments, elsewhere))

    async def use(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Do something with the SDK's client, on its loop: `await server.use(lambda client: client.list_prompts())`.

        Raises McpFailure where there is no connection, ToolError for what the server refused.
        """
        return await self._at_home(lambda: self._use(work))

    @property
    def known_offers(self) -> Offers | None:
        """What it offered when it was last asked."""
        if self._offers is None:
            kept = self._host.cache.kept(self.identity, "offers")
            if kept is not None:
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    self._offers = offers_from_json(kept)
        return self._offers

    async def offers(self) -> Offers:
        """What it offers beside tools: asked for if it is connected or was never asked. Raises McpFailure."""
        listing = self.listing
        if listing is not None and not listing.has_resources and not listing.has_prompts:
            return NOTHING
        known = self.known_offers
        if known is not None and self.state != "connected":
            return known
        return await self._at_home(self._ask_offers)

    async def watch(self, uri: str) -> None:
        """Let it tell of changes of a resource, until `unwatch` was called as often. Raises McpFailure, and MCPError
        for what it refuses."""
        await self._at_home(lambda: self._watch(uri))

    async def unwatch(self, uri: str) -> None:
        """Stop that."""
        await self._at_home(lambda: self._unwatch(uri))

    async def log_level(self, level: str) -> None:
        """How severe a log message has to be for it to be told (up to 2025-11-25), now and after it was connected
        again."""
        self._level = level
        if self.state == "connected":
            await self._at_home(lambda: self._tell_level(level))

    async def renew(self) -> None:
        """End a connection that was made when nobody stood behind us, unless it is in use: the next says more."""
        link = self._link
        if link is not None and link.alive and not link.modern and link.callbacks.sampling is None:
            await self._at_home(self._end_idle)

    async def aclose(self) -> None:
        """End the connection and its process."""
        self._closed = True
        home = self._home
        if home is not None and home.is_running():
            await on_loop(home, self._close)
        else:
            self.kill()

    def close(self, seconds: float) -> None:
        """`aclose` for callers outside its loop, within so many seconds; on its loop it only ends the process."""
        self._closed = True
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
        """End its process at once."""
        if self._link is not None:
            self._link.kill()

    # --- at home

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await on_loop(self._settle(), work)

    def _settle(self) -> asyncio.AbstractEventLoop:
        """The loop it lives on: this one, if the one before has ended."""
        with self._lock:
            loop = asyncio.get_running_loop()
            if self._home is None or (self._home is not loop and not self._home.is_running()):
                self.kill()
                self._link = self._connecting = self._refreshing = None
                self._idle.stop()
                self._home = loop
            return self._home

    async def _link_up(self) -> Link:
        """The live connection; whoever needs one at the same time shares it. Raises McpFailure."""
        if self._link is not None and self._link.alive:
            return self._link
        if self._connecting is None or self._connecting.done():
            if self._closed:
                raise McpFailure(f"MCP server {self.name} was closed")
            if self.config.fault:
                raise McpFailure(f"MCP server {self.name} cannot be used: {self.config.fault}")
            left = self._not_before - time.monotonic()
            if left > 0:
                raise McpFailure(
                    f"MCP server {self.name} is not there: {self.error}. It is tried again in {left:.0f} s."
                )
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            # its failure is known from `error`, even if whoever waited has gone
            self._connecting.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Link:
        old, self._link = self._link, None
        if old is not None:
            await old.close()
        transport: Any = None
        try:
            loaded = await asyncio.to_thread(importlib.import_module, f"{__package__}.connecting")  # the SDK: ≈ 1 s
            transport, link = await loaded.prepare(self, self._host)
            await link.open(self.config.start_timeout)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failures += 1
            self._not_before = time.monotonic() + min(LONGEST_DELAY, FIRST_DELAY * 2 ** (self._failures - 1))
            self.error = self._explain(error, transport)
            if self.listing is None:
                self._host.cache.failed(self.identity, self.error)
            raise McpFailure(f"MCP server {self.name} could not be reached: {self.error}") from error
        self._failures, self._not_before, self.error = 0, 0.0, None
        self._link, self._calls = link, loaded.Calls()
        self._idle.touch()
        await self._take_up(link)
        return link

    async def _take_up(self, link: Link) -> None:
        """What was listened for over the connection before is listened for again."""
        from mcp.shared.exceptions import MCPError

        try:
            if self._level is not None:
                await link.listening.level(self._level)
            if self._watched:
                await link.listening.watch(self._watched)
        except (MCPError, TimeoutError) as error:
            log.warning("MCP server %s does not tell what it told before: %s", self.name, error)

    def _explain(self, error: BaseException, transport: Any) -> str:
        """Why it failed, in one sentence and what the server itself said."""
        if isinstance(error, TimeoutError):
            said = (
                f"no answer within {self.config.start_timeout:g} s; mcp_servers.{self.name}.start_timeout can give more"
            )
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
            said, account = account, f"it wants a login: run `toolcrib mcp login {self.name}`"
        return safe(f"{said} ({account})" if account and said not in account else said)[:2_000]

    def asked(self) -> InFlight | None:
        """The call that a question of this server belongs to, if that is known."""
        return self._calls.asked() if self._calls is not None else None

    async def _lost(self, link: Link) -> str:
        """Clear a connection away that was lost, and say why it was, as far as is known."""
        await link.close()
        return link.transport.account()

    async def _refresh(self) -> Listing:
        link = await self._link_up()
        return await self._list(link)

    async def _list(self, link: Link) -> Listing:
        from .listing import list_server

        try:
            listing = await list_server(link.client)
        except Exception as error:
            self.error = f"its tools could not be listed: {self._explain(error, link.transport)}"
            raise McpFailure(f"MCP server {self.name}: {self.error}") from error
        self.checked, self.error = True, None
        for fault in listing.faults:
            log.warning("MCP server %s: %s", self.name, fault)
        if listing != self.listing:
            self.listing = listing
            self._host.cache.write(self.identity, self.name, listing)
        self._changed(self, listing)
        return listing

    def heard_change(self) -> None:
        """The server says that what it lists has changed: ask again, once for many such words."""
        self._again = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_soon())

    async def _refresh_soon(self) -> None:
        while self._again:
            await asyncio.sleep(SETTLE_SECONDS)
            self._again = False
            link = self._link
            if link is None or not link.alive:
                return
            try:
                await self._list(link)
            except Exception as error:
                log.warning("%s", error)

    # --- what it offers and tells

    async def _ask_offers(self) -> Offers:
        link = await self._link_up()
        faults: list[str] = []
        try:
            async with asyncio.timeout(self.config.timeout):
                found = await ask_offers(link.client, faults)
        except Exception as error:
            said = self._explain(error, link.transport)
            raise McpFailure(f"MCP server {self.name}: what it offers could not be listed: {said}") from error
        finally:
            self._idle.touch()
        for fault in faults:
            log.warning("MCP server %s: %s", self.name, fault)
        if found != self.known_offers:
            self._offers = found
            self._host.cache.keep(self.identity, "offers", found.to_json())
        return found

    async def _watch(self, uri: str) -> None:
        link = await self._link_up()
        self._watched[uri] += 1
        try:
            await link.listening.watch(self._watched)
        except BaseException:
            self._forget(uri)
            raise

    async def _unwatch(self, uri: str) -> None:
        self._forget(uri)
        if self._link is not None and self._link.alive:
            await self._link.listening.watch(self._watched)

    def _forget(self, uri: str) -> None:
        self._watched[uri] -= 1
        if self._watched[uri] <= 0:
            del self._watched[uri]

    async def _tell_level(self, level: str) -> None:
        if self._link is not None and self._link.alive:
            await self._link.listening.level(level)

    def _in_use(self) -> bool:
        return bool(self._watched) or (self._calls is not None and bool(self._calls.running))

    async def _end_idle(self) -> None:
        link = self._link
        if link is not None and link.alive and not self._in_use():
            log.info("MCP server %s is ended: nobody used it for a while", self.name)
            await link.close()

    # --- calls

    async def _use(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        from mcp.shared.exceptions import MCPError

        link = await self._link_up()
        self._idle.touch()
        try:
            return await work(link.client)
        except MCPError as error:
            if link.lost:
                raise McpFailure(
                    f"MCP server {self.name} went away: {await self._lost(link) or error.message}"
                ) from error
            raise ToolError(f"MCP server {self.name}: {error.message} ({error.code})") from error

    async def _call(self, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        for last in (False, True):
            link = await self._link_up()  # loads the SDK, in a thread

            from .calling import LinkLost

            self._look_again(link, tool)
            try:
                return await self._once(link, tool, arguments, ctx)
            except LinkLost as error:
                why = await self._lost(link)
                log.info("MCP server %s went away in a call of %s: %s", self.name, tool.name, why)
                if last or not (tool.repeatable or not error.delivered):
                    done = "It may have had part of its effect: look before you repeat it."
                    if tool.repeatable:
                        done = "It was asked twice."
                    raise ToolError(
                        f"MCP server {self.name} went away while {tool.name} ran{f': {why}' if why else ''}. {done}"
                    ) from error
        raise AssertionError("unreachable")

    def _look_again(self, link: Link, tool: ListedTool) -> None:
        """A list from the disk is checked against the server once it is there, beside the first call."""
        if not self.checked:
            self.checked = True
            self.heard_change()

    async def _once(self, link: Link, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        from .calling import call
        from .operations import operation
        from .patience import OutOfPatience, Patience

        own, config = self.config.of_tool(tool.name), self.config
        idle, most = own.timeout or config.timeout, own.max_timeout or config.max_timeout
        assert self._calls is not None
        try:
            async with Patience(idle, most) as patience:
                work = operation(self, tool, arguments, ctx)
                return await call(link, self._calls, tool.name, work, ctx, patience)
        except OutOfPatience as over:
            waited = f"within {over.seconds:g} s" + (
                " of its last report" if over.news and over.seconds == idle else ""
            )
            text = f"{tool.name} of MCP server {self.name} did not answer {waited}; the server was told to stop."
            hint = f"mcp_servers.{self.name}.timeout can give it more"
            return ToolOutput.error(f"{text} It may have had part of its effect. ({hint})", "timeout")
        finally:
            self._idle.touch()

    async def _close(self) -> None:
        self._idle.stop()
        for task in (self._connecting, self._refreshing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=5)
        if self._link is not None:
            await self._link.close()


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
