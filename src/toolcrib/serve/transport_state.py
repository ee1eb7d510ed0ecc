"""The state of one transport of the MCP server: its calls, the calls that wait for answers, its sessions."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from ..core.caller import Caller
from ..core.dataclass import dataclass
from ..sources.mcp.sdk_private import connection_of
from .defaults import SESSION_HEADER
from .outbox import Outbox
from .peer import Peer, caller_of
from .running_call import RunningCall

Request = ServerRequestContext[Any, Any]

MAX_OWN_ID = 200
"""The most characters of a session's own name that count."""
IDLE_SECONDS = 1_800.0
"""A session of a protocol without sessions ends after this time without calls, like those of the handshake era."""
MAX_STATELESS = 1_000
"""How many such sessions a caller may have. One more ends the oldest."""

MAX_STREAMS = 256
"""How many streams of announcements a caller may have in 2026-07-28. Each keeps its request, of up to 0.5 MB."""


@dataclass(slots=True)
class ParkedCall:
    """A call that is paused at a question."""

    call: RunningCall
    peer: Peer
    expiry: asyncio.TimerHandle


@dataclass(slots=True, eq=False)
class HandshakeSession:
    """A session of the handshake era. `level` is the log level that it set; None if it set none."""

    session: ServerSession
    outbox: Outbox
    caller: Caller | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSession:
    """The session of a request: its id, and whether it has to end by itself, because its protocol has no sessions.

    `shared`: nothing tells apart the clients that may use it.
    """

    id: str
    stateless: bool = False
    shared: bool = False


@dataclass(slots=True, eq=False)
class TransportState:
    """The state of one stdio connection, or of the HTTP server with all its clients."""

    loop: asyncio.AbstractEventLoop
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    calls: dict[RunningCall, str] = field(default_factory=dict["RunningCall", str])
    """The calls, each with its caller; without a named token, with its session."""
    waiting: dict[str, ParkedCall] = field(default_factory=dict[str, ParkedCall])
    sessions: dict[int, HandshakeSession] = field(default_factory=dict[int, HandshakeSession])
    streams: dict[str, ListenHandler] = field(default_factory=dict[str, ListenHandler])
    """The streams of announcements in 2026-07-28, by caller."""
    listening: Counter[str] = field(default_factory=Counter[str])
    """How many of these each caller has, with those that wait until their resources are watched."""
    ending: set[str] = field(default_factory=set[str])
    """The sessions of the handshake era for which something is kept that ends with them."""
    last_call: dict[str, float] = field(default_factory=dict[str, float])
    """When each session made its last call, by the monotonic clock."""
    stateless: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """When the sessions of a protocol without sessions were last used, by caller, the oldest first."""
    ends: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """What ends with the transport."""
    announcing: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    def session_of(self, ctx: Request) -> HandshakeSession | None:
        """Return the session of a request; None in 2026-07-28, which has no sessions."""
        return self.sessions.get(id(connection_of(ctx)))

    @contextlib.contextmanager
    def stream_of(self, caller: Caller | None) -> Generator[ListenHandler]:
        """Count one stream of a caller, and yield what serves it. Raises MCPError if the caller has too many."""
        name = caller.name if caller is not None else ""
        if self.listening[name] >= MAX_STREAMS:
            raise MCPError(INTERNAL_ERROR, f"a caller may have {MAX_STREAMS} streams of announcements")
        self.listening[name] += 1
        try:
            yield self.streams.setdefault(name, ListenHandler(self.bus))
        finally:
            self.listening[name] -= 1

    def use(self, session: RequestSession, caller: Caller | None) -> list[str]:
        """Note that a session is used now. Returns those that are over, because nobody has used them."""
        now = time.monotonic()
        over = [
            (known, each) for known in self.stateless.values() for each in known if now - known[each] > IDLE_SECONDS
        ]
        mine: dict[str, float] = {}
        if session.stateless:
            mine = self.stateless.setdefault(caller.name if caller is not None else "", {})
            if session.id not in mine and len(mine) >= MAX_STATELESS:
                over.append((mine, next(iter(mine))))
        for known, each in over:
            known.pop(each, None)
        if session.stateless:
            mine.pop(session.id, None)  # the one that was used last is the last one
            mine[session.id] = now
        return [each for _, each in over]

    def spawn(self, work: Any) -> None:
        """Run something in the background. A reference to the task is held until it ends."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def session_of_request(ctx: Request, transport: TransportState) -> RequestSession:
    """Return the session of a request: the handshake's, or the stdio connection.

    2026-07-28 over HTTP has no sessions. There requests are of one session if they have the same token, address, client
    and value of SESSION_HEADER. Without that header and without a named token, several clients may share it.
    """
    connection, request, caller = connection_of(ctx), ctx.request, caller_of(ctx)
    prefix = "mcp:" if caller is None else f"mcp:{caller.name}:"
    if connection.session_id is not None:
        return RequestSession(f"{prefix}{connection.session_id}")
    if request is None:
        return RequestSession(f"{prefix}{transport.id}")
    params = ctx.session.client_params
    who = params.client_info.model_dump_json() if params else ""
    host = request.client.host if request.client else ""
    own = request.headers.get(SESSION_HEADER, "")[:MAX_OWN_ID]
    text = f"{caller.name if caller else request.headers.get('authorization', '')}\0{host}\0{who}\0{own}"
    shared = caller is None and not own
    return RequestSession(f"{prefix}{hashlib.sha256(text.encode()).hexdigest()[:24]}", stateless=True, shared=shared)
