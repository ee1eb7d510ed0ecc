"""What clients behind us want to hear of a server: changes of resources, and its log from some level on.

It is asked for over one connection of the server at a time, and again over the next when that one is lost.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Connection
    from .connector import Connector

log = logging.getLogger("toolcrib.mcp")


class Subscriptions:
    """For one server; `lines` are the ways to it."""

    def __init__(self, connectors: Callable[[], Sequence[Connector]]) -> None:
        self.level: str | None = None
        self._connectors = connectors
        self._uris: Counter[str] = Counter()

    @property
    def unheard(self) -> tuple[str, ...]:
        """What somebody wants to hear of while there is no connection to hear it over."""
        return tuple(self._uris) if self._over() is None else ()

    async def add(self, uri: str, connector: Connector, connection: Connection) -> None:
        """Listen for changes of a resource, over this connection if over none yet. Raises what the server raises."""
        over = self._over() or connection
        self._uris[uri] += 1
        try:
            await over.notifications.watch(self._uris)
        except BaseException:
            self._forget(uri)
            raise

    async def remove(self, uri: str) -> None:
        """Stop listening, once this was called as often as `add`."""
        self._forget(uri)
        over = self._over()
        if over is not None:
            await over.notifications.watch(self._uris)

    async def tell_level(self) -> None:
        """Tell the level to whoever has not heard it."""
        for connector in self._connectors():
            if self.level is not None and connector.alive and connector.connection is not None:
                await connector.connection.notifications.level(self.level)

    async def take_up(self, connector: Connector, connection: Connection) -> None:
        """A new connection: what was listened for over one that is gone is listened for again."""
        from mcp.shared.exceptions import MCPError

        try:
            if self.level is not None:
                await connection.notifications.level(self.level)
            if self._uris and self._over() is None:
                await connection.notifications.watch(self._uris)
        except (MCPError, TimeoutError) as error:
            log.warning("MCP server %s does not tell what it told before: %s", connection.name, error)

    def _over(self) -> Connection | None:
        """The connection that is listened over."""
        for connector in self._connectors():
            if (
                connector.alive
                and connector.connection is not None
                and connector.connection.notifications.subscriptions
            ):
                return connector.connection
        return None

    def _forget(self, uri: str) -> None:
        self._uris[uri] -= 1
        if self._uris[uri] <= 0:
            del self._uris[uri]
