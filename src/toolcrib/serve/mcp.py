"""The MCP server: a toolbox behind the official SDK's low-level server, in both protocol eras from one object.

    server = McpServer(box)
    await server.sdk.run(read, write, server.sdk.create_initialization_options())  # or serve.stdio, serve.http.server

Every call goes through the toolbox's own pipeline. This module does not decide whether a call may run. If the box
has MCP servers, this server is also a gateway: the wing `gateway` passes on their content other than tools.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import mcp_types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SubscriptionsListenResult

from .._version import __version__
from ..builtin.ask_user import AskUserTool
from ..builtin.tool_search import SearchToolsTool
from ..core.events import traced
from ..core.output import ToolOutput
from ..core.registry import ToolRegistry
from ..core.wings import has_wing
from ..sources.mcp.sdk_private import connection_of, refuse_used_ids, with_clean_spans, without_spans
from .calls import Answer, CallHandler, Json, WantedCall
from .content import offers_structure, result_of
from .interface import served_tools
from .outbox import Outbox
from .peer import Peer, caller_of
from .transport_state import HandshakeSession, TransportState, session_of_request

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.models import InitializationOptions

    from ..toolbox import Toolbox
    from .gateway import Gateway
    from .transport_state import Request

LIST_TTL_MS = 5_000
"""How long a client may use a list without asking again."""
FIRST_SECONDS = 3.0
"""How long the first answer waits for servers whose tools are not known yet: some clients wait 5 s in all. The tools of
later ones are announced."""
MAX_INTRODUCTION = 2**16
"""The most characters that a client may say of itself at the handshake: they are kept as long as its session."""
_LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


class _Sdk(Server[Any]):
    """The SDK's server, which says at every handshake that its lists may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


async def _bounded_introduction(ctx: Request, call_next: CallNext) -> HandlerResult:
    """Refuse a handshake that is too large to be kept."""
    if ctx.method == "initialize" and len(json.dumps(ctx.params, default=str)) > MAX_INTRODUCTION:
        raise MCPError(INVALID_PARAMS, f"what a client says of itself has at most {MAX_INTRODUCTION:,} characters")
    return await call_next(ctx)


class McpServer:
    """One MCP server over a toolbox or registry. `sdk` is the SDK's server and runs on any transport.

    `starting`: the start of the servers behind it, if that has begun.
    """

    def __init__(
        self,
        box: Toolbox | ToolRegistry,
        *,
        name: str = "toolcrib",
        instructions: str | None = None,
        handshake: bool = False,
        starting: asyncio.Task[None] | None = None,
    ) -> None:
        self.box = served_tools(box)
        self.registry = self.box.registry
        self.exposure = self.box.exposure
        self.calls = CallHandler(self.box)
        self.gateway: Gateway | None = None
        self.handshake = handshake
        """Whether its only client is of the handshake era."""
        self._starting = starting
        self._runs: list[TransportState] = []
        self.sdk = _Sdk(
            name,
            version=__version__,
            title="Toolcrib",
            instructions=instructions or _INSTRUCTIONS,
            lifespan=self._lifespan,
            cache_hints=dict.fromkeys(cast("Any", _LISTS), CacheHint(LIST_TTL_MS, "private")),
            get_tool_input_schema=self._input_schema,
            on_list_tools=cast("Any", self._list_tools),
            on_call_tool=cast("Any", self._call_tool),
            on_subscriptions_listen=self._listen,
        )
        if not traced():  # without a reader, spans would still cost the same
            without_spans(self.sdk)
        with_clean_spans(self.sdk, self.calls.redact)
        refuse_used_ids()
        self.sdk.middleware.append(_bounded_introduction)
        self.sdk.add_notification_handler("notifications/initialized", mcp_types.NotificationParams, self._initialized)
        self._open_gateway()

    def _open_gateway(self) -> bool:
        """Become a gateway, if there are MCP servers. Return whether this is new."""
        servers = self.box.servers()
        if self.gateway is not None or servers is None or not has_wing("gateway"):
            return False
        from .gateway import Gateway

        servers.handshake = self.handshake
        self.gateway = Gateway(servers, self.calls)
        self.gateway.serve(self.sdk)
        return True

    # --- lifecycle

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncGenerator[TransportState]:
        transport = TransportState(asyncio.get_running_loop())
        ends = [self.registry.on_change(lambda: self._changed(transport))]
        if self.exposure is not None:
            ends.append(self.exposure.on_reveal(lambda _: self._changed(transport)))
        self._runs.append(transport)
        servers, starting, self._starting = self.box.servers(), self._starting, None
        try:
            if servers is not None and starting is None:
                starting = servers.begin(self.handshake)
            if self.gateway is not None:
                await self._listen_to_servers(self.gateway, transport)
            if servers is not None and starting is not None:
                seconds = None if servers.requires_some else FIRST_SECONDS
                await asyncio.wait({starting}, timeout=seconds)
                if starting.done():
                    starting.result()
            yield transport
        finally:
            if starting is not None:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
            self._runs.remove(transport)
            for end in (*ends, *transport.ends):
                end()
            await self._end_run(transport)
            self.calls.session_over(transport, f"mcp:{transport.id}")

    @property
    def under_way(self) -> tuple[int, int]:
        """How many calls run now, and how many of them wait for the answer to a question."""
        return sum(len(run.calls) for run in self._runs), sum(len(run.waiting) for run in self._runs)

    @property
    def sessions(self) -> int:
        """How many sessions of the handshake era are open."""
        return sum(len(run.sessions) for run in self._runs)

    async def end_calls(self) -> None:
        """End every call and every stream of announcements, in order. The clients get an answer."""
        await asyncio.gather(*(self._end_run(transport) for transport in self._runs))

    async def _end_run(self, transport: TransportState) -> None:
        for streams in transport.streams.values():
            streams.close()
        await self.calls.end(transport)
        if transport.tasks:
            await asyncio.wait(transport.tasks, timeout=1)

    async def _initialized(self, ctx: Request, _: mcp_types.NotificationParams) -> None:
        """Remember a handshake-era session until its connection closes, to announce changes to it."""
        transport: TransportState = ctx.lifespan_context
        if transport.session_of(ctx) is not None:
            return
        connection, outbox = connection_of(ctx), Outbox(transport.spawn)
        transport.sessions[id(connection)] = session = HandshakeSession(ctx.session, outbox, caller_of(ctx))
        connection.exit_stack.callback(transport.sessions.pop, id(connection), None)
        connection.exit_stack.callback(self._forget, transport, session)
        if self.gateway is not None:
            self.gateway.subscribers.begin(transport, session)

    def _forget(self, transport: TransportState, session: HandshakeSession) -> None:
        if self.gateway is not None:
            self.gateway.subscribers.forget(transport, session)

    async def _listen_to_servers(self, gateway: Gateway, transport: TransportState) -> None:
        for session in transport.sessions.values():
            gateway.subscribers.begin(transport, session)
        transport.ends.append(await gateway.subscribers.listen(transport))

    def _changed(self, transport: TransportState) -> None:
        """Announce a change of the registry, on any thread, once the change is complete."""
        if not transport.announcing:
            transport.announcing = True
            transport.loop.call_soon_threadsafe(lambda: transport.loop.create_task(self._announce(transport)))

    async def _announce(self, transport: TransportState) -> None:
        transport.announcing = False
        if self._open_gateway() and self.gateway is not None:  # the first servers came with a change of the settings
            for each in tuple(self._runs):
                await self._listen_to_servers(self.gateway, each)
        await transport.bus.publish(ToolsListChanged())
        for each in tuple(transport.sessions.values()):
            each.outbox.put(("list", "tools"), each.session.send_tool_list_changed)

    async def _listen(
        self, ctx: Request, params: mcp_types.SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        transport: TransportState = ctx.lifespan_context
        uris = params.notifications.resource_subscriptions or ()
        with transport.stream_of(caller_of(ctx)) as listen:
            if not uris:
                return await listen(ctx, params)
            async with nullcontext([]) if self.gateway is None else self.gateway.watching(ctx, uris) as watched:
                wanted = params.notifications.model_copy(update={"resource_subscriptions": watched})
                return await listen(ctx, params.model_copy(update={"notifications": wanted}))

    # --- listing

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self.registry.find(name)
        return None if tool is None else tool.schema

    def _definitions(self, ctx: Request) -> list[dict[str, Any]]:
        """Return the tools that a client sees: the one for questions only if it can show a question."""
        caller = caller_of(ctx)
        if self.exposure is None or not self.exposure.active:
            shown = self.registry.listed(caller)
        else:
            shown = self.exposure.listed(session_of_request(ctx, ctx.lifespan_context).id, caller)
        found = self.registry.definitions("mcp", [tool.name for tool in shown])
        asks = Peer(ctx).can("elicitation")
        definitions: list[dict[str, Any]] = []
        for body in found:
            tool = self.registry.find(body["name"])
            if isinstance(tool, SearchToolsTool) and caller is not None:
                body = {**body, "description": tool.described(caller)}
            if asks or not isinstance(tool, AskUserTool):
                definitions.append(body)
        return definitions

    async def _list_tools(self, ctx: Request, params: mcp_types.PaginatedRequestParams | None) -> dict[str, Any]:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")
        listed: list[dict[str, Any]] = []
        for body in self._definitions(ctx):
            if "outputSchema" in body and not offers_structure(self.registry.find(body["name"]), ctx.protocol_version):
                body = {key: value for key, value in body.items() if key != "outputSchema"}
            listed.append(body)
        grows = self.exposure is not None and self.exposure.active  # any search may have changed it
        return {"tools": listed, "resultType": "complete", **({"ttlMs": 0} if grows else {})}

    # --- calling

    async def _call_tool(self, ctx: Request, params: mcp_types.CallToolRequestParams) -> Answer:
        def finish(output: ToolOutput, peer: Peer) -> Json:
            return result_of(output, self.registry.find(params.name), peer.request.protocol_version)

        wanted = WantedCall(params.name, params.arguments or {}, finish)
        return await self.calls.handle(ctx, wanted, params.input_responses, params.request_state)


_INSTRUCTIONS = (
    "Tools on one workspace, guarded by Toolcrib. Some calls wait for a person's approval; a refused or failed call "
    "says why and what to try instead. Paths are relative to the workspace."
)
