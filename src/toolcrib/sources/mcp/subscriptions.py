"""The subscriptions of downstream clients at one server: changes of resources, and its log from some level on.

A server reports over one connection at a time. When that is lost, it reports over the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections import Counter
from typing import TYPE_CHECKING

from .connector import MAX_DELAY, MIN_DELAY, Connectors, McpFailure
from .downstream import Downstream
from .relay import Relay, ResourceChanged

if TYPE_CHECKING:
    from .connection import Connection

log = logging.getLogger("toolcrib.mcp")


class Subscriptions:
    """The subscriptions at one server. Used on its loop."""

    def __init__(self, name: str, connectors: Connectors, relay: Relay) -> None:
        self._name, self._connectors, self._relay = name, connectors, relay
        self.level: str | None = None
        """The least severe level of log messages (up to 2025-11-25); None means the server's default."""
        self._uris: Counter[str] = Counter()
        self._renewing: asyncio.Task[None] | None = None

    async def add(self, uri: str, who: Downstream | None = None) -> None:
        """Subscribe to changes of a resource, until `remove` was called as often.

        Raises McpFailure if there is no connection, and MCPError if the server refuses.
        """
        with self._connectors.used_by(who):
            connection = await self._connectors.of(who)
            self._uris[uri] += 1
            try:
                await (self._watching or connection).notifications.watch(self._uris)
            except BaseException:
                self._forget(uri)
                raise

    async def remove(self, uri: str) -> None:
        """Undo one `add` of this resource."""
        self._forget(uri)
        if self._watching is not None:
            await self._watching.notifications.watch(self._uris)

    async def tell_level(self) -> None:
        """Send the log level over all live connections."""
        for connection in self._connectors.live:
            if self.level is not None:
                await connection.notifications.level(self.level)

    async def take_up(self, connection: Connection) -> None:
        """Subscribe again over a new connection, if the previous one is gone."""
        from mcp.shared.exceptions import MCPError

        try:
            if self.level is not None:
                await connection.notifications.level(self.level)
            if self._uris and self._watching is None:
                await connection.notifications.watch(self._uris)
        except (MCPError, TimeoutError) as error:
            log.warning("MCP server %s no longer reports changes: %s", self._name, error)

    def renew(self) -> None:
        """Subscribe again over another connection after one is over, without waiting for a call."""
        if self._unheard and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.get_running_loop().create_task(self._renew(), context=contextvars.Context())

    async def _renew(self) -> None:
        delay = MIN_DELAY
        while missed := self._unheard:
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_DELAY)
            with contextlib.suppress(McpFailure):
                await self._connectors.main.up()
                for uri in missed:  # it may have changed in the meantime
                    self._relay.tell(ResourceChanged(self._name, uri))

    def close(self) -> None:
        """Stop subscribing again."""
        if self._renewing is not None:
            self._renewing.cancel()

    @property
    def _unheard(self) -> tuple[str, ...]:
        """The subscribed resources while no connection reports their changes."""
        wanted = self._watching is None and self._connectors.main.state != "closed"
        return tuple(self._uris) if wanted else ()

    @property
    def _watching(self) -> Connection | None:
        """The connection over which the server announces changes."""
        return next((each for each in self._connectors.live if each.notifications.watching), None)

    def _forget(self, uri: str) -> None:
        self._uris[uri] -= 1
        if self._uris[uri] <= 0:
            del self._uris[uri]
