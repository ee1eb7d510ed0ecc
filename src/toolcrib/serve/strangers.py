"""Keeps connections that have shown no token from crowding out the others.

A connection is a stranger until one of its requests has passed the guard. Strangers have little time and few places:
the one that came first makes room for the next.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

MAX_STRANGERS = 128
STRANGER_SECONDS = 15.0
"""How long a connection may take to send its first request with a token."""

Peer = tuple[str, int]


class Strangers:
    """The connections of one server that have shown no token yet, the oldest first."""

    def __init__(self, most: int = MAX_STRANGERS, seconds: float = STRANGER_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._waiting: OrderedDict[Peer, tuple[asyncio.Transport, asyncio.TimerHandle]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def came(self, transport: asyncio.Transport) -> None:
        """Note a new connection; end the oldest one if there are too many."""
        peer = _peer(transport.get_extra_info("peername"))
        if peer is None:
            return
        timer = asyncio.get_running_loop().call_later(self._seconds, self._end, peer, transport)
        self._waiting[peer] = transport, timer
        if len(self._waiting) > self._most:
            oldest, (its, _) = next(iter(self._waiting.items()))
            self._end(oldest, its)

    def passed(self, client: object) -> None:
        """Note that a request of this client (`scope["client"]`) passed the guard, or that it has gone."""
        peer = _peer(client)
        if peer is not None and (found := self._waiting.pop(peer, None)) is not None:
            found[1].cancel()

    def _end(self, peer: Peer, transport: asyncio.Transport) -> None:
        self.passed(peer)
        transport.abort()

    def protocol(self) -> type[asyncio.Protocol]:
        """Return the protocol with which uvicorn reports its connections here."""
        strangers = self

        class Reported(AutoHTTPProtocol):
            """A connection of the server."""

            def connection_made(self, transport: Any) -> None:
                self._peername = transport.get_extra_info("peername")
                strangers.came(transport)
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                strangers.passed(self._peername)
                super().connection_lost(exc)

        return Reported


def _peer(found: Any) -> Peer | None:
    """Return host and port, without what IPv6 adds to them."""
    return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) and len(found) >= 2 else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
