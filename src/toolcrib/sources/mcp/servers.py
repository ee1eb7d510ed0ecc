"""All servers of a toolbox, as `box.mcp`: their tools in its registry, and the operations on them.

A toolbox opens with the tools that were listed last time, and starts no server for that. Servers that were never
asked are connected all at once. A server that fails has no tools, and `servers` shows its error.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...core.errors import ConfigError, UnknownName
from ...core.registry import ToolRegistry
from ...core.wings import absent, has_wing
from ...policy.starts import StartDoubt
from .client_services import ClientServices, LoginDoor
from .config import ServerConfig, server_config
from .connector import McpFailure
from .listed import ServerListing
from .mcp_tool import McpTool
from .registered_tools import RegisteredTools
from .relay import ContentChanged, Listener, Relay, ShowUri
from .server_start import mark_of, marks_of
from .tool_names import tool_name
from .upstream import ServerStatus, Upstream

log = logging.getLogger("toolcrib.mcp")

CLOSE_SECONDS = 15.0
AT_ONCE = max(4, 2 * (os.cpu_count() or 1))
"""How many servers are started at once: a hundred together take so much of each other's time that all are too late."""
HELD_SECONDS = 3.0
"""After this time a server that is still starting makes place for the next one: it waits for something else."""
FIRST_RETRY, LAST_RETRY = 10.0, 300.0
"""Seconds until servers that failed at the start are tried again. The delay doubles each time, up to the last value."""


class NoSuchServer(ConfigError, UnknownName):
    """There is no MCP server of that name."""


class McpServers:
    """The servers of one toolbox. Names are assigned in the order of `configs`."""

    def __init__(self, configs: Iterable[ServerConfig], services: ClientServices, registry: ToolRegistry) -> None:
        self._services = services
        self._servers: dict[str, Upstream] = {}
        self.relay = Relay()
        """Passes on notifications of the servers."""
        self.registered = RegisteredTools(registry, services.pins)
        """The servers' tools in the registry."""
        self.handshake = False
        """Whether all clients are of the handshake era: new local servers are asked in that era, so one process is
        enough."""
        self._closed = False
        self._warned: dict[str, str] = {}  # server → why it could not be reached when that was last said
        self._reviving: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
        for config in configs:
            self._add(config)
        registry.why_absent = self._why_absent

    def _add(self, config: ServerConfig) -> Upstream:
        # shown as it is written, because the values of its variables may be secret
        server = Upstream(
            config.expanded(self._services.environ), self._services, self.relay, self._listed, config.where
        )
        self._servers[config.name] = server
        this = mark_of(server.config) in marks_of(self._services.environ)  # its list would have itself as a server
        if server.tools.listing is not None and not config.disabled and not this:
            self._listed(server, server.tools.listing)
        return server

    def _why_absent(self, tool: str) -> str:
        """Return that its server has failed, if a tool's name is as of one. What the server said is for people."""
        for server in self.enabled:
            start = tool_name(server.name, "x", server.config.prefix).removesuffix("x")
            if server.tools.error and start and tool.startswith(start):
                return f"MCP server {server.name} has failed; `toolcrib mcp` shows a person why"
        return ""

    # --- public operations

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The status of each server, by name."""
        return {name: server.status(len(self.registered.of(name))) for name, server in self._servers.items()}

    async def connect(self, name: str, config: Mapping[str, Any] | ServerConfig | None = None) -> ServerStatus:
        """Connect a server now, and list its tools: one of the configuration, or a new one by its settings.

        Raises ConfigError if the settings are wrong or the name is taken, and McpFailure if the server cannot be
        reached.
        """
        if config is None:
            server = self._require(name)
        else:
            if name in self._servers:
                raise ConfigError(f"there is an MCP server {name!r} already; disconnect it first")
            made = config if isinstance(config, ServerConfig) else server_config(name, config)
            server = self._add(made)
        await server.refresh()
        return self.servers[name]

    async def login(
        self, config: ServerConfig, door: Callable[[ServerConfig], LoginDoor], seconds: float
    ) -> ServerStatus:
        """Log in to a server through a person's browser, with this many seconds for the person. List and store its
        tools.

        The tokens of an existing login are deleted. Raises McpFailure if the login or the connection fails, and
        ConfigError without the wing `oauth`.
        """
        services = replace(self._services, login=door)
        config = replace(config.expanded(services.environ), start_timeout=seconds)
        if not has_wing("oauth"):
            raise ConfigError(f"a login to {config.name}: {absent('oauth')}")
        from .oauth.provider import TokenFile

        TokenFile(services.tokens, config.url or "", services.learn).forget(config)
        server = Upstream(config, services, Relay(), lambda server, listing: None)
        try:
            listing = await server.refresh()
            return server.status(len(listing.tools))
        finally:
            await server.aclose()

    async def disconnect(self, name: str) -> None:
        """End a server's connection and remove its tools. Raises ConfigError if there is no such server."""
        server = self._require(name)
        del self._servers[name]
        self.registered.remove(name)
        await server.aclose()

    async def reload(self, name: str | None = None) -> dict[str, ServerStatus]:
        """Ask one server, or all, for its current listing.

        Connect if needed. The returned statuses show failures. Raises ConfigError if there is no such server.
        """
        servers = [self._require(name)] if name is not None else self.enabled
        await self._refresh(servers, logs=False)
        found = self.servers
        return {server.name: found[server.name] for server in servers}

    async def change(self, gone: Iterable[str], added: Iterable[ServerConfig]) -> None:
        """Remove servers and add others, which may have the names of removed ones; then end the connections of those,
        and connect new ones. Raises McpFailure if a required one fails."""
        ending = [server for name in gone if (server := self._servers.pop(name, None)) is not None]
        for server in ending:
            self.registered.forget(server.name)
        for server in (*ending, *map(self._add, added)):
            self.relay.tell(ContentChanged(server.name, "resources"))
            self.relay.tell(ContentChanged(server.name, "prompts"))
        await asyncio.gather(*(server.aclose() for server in ending), return_exceptions=True)
        await self.start()

    def tools(self, name: str) -> list[McpTool]:
        """Return the tools of one server that are in the registry. Raises ConfigError if there is no such server."""
        self._require(name)
        return self.registered.of(name)

    def doubted(self, name: str) -> list[McpTool]:
        """Return the tools of a server that are new or changed since it was accepted.

        Raises ConfigError if there is no such server.
        """
        return [tool for tool in self.tools(name) if tool.needs_review is not None]

    def accepted(self, name: str, tool: McpTool) -> str | None:
        """Return the accepted description of a tool; None if the tool was not accepted.

        Raises ConfigError if there is no such server.
        """
        server, pins = self._require(name), self._services.pins
        found = None if pins is None else pins.said(server.identity, tool.listed.name)
        return None if found is None else found.description

    def changed_files(self, name: str) -> StartDoubt | None:
        """Return what has changed in the files that a local server runs, since it was trusted.

        Raises ConfigError if there is no such server.
        """
        return self._require(name).doubt()

    def accept_files(self, name: str, doubt: StartDoubt) -> bool:
        """Trust these changes. Return False if the files have changed again.

        Raises OSError if that cannot be stored, ConfigError if there is no such server.
        """
        server = self._require(name)
        return server.start is not None and self._services.starts.accept(server.start, doubt.digest)

    def accept(self, name: str) -> None:
        """Accept the current tools of a server.

        Raises OSError if that cannot be stored, ConfigError if there is no such server.
        """
        self.registered.accept(self._require(name))

    def _listed(self, server: Upstream, listing: ServerListing) -> None:
        if not self._closed and self._servers.get(server.name) is server:
            self.registered.set(server, listing)

    # --- as a gateway

    async def pass_on(self, listener: Listener, show_uri: ShowUri | None = None) -> Callable[[], None]:
        """Send notifications of servers to a listener, until the returned function is called.

        Servers learn that downstream clients may have more capabilities than we have. Connections that were made
        before are made again.
        """
        first = not self.relay.on
        end = self.relay.listen(listener, show_uri)
        self.relay.expected = False
        if first:
            await asyncio.gather(*(server.renew() for server in self.enabled), return_exceptions=True)
        return end

    async def log_level(self, level: str) -> None:
        """Set the least severe level of log messages that servers send, for present and later connections."""

        async def tell(server: Upstream) -> None:
            server.subscriptions.level = level
            if server.state == "connected":
                await server.run(server.subscriptions.tell_level)

        await asyncio.gather(*map(tell, self.enabled), return_exceptions=True)

    # --- with the toolbox

    @property
    def waiting(self) -> bool:
        """Whether there are servers that must be asked before their tools are known."""
        return any(self._is_new(server) for server in self.enabled)

    @property
    def requires_some(self) -> bool:
        """Whether a server is required: nothing may begin before it is connected."""
        return any(server.config.required for server in self.enabled)

    @staticmethod
    def _is_new(server: Upstream) -> bool:
        """Whether to ask it when the toolbox opens. A server that failed recently is not asked again."""
        return server.config.required or (server.tools.listing is None and server.tools.error is None)

    def begin(self, handshake: bool) -> asyncio.Task[None] | None:
        """Begin to `start`, for a gateway that may not listen yet. None if there is nothing to start."""
        self.handshake, self.relay.expected = handshake, has_wing("gateway")
        return asyncio.create_task(self.start()) if self.waiting else None

    async def start(self) -> None:
        """Connect all servers that were never asked. Raises McpFailure if a required one fails."""
        new = [server for server in self.enabled if self._is_new(server)]
        failed = await self._refresh(new)
        for server, error in failed.items():
            if server.config.required:
                raise McpFailure(f"{error} (mcp_servers.{server.name}.required is set)")
        if failed:
            loop = asyncio.get_running_loop()
            task = loop.create_task(
                self._revive(list(failed)), name="toolcrib-mcp-revive", context=contextvars.Context()
            )
            self._reviving = [each for each in self._reviving if not each[1].done()]
            self._reviving.append((loop, task))

    async def _revive(self, servers: list[Upstream]) -> None:
        """Try failed servers again while the toolbox is open, so that a slow server becomes available later."""
        delay = FIRST_RETRY
        while servers:
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY)
            servers = list(
                await self._refresh([server for server in servers if self._servers.get(server.name) is server])
            )

    def _stop_reviving(self) -> None:
        self._closed = True
        for loop, task in self._reviving:
            with contextlib.suppress(RuntimeError):  # its loop has ended, and the task with it
                loop.call_soon_threadsafe(task.cancel)

    async def aclose(self) -> None:
        """End all connections in parallel."""
        self._stop_reviving()
        await asyncio.gather(*(server.aclose() for server in self._servers.values()), return_exceptions=True)

    def close(self) -> None:
        """Do the same as `aclose`, for callers outside the loop of the servers."""
        self._stop_reviving()
        closing = {server: future for server in self._servers.values() if (future := server.close()) is not None}
        try:
            concurrent.futures.wait(closing.values(), CLOSE_SECONDS)
        finally:
            for server, future in closing.items():
                if not future.done():
                    server.kill()

    @property
    def enabled(self) -> list[Upstream]:
        """The servers that are not disabled."""
        return [server for server in self._servers.values() if not server.config.disabled]

    def _require(self, name: str) -> Upstream:
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise NoSuchServer(f"there is no MCP server {name!r}; configured: {known}")
        return server

    async def _refresh(self, servers: list[Upstream], *, logs: bool = True) -> dict[Upstream, McpFailure]:
        """Ask servers for their listings, AT_ONCE of them at a time. Return the errors of those that failed."""
        failed: dict[Upstream, McpFailure] = {}
        places = asyncio.Semaphore(AT_ONCE)

        async def ask(server: Upstream) -> None:
            await places.acquire()
            asking = asyncio.ensure_future(server.refresh(self.handshake))
            try:
                await asyncio.wait({asking}, timeout=HELD_SECONDS)
                places.release()
                await asking
                self._warned.pop(server.name, None)
            except McpFailure as error:
                why = server.tools.error or str(error)
                if logs and self._warned.get(server.name) != why:  # a server that stays away is named once
                    log.warning("%s", error)
                self._warned[server.name] = why
                failed[server] = error
            finally:
                asking.cancel()

        await asyncio.gather(*map(ask, servers))
        return failed
