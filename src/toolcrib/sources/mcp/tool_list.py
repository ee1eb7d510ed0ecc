"""The tools of a server: read from the disk first, and from the server once it is connected."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.errors import ToolError
from .cache import ListCache
from .config import ServerConfig
from .connector import McpFailure, explain
from .listed import ListedTool, ServerListing
from .relay import ListKind

if TYPE_CHECKING:
    from .connection import Connection

log = logging.getLogger("toolcrib.mcp")

SETTLE_SECONDS = 0.05
"""How long to wait for more changes before a server's list is fetched again."""
REST, MAX_REST = 10.0, 30.0
"""How many times as long as a fetch took to wait before the next one, and the most seconds: long lists take the time of
other servers, and a server may say that they change again and again."""


class ToolList:
    """The listing of one server, and the error of the last attempt to reach or list it.

    `live()` returns the connections to it. `listed` is called with each new listing.
    """

    def __init__(
        self,
        config: ServerConfig,
        identity: str,
        cache: ListCache,
        live: Callable[[], list[Connection]],
        listed: Callable[[ServerListing], None],
    ) -> None:
        self._config, self._identity, self._cache, self._live, self._listed = config, identity, cache, live, listed
        self.error = config.fault or cache.failure(identity)
        self.listing = None if config.fault else cache.read(identity)
        self.checked = False
        """Whether the server itself was asked, over the newest connection."""
        self._checking = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        self._changed_over: Connection | None = None
        self._again = False
        self._rests_until = 0.0

    @property
    def protocol(self) -> str | None:
        """The revision of the protocol that the server chose at the last request."""
        return self.listing.protocol if self.listing is not None else None

    async def read(self, connection: Connection) -> ServerListing:
        """Fetch the server's current listing. Raises McpFailure if it fails."""
        from .fetch_lists import list_server

        name = self._config.name
        try:
            async with asyncio.timeout(self._config.start_timeout):
                listing = await list_server(connection.client)
                listing = await asyncio.to_thread(self._cache.shown, listing)
        except TimeoutError as error:
            seconds = f"{self._config.start_timeout:g} s; mcp_servers.{name}.start_timeout can give more"
            self.error = f"it did not list its tools within {seconds}"
            if self.listing is None:  # it is not waited for again at the next start
                self._cache.failed(self._identity, self.error)
            raise McpFailure(f"MCP server {name}: {self.error}") from error
        except Exception as error:
            self.error = f"its tools could not be listed: {explain(self._config, error, connection.transport)}"
            raise McpFailure(f"MCP server {name}: {self.error}") from error
        if connection.older:  # its choice for an older client does not say whether it also supports the later era
            listing = replace(listing, protocol=self.protocol)
        self.checked, self.error = True, None
        for fault in listing.faults:
            log.warning("MCP server %s: %s", name, fault)
        if listing != self.listing:
            self.listing = listing
            await asyncio.to_thread(self._cache.write, self._identity, name, listing)
        self._listed(listing)
        return listing

    async def check(self, tool: ListedTool, connection: Connection) -> None:
        """Compare the list with the server before the first call over a connection. Raises McpFailure if the server
        cannot list its tools, and ToolError if it now says something else of this one."""
        if self.checked:
            return
        async with self._checking:
            listing = self.listing if self.checked else await self.read(connection)
        if tool.kind != "tool" or listing is None:
            return
        if not any(each.name == tool.name and each.digest == tool.digest for each in listing.tools):
            raise ToolError(
                f"{tool.name} of MCP server {self._config.name} was not called: the server says something else of it "
                "than when its tools were last listed. Look at the tool again, then repeat the call if it still fits."
            )

    def list_changed(self, kind: ListKind, connection: Connection) -> None:
        """Handle a change of a list. Of resources and prompts only the first ones matter here."""
        if kind == "tools" or (self.listing is not None and kind in self.listing.lists_none):
            self.changed(connection)

    def changed(self, connection: Connection | None = None) -> None:
        """Fetch the list again, once for several calls of this.

        Prefer the connection that announced the change, if there is one.
        """
        self._again, self._changed_over = True, connection or self._changed_over
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_soon())

    async def _refresh_soon(self) -> None:
        while self._again:
            await asyncio.sleep(max(SETTLE_SECONDS, self._rests_until - time.monotonic()))
            self._again = False
            live = self._live()
            if not live:
                return
            began = time.monotonic()
            try:
                await self.read(self._changed_over if self._changed_over in live else live[0])
            except Exception as error:
                log.warning("%s", error)
            ended = time.monotonic()
            self._rests_until = ended + min(MAX_REST, REST * (ended - began))

    def failed(self, error: str) -> None:
        """Record that the server could not be reached."""
        self.error = error
        if self.listing is None:
            self._cache.failed(self._identity, error)

    def abandon(self) -> None:
        """Forget tasks of a loop that has ended."""
        self._refreshing, self._checking = None, asyncio.Lock()

    async def close(self) -> None:
        """Stop fetching."""
        if self._refreshing is not None and not self._refreshing.done():
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing}, timeout=5)
