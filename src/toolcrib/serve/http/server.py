"""MCP over streamable HTTP: uvicorn and the SDK's session manager behind our own guard."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

from ...boundary.network.strangers import Strangers, connections_of_one, raise_descriptors
from ...core.registry import ToolRegistry
from ...policy.secrets.logs import log_little
from ...sources.mcp.sdk_private import forget_messages, refuse_odd_ids, session_manager
from ..addressed import LOOPBACK, authorities
from ..defaults import TOKEN_VARIABLE
from ..listening import ReportingServer, listen
from ..mcp import McpServer
from ..server_reloading import Reloader, reloading
from ..signals import stop_signal
from ..trimming import trimming
from .event_store import RETRY_MS, EventMemory
from .guard import MAX_BODY, RequestGuard
from .monitoring import Monitoring
from .tokens import Token, Tokens, choose_token, digest_of, named_tokens, refuse_open_server

if TYPE_CHECKING:
    from ...config import Settings
    from ...toolbox import Toolbox

PATH = "/mcp"
MAX_SESSIONS = 1_000
"""Sessions of the handshake era of a caller at once, about 40 kB each. One more is answered with 503."""
KEEP_ALIVE_SECONDS = 60
"""How long a connection stays open without a request. Clients close theirs after 4 or 5 s: if we did so at the same
moment, a request would sometimes be lost."""
BACKLOG = 128
"""How many connections wait to be accepted. Without descriptors, asyncio reports each of them, each second."""
_LOGGERS = (
    "toolcrib.serve", "uvicorn.error", "mcp.server.runner", "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager", "mcp.shared.jsonrpc_dispatcher",
)  # fmt: skip
"""They say something for each wrong request, also of strangers."""
SHUTDOWN_SECONDS = 1
"""How long open connections may take to end by themselves. Handshake-era clients always have one open."""


async def serve(
    box: Toolbox | ToolRegistry,
    host: str,
    port: int,
    *,
    token: str | None,
    allow_hosts: Iterable[str],
    started: Callable[[str], None] | None = None,
    reload: Callable[[], Settings] | None = None,
) -> None:
    """Serve MCP over HTTP. See `toolcrib.serve.serve_http`."""
    named = named_tokens(box.settings.serve) if not isinstance(box, ToolRegistry) else ()
    secret, made_up = choose_token(token, host, named)
    single = () if secret is None else (Token(digest_of(secret.encode())),)
    tokens = Tokens((*single, *named), required=bool(single or named))
    listener = listen(host, port, "the MCP server")
    with listener:
        port = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        names = [*LOOPBACK, *allow_hosts]
        if not _is_any(host):
            names.append(host)
        elif len(names) == len(LOOPBACK):
            _say(
                f"listening on every address, but clients may name this server only as {', '.join(LOOPBACK)}; "
                "--allow-host NAME allows another name or address"
            )
        server = McpServer(box)
        # the SDK's own Host check stays off: ours runs first, is stricter (exact port), and covers every path
        refuse_odd_ids()
        forget_messages()
        log_little(*_LOGGERS)
        manager = session_manager(
            server.sdk, EventMemory().store, max_sessions=MAX_SESSIONS, max_request_body_size=MAX_BODY,
            retry_interval=RETRY_MS,
        )  # fmt: skip
        strangers, monitoring = Strangers(), Monitoring(server)
        app = Starlette(routes=[Route(PATH, StreamableHTTPASGIApp(manager)), *monitoring.routes()])
        raise_descriptors()

        def admit(client: object, holder: str, tokens: int) -> bool:
            return strangers.passed(client, holder, connections_of_one(tokens))

        guard = RequestGuard(app, authorities(names, port), tokens, admit)
        monitoring.refused = guard.refused
        config = uvicorn.Config(
            guard,
            http=strangers.protocol(), log_level="warning", log_config=None, access_log=False,
            lifespan="off", ws="none", proxy_headers=False, server_header=False, backlog=BACKLOG,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )  # fmt: skip
        url = f"http://{shown}:{port}{PATH}"

        def listening() -> None:
            if started is None:
                _say(f"MCP server on {url}")
            if made_up:
                _say(f"clients send this header; set {TOKEN_VARIABLE} to choose the token")
                _say(f"Authorization: Bearer {secret}")
            elif not tokens.required:
                _say("no token: every program on this machine may call these tools")
            if started is not None:
                started(url)

        watched = reload is not None or any(each.monitoring for each in named)
        unlisten = monitoring.listen() if watched else lambda: None
        reloader: Reloader | None = None
        if reload is not None and not isinstance(box, ToolRegistry):

            def use_tokens(settings: Settings) -> Callable[[], None]:
                found = named_tokens(settings.serve, guard.tokens)
                if not tokens.required:
                    refuse_open_server(found)
                return lambda: guard.use(Tokens((*single, *found), required=tokens.required))

            reloader = Reloader(box, reload, use_tokens, lambda outcome: monitoring.reloads.update((outcome,)))
        try:
            await _run(ReportingServer(config, listening), manager, server, listener, reloader)
        finally:
            unlisten()


async def _run(
    web: uvicorn.Server,
    manager: StreamableHTTPSessionManager,
    server: McpServer,
    listener: socket.socket,
    reloader: Reloader | None,
) -> None:
    """Serve until a signal or a cancellation. Then end in order: calls, sessions with their streams, the web server."""
    hung_up = asyncio.Event()
    with stop_signal(None if reloader is None else hung_up) as stopped, reloading(reloader, hung_up), trimming():
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


def _is_any(host: str) -> bool:
    return host.strip("[]") in ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)


def _say(text: str) -> None:
    sys.stderr.write(f"toolcrib: {text}\n")
    sys.stderr.flush()
