"""MCP over streamable HTTP: uvicorn and the SDK's session manager behind our own guard.

The guard checks every request before anything reads it: Host, Origin, bearer token. Host and Origin stop a web page in
the user's browser from reaching a local server under a chosen name (DNS rebinding). The token stops everyone else on
the machine or the network.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..core.errors import ConfigError
from .defaults import TOKEN_VARIABLE
from .mcp import McpServer
from .signals import stop_signal
from .strangers import Strangers

if TYPE_CHECKING:
    from ..core.registry import ToolRegistry
    from ..toolbox import Toolbox

log = logging.getLogger("toolcrib.serve")

PATH = "/mcp"
MAX_BODY = 16 * 2**20
"""The largest request body: several times the largest file that a model writes in one call."""
MAX_SESSIONS = 1_000
"""Sessions of the handshake era at once, about 40 kB each. One more is answered with 503."""
MIN_TOKEN = 16
SHUTDOWN_SECONDS = 1
"""How long open connections may take to end by themselves. Handshake-era clients always have one open."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}
REALM = 'Bearer realm="toolcrib"'


def app_of(
    manager: StreamableHTTPSessionManager,
    hosts: frozenset[str],
    token: str | None,
    passed: Callable[[object], None] = lambda _: None,
) -> RequestGuard:
    """Return the ASGI application: `POST /mcp` and the rest of the protocol, behind the guard.

    The caller runs `manager`. `passed` gets the client of each request that the guard lets through.
    """
    return RequestGuard(Starlette(routes=[Route(PATH, StreamableHTTPASGIApp(manager))]), hosts, token, passed)


async def serve(
    box: Toolbox | ToolRegistry,
    host: str,
    port: int,
    *,
    token: str | None,
    allow_hosts: Iterable[str],
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve MCP over HTTP. See `toolcrib.serve.serve_http`."""
    secret, made_up = choose_token(token, host)
    listener = _listen(host, port)
    with listener:
        port = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        names = [*LOOPBACK, *allow_hosts]
        if not _is_any(host):
            names.append(host)
        elif len(names) == len(LOOPBACK):
            _say(
                f"listening on every address, but clients may only call this server {', '.join(LOOPBACK)}; "
                "name the others with --allow-host"
            )
        server = McpServer(box)
        # the SDK's own Host check stays off: ours runs first, is stricter (exact port), and covers every path
        manager = StreamableHTTPSessionManager(server.sdk, max_request_body_size=MAX_BODY, max_sessions=MAX_SESSIONS)
        strangers = Strangers()
        config = uvicorn.Config(
            app_of(manager, authorities(names, port), secret, strangers.passed),
            http=strangers.protocol(), log_level="warning", access_log=False,
            lifespan="off", ws="none", proxy_headers=False, server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )  # fmt: skip
        url = f"http://{shown}:{port}{PATH}"

        def listening() -> None:
            if started is None:
                _say(f"MCP server on {url}")
            if made_up:
                _say(f"clients send this header; set {TOKEN_VARIABLE} to choose the token")
                _say(f"Authorization: Bearer {secret}")
            elif secret is None:
                _say("no token: every program on this machine may call these tools")
            if started is not None:
                started(url)

        await _run(_Uvicorn(config, listening), manager, server, listener)


class _Uvicorn(uvicorn.Server):
    """Uvicorn that reports when it listens and does not handle signals.

    Uvicorn's own signal handling kills the process, including the toolbox.
    """

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._listening()


async def _run(
    web: uvicorn.Server, manager: StreamableHTTPSessionManager, server: McpServer, listener: socket.socket
) -> None:
    """Serve until a signal or a cancellation. Then end in order: calls, sessions with their streams, the web server."""
    with stop_signal() as stopped:
        serving: asyncio.Task[None] | None = None
        stop = asyncio.create_task(stopped.wait())
        try:
            async with manager.run():
                serving = asyncio.create_task(web.serve(sockets=[listener]))
                try:
                    await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    web.should_exit = True
                    with anyio.CancelScope(shield=True):
                        await server.end_calls()
        finally:
            stop.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(stop, return_exceptions=True)
                if serving is not None:
                    await serving


def choose_token(token: str | None, host: str) -> tuple[str | None, bool]:
    """Return the required token (None: none required), and whether it was generated here.

    Raises ConfigError if the token is too weak, or missing where one is needed.
    """
    if token is None:
        token = os.environ.get(TOKEN_VARIABLE) or None
    if token is None:
        return secrets.token_urlsafe(24), True
    if token == "":
        if not is_loopback(host):
            raise ConfigError(f"an MCP server on {host} needs a token: others than this machine can reach it")
        return None, False
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token for the MCP server needs at least {MIN_TOKEN} printable characters, no spaces")
    return token, False


def _listen(host: str, port: int) -> socket.socket:
    # The protocol is named because asyncio turns Nagle's algorithm off only for sockets that are explicitly TCP. With
    # it on, every answer of more than one segment waits 40 ms for the client's delayed acknowledgement.
    hints = {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP, "flags": socket.AI_PASSIVE}
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host.strip("[]") or None, port, **hints)[0]
        listener = socket.socket(family, kind, proto)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise ConfigError(f"the MCP server cannot listen on {host}:{port}: {error}") from None
    return listener


def _is_any(host: str) -> bool:
    return host.strip("[]") in ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)


def _say(text: str) -> None:
    sys.stderr.write(f"toolcrib: {text}\n")
    sys.stderr.flush()


# --- the guard


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def authorities(names: Iterable[str], port: int) -> frozenset[str]:
    """Return the Host headers to accept: each name with our port, or unchanged if it already has a port."""
    accepted: set[str] = set()
    for name in names:
        bare = name.strip().lower().rstrip("/")
        if not bare:
            continue
        if bare.count(":") > 1 and not bare.startswith("["):
            bare = f"[{bare}]"
        has_port = ":" in bare.rsplit("]", 1)[-1]
        accepted.add(bare if has_port else f"{bare}:{port}")
        if not has_port and port in DEFAULT_PORTS.values():
            accepted.add(bare)  # a client omits the scheme's default port
    return frozenset(accepted)


class RequestGuard:
    """ASGI middleware that checks requests.

    `hosts` are whole authorities (`localhost:8808`). If `token` is None, no token is required.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: frozenset[str],
        token: str | None,
        passed: Callable[[object], None] = lambda _: None,
    ) -> None:
        self.app, self.hosts, self._passed = app, hosts, passed
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is None:
            self._passed(scope.get("client"))
            await self.app(scope, receive, send)
            return
        status, text, extra = refusal
        log.warning("refused a request: %s", text)
        await PlainTextResponse(text, status, extra)(scope, receive, send)

    def _refusal(self, headers: Headers) -> tuple[int, str, Mapping[str, str]] | None:
        host = _only(headers, "host")
        if host is None or host.lower() not in self.hosts:
            return 421, "Invalid Host header", {}
        if "origin" in headers:
            origin = _only(headers, "origin")
            if origin is None or not self._origin_ok(origin):
                return 403, "Invalid Origin header", {}
        if self._token is not None:
            given = _only(headers, "authorization")
            if given is None:
                return 401, "A bearer token is needed", {"WWW-Authenticate": REALM}
            scheme, _, value = given.partition(" ")
            right = hmac.compare_digest(value.strip().encode("latin-1"), self._token)
            if scheme.lower() != "bearer" or not right:
                return 401, "The bearer token is wrong", {"WWW-Authenticate": f'{REALM}, error="invalid_token"'}
        return None

    def _origin_ok(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin.lower())
            port = parts.port or DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            return False
        if parts.scheme not in DEFAULT_PORTS or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return False
        return parts.netloc in self.hosts or f"{parts.netloc}:{port}" in self.hosts


def _only(headers: Headers, name: str) -> str | None:
    """Return a header's value; None if it is missing or repeated, because then it is unclear which value counts."""
    found = headers.getlist(name)
    return found[0].strip() if len(found) == 1 else None
