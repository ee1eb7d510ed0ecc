"""Keeps connections from crowding out others: those that have shown no token, and those of one token.

A connection is a stranger until one of its requests has passed the guard. Strangers have little time and few places:
the one that came first makes room for the next. After that it is a connection of its token, which may have so many.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

MAX_STRANGERS = 128
STRANGER_SECONDS = 15.0
"""How long a connection may take to send its first request with a token."""
MAX_DESCRIPTORS = 65_536

Peer = tuple[str, int]


class Strangers:
    """The connections of one server that have shown no token yet, the oldest first."""

    def __init__(self, most: int = MAX_STRANGERS, seconds: float = STRANGER_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._waiting: OrderedDict[Peer, tuple[asyncio.Transport, asyncio.TimerHandle]] = OrderedDict()
        self._known: dict[Peer, str] = {}
        """Whose each other connection is: the token that used it last."""
        self._count: Counter[str] = Counter()
        """How many connections each token has."""

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

    def passed(self, client: object, holder: str, most: int) -> bool:
        """Note that a client (`scope["client"]`) has shown a token. Returns whether that token has at most `most`
        connections; if not, the client stays what it was."""
        peer = _peer(client)
        if peer is None or self._known.get(peer) == holder:
            return True
        if self._count[holder] >= most:
            return False
        self.gone(peer)
        self._known[peer] = holder
        self._count[holder] += 1
        return True

    def gone(self, client: object) -> None:
        """Forget a connection."""
        peer = _peer(client)
        if peer is None:
            return
        if (found := self._waiting.pop(peer, None)) is not None:
            found[1].cancel()
        if (holder := self._known.pop(peer, None)) is not None:
            self._count[holder] -= 1

    def _end(self, peer: Peer, transport: asyncio.Transport) -> None:
        self.gone(peer)
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
                strangers.gone(self._peername)
                super().connection_lost(exc)

        return Reported


def _peer(found: Any) -> Peer | None:
    """Return host and port, without what IPv6 adds to them."""
    return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) and len(found) >= 2 else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def connections_of_one(tokens: int) -> int:
    """Return how many connections one of so many tokens may have: all together use half of the descriptors that the
    process may open."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except ImportError:  # Windows
        most = MAX_DESCRIPTORS
    return max(most // 2 // max(tokens, 1), 1)


def raise_descriptors() -> None:
    """Let this process open as many descriptors as it may, up to MAX_DESCRIPTORS. The usual limit is 1,024."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS may allow fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
