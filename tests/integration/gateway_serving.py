"""How the fixture servers for the gateway are served: over stdio or HTTP, in both protocol eras or only one of them.

    python SERVER.py [--http PORT] [--era both|handshake|modern]

Over HTTP the address is the first line on stderr. Nothing here knows Toolcrib: it is what an author of a server on the
official SDK writes who wants old and new clients to be told of changes and asked questions alike.
"""

from __future__ import annotations

import argparse
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import anyio
import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
ANSWERS: Mapping[str, type[types.Result]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}

warnings.filterwarnings("ignore", category=MCPDeprecationWarning)  # old clients are served, too


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the request came in the era without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """The connection behind a request; the SDK has no public way to it from a handler."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


@dataclass
class Audience:
    """Everyone who wants to hear of changes: `subscriptions/listen` streams and connections of the handshake era."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    connections: WeakSet[Connection] = field(default_factory=WeakSet[Connection])

    def serve(self, server: Server[Any]) -> None:
        """Add what the handshake era asks for: subscriptions, log levels, and who is connected."""
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._connected)
        made = server.create_initialization_options
        every = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        server.create_initialization_options = lambda *_, **more: made(every, **more)

    async def _connected(self, ctx: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        self.connections.add(connection_of(ctx))

    async def _subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        connection_of(ctx).state.setdefault("uris", set()).add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        connection_of(ctx).state.setdefault("uris", set()).discard(str(params.uri))
        return types.EmptyResult()

    async def _set_level(
        self, ctx: ServerRequestContext[Any, Any], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        connection_of(ctx).state["level"] = params.level
        return types.EmptyResult()

    async def log(self, ctx: ServerRequestContext[Any, Any], level: Any, data: Any, logger: str | None = None) -> None:
        """Log for the client of this request, if it wants that level."""
        wanted = connection_of(ctx).state.get("level", "debug")
        if LEVELS.index(level) >= LEVELS.index(wanted):
            await ctx.session.send_log_message(level, data, logger, ctx.request_id)

    async def tools_changed(self) -> None:
        await self.bus.publish(ToolsListChanged())
        await self._tell(lambda connection: connection.send_tool_list_changed())

    async def prompts_changed(self) -> None:
        await self.bus.publish(PromptsListChanged())
        await self._tell(lambda connection: connection.send_prompt_list_changed())

    async def resources_changed(self) -> None:
        await self.bus.publish(ResourcesListChanged())
        await self._tell(lambda connection: connection.send_resource_list_changed())

    async def updated(self, uri: str) -> None:
        """Tell those who subscribed to this resource."""
        await self.bus.publish(ResourceUpdated(uri=uri))
        watching = [each for each in self.connections if uri in each.state.get("uris", ())]
        await self._tell(lambda connection: connection.send_resource_updated(uri), watching)

    async def _tell(self, send: Callable[[Connection], Awaitable[None]], whom: list[Connection] | None = None) -> None:
        for connection in list(self.connections) if whom is None else whom:
            await send(connection)


async def answers(
    ctx: ServerRequestContext[Any, Any],
    given: Mapping[str, Any] | None,
    requests: Mapping[str, types.InputRequest],
    state: str | None = None,
) -> dict[str, Any] | types.InputRequiredResult:
    """What the client answers: asked while the call runs in the handshake era, by a result that it repeats later."""
    if is_modern(ctx):
        fitting = {
            key: value
            for key, value in (given or {}).items()
            if key in requests and isinstance(value, ANSWERS[requests[key].method])
        }
        missing = {key: request for key, request in requests.items() if key not in fitting}
        return types.InputRequiredResult(input_requests=missing, request_state=state) if missing else fitting
    about = ServerMessageMetadata(related_request_id=ctx.request_id)
    return {
        key: await ctx.session.send_request(request, ANSWERS[request.method], metadata=about)  # type: ignore[type-var]
        for key, request in requests.items()
    }


def can(ctx: ServerRequestContext[Any, Any], capability: str) -> bool:
    """Whether the client said that it has a capability."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and getattr(capabilities, capability) is not None


# --- transports


async def _without_handshake(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
    if ctx.method == "initialize":
        data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": (ctx.params or {}).get("protocolVersion", "")}
        raise MCPError(types.UNSUPPORTED_PROTOCOL_VERSION, "this server knows no handshake", data)
    return await call_next(ctx)


class _HandshakeOnly:
    """Refuses requests of other revisions, in the way of servers that are older than those."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            version = headers.get(b"mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[-1].encode()).decode("latin-1")
            if version not in HANDSHAKE_PROTOCOL_VERSIONS:
                error = {
                    "code": types.INVALID_REQUEST,
                    "message": f"Bad Request: Unsupported protocol version: {version}",
                }
                refused = JSONResponse({"jsonrpc": "2.0", "id": "server-error", "error": error}, status_code=400)
                await refused(scope, receive, send)
                return
        await self.app(scope, receive, send)


async def _stdio(server: Server[Any], era: str) -> None:
    async with stdio_server() as (read, write):
        if era == "handshake":
            async with server.lifespan(server) as state:
                await serve_loop(server, read, write, lifespan_state=state)
        else:
            await server.run(read, write, server.create_initialization_options())


async def _http(server: Server[Any], port: int, era: str) -> None:
    app: ASGIApp = server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", port))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        _HandshakeOnly(app) if era == "handshake" else app, log_level="critical", timeout_graceful_shutdown=1
    )
    await uvicorn.Server(config).serve(sockets=[listening])


def main(make: Callable[[], Server[Any]]) -> None:
    """Serve what `make` gives, as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, metavar="PORT")
    parser.add_argument("--era", choices=("both", "handshake", "modern"), default="both")
    given = parser.parse_args()
    server = make()
    if given.era == "modern":
        server.middleware.append(_without_handshake)
    if given.http is None:
        anyio.run(_stdio, server, given.era)
    else:
        anyio.run(_http, server, given.http, given.era)
