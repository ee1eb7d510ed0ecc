"""MCP over streamable HTTP: uvicorn and the SDK's session manager behind our own guard."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from ..core.errors import ConfigError
from . import TOKEN_VARIABLE
from .guard import LOOPBACK, Guard, authorities, is_loopback
from .mcp import McpServer

if TYPE_CHECKING:
    from ..core.registry import ToolRegistry
    from .served import Served

log = logging.getLogger("toolcrib.serve")

PATH = "/mcp"
MAX_BODY = 16 * 2**20
"""Largest request body: several times the largest file that a model writes in one call."""
MIN_TOKEN = 16
SHUTDOWN_SECONDS = 3


def app_of(server: McpServer, hosts: frozenset[str], token: str | None) -> Guard:
    """The ASGI application: `POST /mcp` and the rest of the protocol, behind the guard."""
    # the SDK's own Host check is off: ours runs first, is stricter (exact port), and covers every path
    manager = StreamableHTTPSessionManager(server.sdk, max_request_body_size=MAX_BODY)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Route(PATH, StreamableHTTPASGIApp(manager))], lifespan=lifespan)
    return Guard(app, hosts, token)


async def serve(
    box: Served | ToolRegistry,
    host: str,
    port: int,
    *,
    token: str | None,
    allow_hosts: Iterable[str],
    started: Callable[[str], None] | None = None,
) -> None:
    """See `toolcrib.serve.serve_http`."""
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
        app = app_of(McpServer(box), authorities(names, port), secret)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="on", ws="none", proxy_headers=False,
            server_header=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )  # fmt: skip
        url = f"http://{shown}:{port}{PATH}"
        _say(f"MCP server on {url}")
        if made_up:
            _say(f"clients send this header; set {TOKEN_VARIABLE} to choose the token")
            _say(f"Authorization: Bearer {secret}")
        elif secret is None:
            _say("no token: every program on this machine may call these tools")
        if started is not None:
            started(url)
        await uvicorn.Server(config).serve(sockets=[listener])


def choose_token(token: str | None, host: str) -> tuple[str | None, bool]:
    """The token to ask for (None: none), and whether it was made up here. Raises ConfigError."""
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
    bare = host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"the MCP server cannot listen on {host}:{port}: {error}") from None


def _is_any(host: str) -> bool:
    return host.strip("[]") in ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)


def _say(text: str) -> None:
    sys.stderr.write(f"toolcrib: {text}\n")
    sys.stderr.flush()
