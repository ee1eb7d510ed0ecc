"""The state of one transport of the MCP server: its calls, the calls that wait for answers, its sessions."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from ..core.dataclass import dataclass
from ..core.recent import Recent
from ..sources.mcp.sdk_private import connection_of
from .peer import Peer
from .running_call import RunningCall

Request = ServerRequestContext[Any, Any]


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
    level: str | None = None


@dataclass(slots=True, eq=False)
class TransportState:
    """The state of one stdio connection, or of the HTTP server with all its clients."""

    loop: asyncio.AbstractEventLoop
    listen: ListenHandler
    bus: InMemorySubscriptionBus
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    calls: set[RunningCall] = field(default_factory=set["RunningCall"])
    waiting: dict[str, ParkedCall] = field(default_factory=dict[str, ParkedCall])
    sessions: dict[int, HandshakeSession] = field(default_factory=dict[int, HandshakeSession])
    last_call: Recent[str, float] = field(default_factory=lambda: Recent[str, float](1000))
    announcing: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    def session_of(self, ctx: Request) -> HandshakeSession | None:
        """Return the session of a request; None in 2026-07-28, which has no sessions."""
        return self.sessions.get(id(connection_of(ctx)))

    def spawn(self, work: Any) -> None:
        """Run something in the background. A reference to the task is held until it ends."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def session_id(ctx: Request, transport: TransportState) -> str:
    """Return the id of one conversation.

    It is the handshake's session, or the stdio connection. 2026-07-28 over HTTP has no sessions: there the id is
    derived from credential, address and client.
    """
    connection = connection_of(ctx)
    if connection.session_id is not None:
        return f"mcp:{connection.session_id}"
    request = ctx.request
    if request is None:
        return f"mcp:{transport.id}"
    params = ctx.session.client_params
    who = params.client_info.model_dump_json() if params else ""
    host = request.client.host if request.client else ""
    text = f"{request.headers.get('authorization', '')}\0{host}\0{who}"
    return f"mcp:{hashlib.sha256(text.encode()).hexdigest()[:24]}"
