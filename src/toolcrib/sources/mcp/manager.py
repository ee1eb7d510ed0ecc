"""All servers of a toolbox, as `box.mcp`: their tools in its registry, and what can be done with them.

A toolbox opens with the tools that were listed last time, and starts no server for that. Servers that nobody has asked
yet are connected all at once; one that fails has no tools, and its error stands in `servers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.errors import ConfigError, ToolConflictError, ToolcribError
from ...core.name_patterns import matches
from .catalogue import Catalogue, Kind
from .client_services import ClientServices, LoginDoor
from .config import ServerConfig
from .extras import extra_names, extra_tools
from .failure import McpFailure
from .listed import ListedTool, ServerListing
from .names import free_name, shown_name, tool_name
from .relay import Listener
from .settings import server_config
from .tool import McpTool
from .upstream import ServerStatus, Upstream, check_category

if TYPE_CHECKING:
    from ...core.registry import ToolRegistry
    from ...core.tool import Tool

log = logging.getLogger("toolcrib.mcp")

CLOSE_SECONDS = 15.0
FIRST_RETRY, LAST_RETRY = 10.0, 300.0
"""Seconds until servers that failed at the start are tried again, doubled each time up to the last."""


class McpServers:
    """The servers of one toolbox. `configs` are in the order in which names are given out."""

    def __init__(self, configs: Iterable[ServerConfig], services: ClientServices, registry: ToolRegistry) -> None:
        self._services, self._registry = services, registry
        self._servers: dict[str, Upstream] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._shown: dict[str, dict[str, Tool]] = {}
        self._closed = False
        self.catalogue = Catalogue(self._enabled, self._reaching)
        """What they offer beside tools."""
        self._reviving: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        for config in configs:
            self._add(config)

    def _add(self, config: ServerConfig) -> Upstream:
        check_category(config)
        # shown as it is written: what its variables hold may be secret
        server = Upstream(config.expanded(self._services.environ), self._services, self._took, config.where)
        self._servers[config.name] = server
        if server.listing is not None and not config.disabled:
            self._took(server, server.listing)
        return server

    # --- what people call

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """How each server stands, by name."""
        return {name: server.status(len(self._shown.get(name, ()))) for name, server in self._servers.items()}

    async def connect(self, name: str, config: Mapping[str, Any] | ServerConfig | None = None) -> ServerStatus:
        """Connect a server now, and list its tools: one of the configuration, or a new one by its settings.

        Raises ConfigError for wrong settings or a name that is taken, and McpFailure where it cannot be reached.
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
        """Log in to a server by a door to a person, who gets so many seconds; its tools are listed and kept.

        A login that was there is forgotten. Raises McpFailure.
        """
        services = replace(self._services, login=door)
        config = replace(config.expanded(services.environ), start_timeout=seconds)
        from .oauth import TokenFile

        TokenFile(services.tokens, config.url or "", services.learn).forget()
        server = Upstream(config, services, lambda server, listing: None)
        try:
            listing = await server.refresh()
            return server.status(len(listing.tools))
        finally:
            await server.aclose()

    async def disconnect(self, name: str) -> None:
        """End a server's connection and take its tools away."""
        server = self._require(name)
        del self._servers[name]
        for tool in self._shown.pop(name, {}).values():
            self._registry.unregister(tool.name)
        await server.aclose()

    async def reload(self, name: str | None = None) -> dict[str, ServerStatus]:
        """Ask one server, or all, what it has now; those that are not connected are. Failures stand in the answer."""
        servers = [self._require(name)] if name is not None else self._enabled()
        await asyncio.gather(*(self._try(server) for server in servers))
        found = self.servers
        return {server.name: found[server.name] for server in servers}

    def tools(self, name: str) -> list[Tool]:
        """The tools of one server that are in the registry."""
        self._require(name)
        return list(self._shown.get(name, {}).values())

    # --- as a gateway

    async def pass_on(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener what servers say beside answers, until what is returned is called; servers are told that
        there may be clients behind us who can do more than we can. Connections made before that are made anew."""
        relay = self._services.relay
        first = not relay.on
        end = relay.listen(listener)
        relay.seen = self.catalogue.note
        if first:
            await asyncio.gather(*(server.renew() for server in self._enabled()), return_exceptions=True)
        return end

    async def log_level(self, level: str) -> None:
        """How severe a log message has to be for servers to tell it."""
        await asyncio.gather(*(server.log_level(level) for server in self._enabled()), return_exceptions=True)

    def _reaching(self, server: Upstream, kind: Kind) -> Tool | None:
        """The tool that reaches a server's resources or prompts; None where it is switched off, or denied."""
        shown = self._shown.get(server.name, {})
        for name in extra_names(kind):
            tool = shown.get(name)
            if isinstance(tool, McpTool) and tool.listed.kind == kind:
                return None if self._registry.stages.hides(tool) else tool
        return None

    # --- with the toolbox

    @property
    def waiting(self) -> bool:
        """Whether there are servers that must be asked before their tools can be known."""
        return any(self._is_new(server) for server in self._enabled())

    @staticmethod
    def _is_new(server: Upstream) -> bool:
        """Whether it is to be asked when the toolbox opens: not again where it has failed just now."""
        return server.config.required or (server.listing is None and server.error is None)

    async def start(self) -> None:
        """Connect those that nobody has asked yet, all at once. Raises McpFailure where a required one fails."""
        new = [server for server in self._enabled() if self._is_new(server)]
        errors = await asyncio.gather(*(self._try(server) for server in new))
        for server, error in zip(new, errors, strict=True):
            if error is not None and server.config.required:
                raise McpFailure(f"{error} (mcp_servers.{server.name}.required is set)")
        failed = [server for server, error in zip(new, errors, strict=True) if error is not None]
        if failed:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._revive(failed), name="toolcrib-mcp-revive", context=contextvars.Context())
            self._reviving = (loop, task)

    async def _revive(self, servers: list[Upstream]) -> None:
        """Try servers that failed again, while the toolbox is open: one that starts slowly is there in the end."""
        delay = FIRST_RETRY
        while servers:
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY)
            servers = [server for server in servers if self._servers.get(server.name) is server]
            errors = await asyncio.gather(*(self._try(server) for server in servers))
            servers = [server for server, error in zip(servers, errors, strict=True) if error is not None]

    def _stop_reviving(self) -> None:
        self._closed = True
        if self._reviving is not None:
            loop, task = self._reviving
            with contextlib.suppress(RuntimeError):  # its loop has ended, and the task with it
                loop.call_soon_threadsafe(task.cancel)

    async def aclose(self) -> None:
        """End all connections, at once."""
        self._stop_reviving()
        await asyncio.gather(*(server.aclose() for server in self._servers.values()), return_exceptions=True)

    def close(self) -> None:
        """`aclose` for callers outside the loop of the servers."""
        import threading

        self._stop_reviving()
        threads = [
            threading.Thread(target=server.close, args=(CLOSE_SECONDS,), daemon=True, name="toolcrib-mcp-close")
            for server in self._servers.values()
            if server.busy
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_SECONDS + 1)

    def _enabled(self) -> list[Upstream]:
        return [server for server in self._servers.values() if not server.config.disabled]

    def _require(self, name: str) -> Upstream:
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise ConfigError(f"there is no MCP server {name!r}; configured: {known}")
        return server

    async def _try(self, server: Upstream) -> McpFailure | None:
        try:
            await server.refresh()
        except McpFailure as error:
            log.warning("%s", error)
            return error
        return None

    # --- the registry

    def _took(self, server: Upstream, listing: ServerListing) -> None:
        """A server's tools are these now: those that are new, changed or gone change the registry."""
        if self._closed or self._servers.get(server.name) is not server:
            return
        shown = self._shown.setdefault(server.name, {})
        wanted = {tool.name: tool for tool in self._wanted(server.config, listing)}
        for name in [name for name, tool in shown.items() if getattr(tool, "listed", None) != wanted.get(name)]:
            self._registry.unregister(shown.pop(name).name)
        self._trust_first(server, listing)
        new = [listed for name, listed in wanted.items() if name not in shown]
        taken = {tool.name for tool in self._registry} if new else set[str]()
        for listed in new:
            self._show(server, listed, taken)

    def _trust_first(self, server: Upstream, listing: ServerListing) -> None:
        if self._services.pins is None:
            return
        try:
            self._services.pins.trust_first(server.identity, listing.tools)
        except OSError as error:
            log.warning("MCP server %s: what it says cannot be kept, so its tools ask: %s", server.name, error)

    def doubted(self, name: str) -> list[McpTool]:
        """The tools of a server that are new or changed since it was accepted."""
        return [tool for tool in self.tools(name) if isinstance(tool, McpTool) and tool.needs_review is not None]

    def accepted(self, name: str, tool: McpTool) -> str | None:
        """The description of a tool that was accepted; None for one that was not there."""
        said = (
            None
            if self._services.pins is None
            else self._services.pins.said(self._require(name).identity, tool.listed.name)
        )
        return None if said is None else said.description

    def accept(self, name: str) -> None:
        """Accept what a server says now of its tools. Raises OSError where that cannot be kept."""
        server = self._require(name)
        if self._services.pins is None or server.listing is None:
            return
        self._services.pins.accept(server.identity, server.listing.tools)
        for tool in self.doubted(name):
            tool.needs_review = None
        self._registry.policy_changed()

    def _wanted(self, config: ServerConfig, listing: ServerListing) -> list[ListedTool]:
        def chosen(name: str) -> bool:
            own = tool_name(config.name, name, config.prefix)
            spelled = (name, own)
            if config.tools is not None and not matches(spelled, config.tools):
                return False
            return not matches(spelled, config.disabled_tools) and not config.of_tool(name).disabled

        return [tool for tool in (*listing.tools, *extra_tools(config, listing)) if chosen(tool.name)]

    def _show(self, server: Upstream, listed: ListedTool, taken: set[str]) -> None:
        """Register one tool under a name that no other has; it keeps that name for the life of the toolbox."""
        config = server.config
        key = (config.name, listed.name)
        plain = tool_name(config.name, listed.name, config.prefix)
        while True:
            name = self._names.get(key)
            if name is None or name in taken:
                name = free_name(plain, taken.__contains__)
            taken.add(name)
            shown = shown_name(listed.name, config.prefix)
            if shown is not None and self._registry.find(shown) is not None:
                shown = None
            tool = McpTool(name, listed, config, server.call, shown)
            if self._services.pins is not None and listed.kind == "tool":
                tool.needs_review = self._services.pins.doubt(server.identity, config.name, listed)
            try:
                self._registry.register(tool)
            except ToolConflictError:  # another tool answers to this name, too
                continue
            except ToolcribError as error:
                log.warning("MCP server %s: its tool %r is left out: %s", config.name, listed.name[:80], error)
                return
            break
        if name != plain and self._names.get(key) != name:
            text = "MCP server %s: its tool %r is %s here, because %s is taken"
            log.warning(text, config.name, listed.name[:80], name, plain)
        self._names[key] = name
        self._shown[config.name][listed.name] = tool
