"""Which connection to a server is for whom? One for all, and at most one more for clients of the handshake era."""

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
    """The connectors of one server. `dial(older, who)` makes a connection; `protocol()` is the revision that the server
    chose last time, if that is known."""

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
        """For clients of the handshake era, where the server speaks the later one with others."""
        self.ending: asyncio.Task[None] | None = None
        self._only_modern = False

    def __iter__(self) -> Iterator[Connector]:
        yield self.main
        if self.older is not None:
            yield self.older

    @property
    def live(self) -> list[Connection[Callbacks]]:
        """The connections that there are."""
        return [each.live for each in self if each.live is not None]

    async def of(self, who: Downstream | None) -> Connection[Callbacks]:
        """The connection for a client downstream, None for ourselves; made if needed. Raises McpFailure.

        A client of the handshake era reaches a server that speaks both eras over the handshake era, too: what a tool
        may ask while it runs is not the same in both.
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
            self.ending = asyncio.get_running_loop().create_task(unused.end())  # one process will do
        try:
            return await self.older.up(who)
        except McpFailure:
            if self._protocol() is None or self._protocol() in await handshake_versions():
                raise
            connection = await self.main.up(who)
            self._only_modern = True
            return connection

    async def any(self, who: Downstream | None = None) -> Connection[Callbacks]:
        """A connection that there is, that of this client first; otherwise one for it. Raises McpFailure."""
        live = self.live
        if not live:
            return await self.of(who)
        return live[-1] if who is not None and not who.modern else live[0]

    async def _speaks_both(self) -> bool:
        """Whether the server may know both eras: it was asked and chose the later one, or it was never asked."""
        if self._config.protocol != "auto":
            return False
        if self.main.live is not None:
            return self.main.live.modern
        known = self._protocol()
        return known is None or known not in await handshake_versions()


async def handshake_versions() -> tuple[str, ...]:
    """The revisions of the handshake era."""

    def load() -> tuple[str, ...]:  # the SDK's package: in a thread
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

        return tuple(HANDSHAKE_PROTOCOL_VERSIONS)

    return await asyncio.to_thread(load)
