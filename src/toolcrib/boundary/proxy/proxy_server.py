"""The proxy for CONNECT and plain HTTP: it judges every request and dials only judged addresses.

A client inside a sandbox, or a browser, has no other way out. TLS is opened only for hosts that get a secret
(`egress`): of other CONNECT tunnels the proxy does not see the content, their server name included.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import h11

from ...core.dataclass import dataclass
from ...core.errors import AddressRefused
from ..network.resolve import RULE_UNRESOLVED
from ..network.special_addresses import Address
from ..network.url import Target
from .dialling import LINGER_SECONDS, Dial, Streams, dial_directly, end_connection
from .domains import Admit
from .forwarding import Forwarded, relay_bytes
from .request_head import BadRequest, Inbox, ProxyRequest, read_request

if TYPE_CHECKING:
    from .egress import Egress

log = logging.getLogger(__name__)

_LINGER_BYTES = 1 << 20
_MAX_REFUSALS = 50  # refusals that are stored with their reason
_PATIENCE = 200  # later refusals are delayed: a client that asks in a loop must not keep the host busy
_PENALTY_SECONDS = 0.5
_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """The limits in seconds, bytes and counts. `idle` is time without a byte in either direction; `dial` is for all
    addresses."""

    head_bytes: int = 64 * 1024
    head_seconds: float = 30.0
    idle: float = 300.0
    dial: float = 20.0
    connections: int = 64


@dataclass(frozen=True, slots=True)
class ProxyRefusal:
    """A connection that was refused. `where` is host:port."""

    where: str
    reason: str
    rule: str | None


class FilteringProxy:
    """A proxy over given listening sockets, in the loop that calls `serve`.

        guard = AddressGuard(settings.web)                  # as for our own requests
        password = secrets.token_urlsafe(24)
        proxy = FilteringProxy(guard.admit, credential=("toolcrib", password), dial=dialling(guard.settings))
        listener = loopback_listener()                       # 127.0.0.1, a free port
        await proxy.serve(listener)                          # returns at once; the proxy runs in this loop
        ...                                                  # http://127.0.0.1:PORT, with user name and password
        await proxy.close()                                  # ends every connection, too

    `admit(host, port)` returns the addresses to dial or raises AddressRefused. It is `AddressGuard.admit`, or
    `only(patterns, guard)` for certain domains. It is called for every CONNECT and every plain request, also for later
    ones on the same connection. `credential` is a user name and password that clients must show (Proxy-Authorization:
    Basic). It keeps other users of the machine off the loopback port; without one, every client is served.
    `dial` makes the connections: `dialling(settings)` goes through `web.proxy` where one is set. `egress` are secrets
    that the proxy puts into requests.

    A refused request gets an answer that says what was refused, why, and which setting would allow it. The refusal is
    stored in `refused`, and `on_refused` is called, in the loop. `http` uses plain requests, everything else (https,
    ws, wss) uses CONNECT. One proxy may serve several listeners; a closed one serves no more.
    """

    def __init__(
        self,
        admit: Admit,
        *,
        credential: tuple[str, str] | None = None,
        dial: Dial = dial_directly,
        limits: ProxyLimits | None = None,
        egress: Egress | None = None,
        on_refused: Callable[[ProxyRefusal], object] | None = None,
    ) -> None:
        self.limits = limits or ProxyLimits()
        self.refused: dict[str, ProxyRefusal] = {}
        """The first refusals, by host:port."""
        self._admit, self._dial, self._egress = admit, dial, egress
        self._credential = None if credential is None else base64.b64encode(":".join(credential).encode())
        self._on_refused = on_refused
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.Task[None]] = set()
        self._closed = False
        self._refusals = 0

    async def serve(self, listener: socket.socket) -> None:
        """Serve the connections to a listening TCP socket. The proxy owns the socket and closes it."""
        if self._closed:
            listener.close()
            raise RuntimeError("this proxy was closed")
        listener.setblocking(False)
        server = await asyncio.start_server(self._accepted, sock=listener, start_serving=False)
        self._servers.append(server)  # before anything can be cancelled, so that `close` finds it
        await server.start_serving()

    async def close(self) -> None:
        """Stop listening and end every connection."""
        self._closed = True
        for listener in [each for server in self._servers for each in server.sockets]:
            with contextlib.suppress(NotImplementedError):  # the loop of Windows
                asyncio.get_running_loop().remove_reader(listener)
        await asyncio.sleep(0)  # what was just accepted begins: without its server it would stay open for ever
        for server in self._servers:
            server.close()
        clients = list(self._clients)
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    # --- one client

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        crowded = self._closed or len(self._clients) >= self.limits.connections
        self._clients.add(task)
        try:
            if crowded:
                writer.write(_answer(BadRequest(503, "too many connections at once through the proxy")))
                await writer.drain()
            else:
                await self._serve_client(Inbox(reader), writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client has gone or is done, or the proxy closes: asyncio would only log it
        except Exception:
            log.exception("the proxy failed at a request")
        finally:
            self._clients.discard(task)
            await end_connection(writer)

    async def _serve_client(self, inbox: Inbox, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                again = await self._serve_request(inbox, writer)
            except BadRequest as refused:
                self._note(refused)
                if self._refusals > _PATIENCE:
                    await asyncio.sleep(_PENALTY_SECONDS)
                writer.write(_answer(refused))
                await writer.drain()
                await _linger(inbox, writer)
                return
            if not again:
                return

    async def _serve_request(self, inbox: Inbox, writer: asyncio.StreamWriter, opened: Target | None = None) -> bool:
        """Serve one request. Return whether another may follow. `opened` is the target of the tunnel around it, if the
        proxy opened its TLS."""
        async with asyncio.timeout(self.limits.head_seconds):
            head = await inbox.head(self.limits.head_bytes)
        if head is None:
            return False
        conn = h11.Connection(h11.SERVER, max_incomplete_event_size=self.limits.head_bytes)
        try:
            conn.receive_data(head)
            event = conn.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(400, f"this is not an HTTP request: {error}") from None
        if not isinstance(event, h11.Request):
            raise BadRequest(400, "this is not a complete HTTP request")
        if opened is None:
            self._judge_credential(event)
        request = read_request(event, opened)
        if self._egress is not None and request.tunnel and self._egress.opens(request.where):
            await self._addresses(request)
            await self._open(self._egress, request, inbox, writer)
            while await self._serve_request(inbox, writer, request.target):
                pass
            return False
        if self._egress is not None and not request.tunnel:
            request = self._egress.put_in(request, opened is not None)
        server = await self._connect(request)
        try:
            if request.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await relay_bytes(inbox, writer, *server, self.limits.idle)
                return False
            return await self._forward(request, conn, inbox, writer, server)
        finally:
            await end_connection(server[1])

    async def _forward(
        self, request: ProxyRequest, conn: h11.Connection, inbox: Inbox, writer: asyncio.StreamWriter, server: Streams
    ) -> bool:
        limits, opened = self.limits, request.target.scheme == "https"
        masker = self._egress.masker() if self._egress is not None and opened else None
        forwarded = Forwarded(request, conn, inbox, writer, *server, limits.head_bytes, limits.idle, masker)
        try:
            return await forwarded.run()
        except (OSError, h11.ProtocolError, BadRequest) as error:  # TimeoutError is an OSError
            if forwarded.begun:  # the client must see that it is not whole
                writer.transport.abort()
                return False
            if isinstance(error, BadRequest):
                raise
            status = 504 if isinstance(error, TimeoutError) else 502
            why = str(error) or "it took too long"
            if masker is not None and not isinstance(error, OSError):  # it may show what the server said
                why = "it is not HTTP"
            raise BadRequest(status, f"{request.where} gave no usable answer: {why}") from None

    async def _open(self, egress: Egress, request: ProxyRequest, inbox: Inbox, writer: asyncio.StreamWriter) -> None:
        """Answer a CONNECT, and the TLS in it."""
        if not inbox.empty:
            raise BadRequest(400, "TLS begins after the answer to CONNECT")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.start_tls(egress.context(str(request.target.host)), ssl_handshake_timeout=self.limits.head_seconds)

    def _judge_credential(self, event: h11.Request) -> None:
        if self._credential is None:
            return
        for name, value in event.headers:
            scheme, _, given = value.strip().partition(b" ")
            basic = name == b"proxy-authorization" and scheme.lower() == b"basic"
            if basic and hmac.compare_digest(given.strip(), self._credential):
                return
        raise BadRequest(407, "this proxy serves one session of Toolcrib, which knows its password")

    async def _addresses(self, request: ProxyRequest) -> Sequence[Address]:
        where, target = request.where, request.target
        try:
            return await self._admit(str(target.host), target.port)
        except AddressRefused as error:
            status = 502 if error.rule == RULE_UNRESOLVED else 403
            raise BadRequest(status, str(error), error.rule, where) from None
        except Exception:  # a check that fails is a refusal
            log.exception("the proxy could not judge %s", where)
            raise BadRequest(403, "it could not be judged", None, where) from None

    async def _connect(self, request: ProxyRequest) -> Streams:
        where, host, port = request.where, str(request.target.host), request.target.port
        addresses = await self._addresses(request)
        try:
            async with asyncio.timeout(self.limits.dial):
                streams = await self._dial(host, addresses, port)
                if self._egress is not None and request.target.scheme == "https":
                    try:
                        await streams[1].start_tls(self._egress.trusted, server_hostname=host)
                    except BaseException:
                        await end_connection(streams[1])
                        raise
                return streams
        except TimeoutError:
            raise BadRequest(504, f"{where} cannot be reached: it took too long") from None
        except OSError as error:
            raise BadRequest(502, f"{where} cannot be reached: {error.strerror or error}") from None

    def _note(self, refused: BadRequest) -> None:
        self._refusals += 1
        if refused.where is None:
            return
        where = refused.where[:_MAX_SHOWN]
        log.info("the proxy refused %s: %s", where, refused.text)
        refusal = ProxyRefusal(where, refused.text, refused.rule)
        if where not in self.refused and len(self.refused) < _MAX_REFUSALS:
            self.refused[where] = refusal
        if self._on_refused is not None:
            self._on_refused(refusal)


def loopback_listener() -> socket.socket:
    """Return a listening socket on a free port of 127.0.0.1."""
    return socket.create_server(("127.0.0.1", 0), backlog=128)


def _answer(refused: BadRequest) -> bytes:
    """Return an answer of the proxy. The reason is in its first line, too: most clients show only that line of a
    failed CONNECT."""
    where = f"{refused.where}: " if refused.where else ""
    text = f"{where}{refused.text}"[: 10 * _MAX_SHOWN]
    line = "".join(c if " " <= c <= "~" else "?" for c in text)[:_MAX_SHOWN]
    said = "refused" if refused.status in (403, 407) else "failed"
    body = f"Toolcrib's proxy {said} this request.\n{text}\n".encode()
    head = [
        f"HTTP/1.1 {refused.status} {line}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(['Proxy-Authenticate: Basic realm="toolcrib"'] if refused.status == 407 else []),
    ]
    return "\r\n".join([*head, "", ""]).encode("ascii") + body


async def _linger(inbox: Inbox, writer: asyncio.StreamWriter) -> None:
    """Let a client that still sends read the answer first: closing with unread bytes would reset the connection."""
    with contextlib.suppress(OSError, TimeoutError):
        if writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(LINGER_SECONDS):
            taken = 0
            while taken < _LINGER_BYTES and (data := await inbox.some()):
                taken += len(data)
