"""Keeps connections from crowding out others: those that have shown no token, and those of one token.

A connection is a stranger until one of its requests has passed the guard. Strangers have little time and few places:
the one that came first makes room for the next. After that it is a connection of its token, which may have so many.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as AutoHTTPProtocol
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

MAX_STRANGERS = 128
STRANGER_SECONDS = 15.0
"""How long a connection may take to send its first request with a token."""
MAX_DESCRIPTORS = 65_536

MAX_UNREAD = 128 * 2**20
"""How many bytes of answers may wait because the clients of one token do not read them. With more, the connection on
which they come ends."""

MAX_LINES = 64
"""More lines at once are read in pieces. A chunk of one byte is two lines, and takes as long as one of 64 KiB."""
PIECE = 1_024
"""Bytes of such a piece."""
QUICK = 0.002
"""Seconds of reading that nobody else notices."""
MAX_REST = 2**20
"""A connection that sends more without waiting for answers ends. It may send 256 KiB after each answer."""
SHARE = 4.0
"""After reading for longer, nothing that takes long is read for so many times as long: others have that time."""

Peer = tuple[str, int]


class PacedProtocol(AutoHTTPProtocol):
    """A connection of a server that reads what takes long to read piece by piece, between the requests of others.

    Tiny chunks, or very many small requests, of one client would otherwise keep out all others while they come. The
    connections of a token share the time for such reading, and so do all strangers.
    """

    holder: str | None = None
    """Whose token the connection has shown."""
    _free_at: ClassVar[dict[str | None, float]] = {}
    """When reading may take long again, by the clock of the event loop, for each token."""
    _waits: asyncio.TimerHandle | None = None
    _rest = b""

    def data_received(self, data: bytes) -> None:
        """Read data now, or after the time of others."""
        self._rest += data
        if self._waits is None:
            self._read()
        elif len(self._rest) > MAX_REST:
            self.transport.abort()
        else:
            self.transport.pause_reading()  # uvicorn has resumed it, after an answer

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waits is not None:
            self._waits.cancel()
        self._rest = b""
        super().connection_lost(exc)

    def _read(self) -> None:
        data, self._rest = self._rest, b""
        if len(data) > PIECE and data.count(b"\n") > MAX_LINES:
            data, self._rest = data[:PIECE], data[PIECE:]
        begun = time.thread_time()
        super().data_received(data)
        took = time.thread_time() - begun
        if self.transport.is_closing():
            self._rest = b""
        elif self._rest or took > QUICK:
            free_at = max(self._free_at.get(self.holder, 0.0), self.loop.time()) + took * SHARE
            self._free_at[self.holder] = free_at
            self.transport.pause_reading()
            self._waits = self.loop.call_at(free_at, self._go_on)

    def _go_on(self) -> None:
        self._waits = None
        if self._rest:
            self._read()
        if self._waits is None and not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()


class Strangers:
    """The connections of one server that have shown no token yet, the oldest first."""

    def __init__(self, most: int = MAX_STRANGERS, seconds: float = STRANGER_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._waiting: OrderedDict[Peer, tuple[asyncio.Transport, asyncio.TimerHandle]] = OrderedDict()
        self._known: dict[Peer, str] = {}
        """Whose each other connection is: the token that used it last."""
        self._count: Counter[str] = Counter()
        """How many connections each token has."""
        self._unread: dict[Peer, int] = {}
        """How many bytes of answers wait on each connection that is not read."""

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

    def holder_of(self, client: object) -> str | None:
        """Return whose token a client has shown; None for a stranger."""
        peer = _peer(client)
        return None if peer is None else self._known.get(peer)

    def waits(self, client: object, size: int) -> bool:
        """Note how many bytes of answers a client has not read. Returns whether its token may have so many."""
        peer = _peer(client)
        if peer is None:
            return True
        self._unread[peer] = size
        if not size:
            del self._unread[peer]
        holder = self._known.get(peer)
        return sum(size for each, size in self._unread.items() if self._known.get(each) == holder) <= MAX_UNREAD

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

        class Reported(PacedProtocol):
            """A connection of the server."""

            def connection_made(self, transport: Any) -> None:
                self._peername = transport.get_extra_info("peername")
                strangers.came(transport)
                super().connection_made(transport)

            def data_received(self, data: bytes) -> None:
                self.holder = strangers.holder_of(self._peername)
                super().data_received(data)

            def pause_writing(self) -> None:
                super().pause_writing()
                if not strangers.waits(self._peername, self.transport.get_write_buffer_size()):
                    self.transport.abort()

            def resume_writing(self) -> None:
                strangers.waits(self._peername, 0)
                super().resume_writing()

            def connection_lost(self, exc: Exception | None) -> None:
                strangers.waits(self._peername, 0)
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
