"""Choose the connection for each client: one for all, and at most one more for clients of the handshake era."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from .connector import Connector, ConnectorEvents
from .failure import McpFailure

if TYPE_CHECKING:
    from .callbacks import Callbacks
    from .config import ServerConfig
    from .connection import Connection
    from .downstream import Downstream


class Connectors:
    """The connectors of one server.

    `dial(older, who)` makes a connection. `protocol()` is the revision that the server chose last time, if it is
    known.
    """

    def __init__(
        self,
        config: ServerConfig,
        dial: Callable[[bool, Downstream | None], Awaitable[Connection[Callbacks]]],
        events: ConnectorEvents,
        protocol: Callable[[], str | None],
    ) -> None:
        self._config, self._dial, self._events, self._protocol = config, dial, events, protocol
        self.main = Connector(config, partial(dial, False), events)
        self.older: Connector | None = None
        """For clients of the handshake era, if the server uses the later one with other clients."""
        self.ending: asyncio.Task[None] | None = None
        self._only_modern = False

    def __iter__(self) -> Iterator[Connector]:
        yield self.main
        if self.older is not None:
            yield self.older

    @property
    def live(self) -> list[Connection[Callbacks]]:
        """The live connections."""
        return [each.live for each in self if each.live is not None]

    async def of(self, who: Downstream | None) -> Connection[Callbacks]:
        """Return the connection for a downstream client, or None for ourselves. Make it if needed. Raises McpFailure
        if it fails.

        A client of the handshake era uses the handshake era also with a server that supports both eras, because the
        two eras differ in what a tool may ask while it runs.
        """
        old = who is not None and not who.modern
        if old and self.older is not None and self.older.live is not None:
            return self.older.live
        if not old or self._only_modern or not await self._speaks_both():
            return await self.main.up(who)
        if self.older is None:
            self.older = Connector(self._config, partial(self._dial, True), self._events)
        unused = self.main.live
        if self.older.live is None and self._config.url is None and unused is not None and not unused.used:
            self.ending = asyncio.get_running_loop().create_task(unused.end())  # one process is enough
        try:
            return await self.older.up(who)
        except McpFailure:
            if self._protocol() is None or self._protocol() in await handshake_versions():
                raise
            connection = await self.main.up(who)
            self._only_modern = True
            return connection

    async def any(self, who: Downstream | None = None) -> Connection[Callbacks]:
        """Return any live connection, preferably this client's; otherwise make one for it.

        Raises McpFailure if it fails.
        """
        live = self.live
        if not live:
            return await self.of(who)
        return live[-1] if who is not None and not who.modern else live[0]

    async def _speaks_both(self) -> bool:
        """Whether the server may support both eras: it was asked and chose the later one, or it was never asked."""
        if self._config.protocol != "auto":
            return False
        if self.main.live is not None:
            return self.main.live.modern
        known = self._protocol()
        return known is None or known not in await handshake_versions()


async def handshake_versions() -> tuple[str, ...]:
    """Return the revisions of the handshake era."""

    def load() -> tuple[str, ...]:  # import the SDK's package in a thread
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        return tuple(HANDSHAKE_PROTOCOL_VERSIONS)

    return await asyncio.to_thread(load)
