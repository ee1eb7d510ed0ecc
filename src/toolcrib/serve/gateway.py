"""What a gateway passes on beside tools: resources, prompts, completion, subscriptions and logs of its servers.

Reading a resource or filling in a prompt is a call of the tool that reaches its server's (`mcp_{server}_resources`,
`mcp_{server}_prompts`): judged, recorded and redacted like any other, and then given to the client in the server's own
words. Lists leave out what policy denies. Completion passes by the record: it is a request a keystroke.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CompleteRequest,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    LoggingMessageNotification,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..core.errors import ToolError
from ..core.labels import META_KEY
from ..core.output import ToolOutput
from ..sources.mcp.fields import result_meta
from ..sources.mcp.relay import Changed, Event, Logged, Told, Updated
from .calls import Answer, CallHandler, Json, WantedCall
from .content import META_APPROVAL, META_KIND
from .peer import LEVELS, Peer, wants
from .sanitize import sanitize_model
from .transport_state import TransportState

if TYPE_CHECKING:
    from ..core.tool import Tool
    from ..sources.mcp import McpServers
    from ..sources.mcp.catalogue import Catalogue, ContentPlace
    from ..sources.mcp.upstream import Upstream
    from .transport_state import HandshakeSession, Request

log = logging.getLogger("toolcrib.serve")

RESOURCE_NOT_FOUND = -32002
"""What the handshake era answers for a resource that there is not; later it is INVALID_PARAMS."""
MAX_PARTS = 5_000
"""Contents of a resource, or messages of a prompt: reading each of them takes 50 µs."""
MAX_EXACT = 32 * 2**20
"""Characters of one answer that is passed on in a server's own words."""
MAX_WATCHED = 1_000
"""Resources that one session or stream may listen for."""


class Gateway:
    """What a gateway passes on of its servers. `handlers` are for the SDK's server."""

    def __init__(self, servers: McpServers, calls: CallHandler) -> None:
        self._servers, self._calls = servers, calls
        self._level = LEVELS[0]
        self._watched: dict[tuple[Upstream, str], Counter[str]] = {}
        """By server and its own address: how often each shown address is listened for."""

    @property
    def _catalogue(self) -> Catalogue:
        return self._servers.catalogue

    def handlers(self) -> dict[str, Any]:
        """For the constructor of the SDK's server."""
        return {
            "on_list_resources": self._list_resources,
            "on_list_resource_templates": self._list_templates,
            "on_read_resource": self._read_resource,
            "on_subscribe_resource": self._subscribe,
            "on_unsubscribe_resource": self._unsubscribe,
            "on_list_prompts": self._list_prompts,
            "on_get_prompt": self._get_prompt,
            "on_completion": self._complete,
        }

    def who(self, ctx: Request) -> Peer:
        """The client behind a request that is no call."""
        return Peer(ctx, redact=self._calls.redact)

    # --- lists

    async def _list_resources(self, ctx: Request, params: PaginatedRequestParams | None) -> Json:
        return self._page("resources", await self._catalogue.resources(self.who(ctx)), params)

    async def _list_templates(self, ctx: Request, params: PaginatedRequestParams | None) -> Json:
        return self._page("resourceTemplates", await self._catalogue.templates(self.who(ctx)), params)

    async def _list_prompts(self, ctx: Request, params: PaginatedRequestParams | None) -> Json:
        return self._page("prompts", await self._catalogue.prompts(self.who(ctx)), params)

    def _page(self, key: str, entries: list[Json], params: PaginatedRequestParams | None) -> Json:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")
        return {key: self._calls.shown(entries), "resultType": "complete"}

    # --- what they hold

    async def _read_resource(self, ctx: Request, params: ReadResourceRequestParams) -> Answer:
        uri = str(params.uri)
        place = await self._catalogue.at(uri, self.who(ctx))
        if place is None:
            code = INVALID_PARAMS if _stateless(ctx) else RESOURCE_NOT_FOUND
            raise MCPError(code, f"Resource not found: {uri}", {"uri": uri})

        def finish(output: ToolOutput, peer: Peer) -> Json:
            result = self._exact(output, peer)
            for content in cast("list[Json]", result.get("contents", [])):
                if content.get("uri") == place.own:
                    content["uri"] = uri
            return result

        wanted = WantedCall(place.tool.name, {"uri": place.own}, finish, exact=True)
        return await self._calls.handle(ctx, wanted, params.input_responses, params.request_state)

    async def _get_prompt(self, ctx: Request, params: GetPromptRequestParams) -> Answer:
        place = await self._catalogue.prompt(params.name, self.who(ctx))
        if place is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        arguments: dict[str, Any] = {"name": place.own}
        if params.arguments:
            arguments["arguments"] = dict(params.arguments)
        wanted = WantedCall(place.tool.name, arguments, self._exact, exact=True)
        return await self._calls.handle(ctx, wanted, params.input_responses, params.request_state)

    def _exact(self, output: ToolOutput, peer: Peer) -> Json:
        """The server's own answer, without secrets, with our labels. Raises MCPError where there is none."""
        delivered = peer.delivered
        if output.is_error or delivered is None:
            data: Json = {META_KIND: output.error_kind} if output.error_kind else {}
            if isinstance(approval := output.meta.get("approval_id"), str):
                data[META_APPROVAL] = approval
            code = INTERNAL_ERROR if output.error_kind in ("exception", "timeout", "tool") else INVALID_REQUEST
            raise MCPError(code, output.for_llm or "no answer", data or None)
        if _size(delivered) > MAX_EXACT:
            raise MCPError(INTERNAL_ERROR, f"the answer has more than {MAX_EXACT:,} characters")
        parts = max(len(delivered.get(key) or ()) for key in ("contents", "messages"))
        if parts > MAX_PARTS:
            raise MCPError(INTERNAL_ERROR, f"the answer has {parts:,} parts; {MAX_PARTS:,} are passed on at most")
        if self._calls.changes_outputs:
            delivered = _as_told(delivered, output)
        result = cast("Json", self._calls.shown(delivered))
        if "cacheScope" in result:  # it was judged for this client
            result["cacheScope"] = "private"
        meta = result_meta(result.pop("_meta", None))
        if output.labels is not None:
            meta[META_KEY] = output.labels.wire
        return {**result, "_meta": meta} if meta else result

    # --- completion

    async def _complete(self, ctx: Request, params: CompleteRequestParams) -> Json:
        ref = params.ref
        if isinstance(ref, PromptReference):
            place = await self._catalogue.prompt(ref.name, self.who(ctx))
        else:
            place = await self._catalogue.template(ref.uri, self.who(ctx))
        if place is None:
            what = f"prompt: {ref.name}" if isinstance(ref, PromptReference) else f"resource template: {ref.uri}"
            raise MCPError(INVALID_PARAMS, f"Unknown {what}")
        if not self._runs_freely(place.tool):
            return {"completion": {"values": []}, "resultType": "complete"}
        own = place.own
        ref = ref.model_copy(update={"name": own} if isinstance(ref, PromptReference) else {"uri": own})
        request = CompleteRequest(
            params=CompleteRequestParams(ref=ref, argument=params.argument, context=params.context)
        )

        async def ask(client: Any) -> Json:
            result = await client.session.send_request(request, CompleteResult)
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

        return cast("Json", self._calls.shown(await self._reach(place, ask, self.who(ctx))))

    def _runs_freely(self, tool: Tool) -> bool:
        """Whether no call of a tool could be asked about or refused: what is typed goes to its server then, unasked."""
        authorizer = self._calls.registry.stages.authorizer
        return authorizer is None or authorizer.clears(tool)

    # --- subscriptions

    async def _subscribe(self, ctx: Request, params: SubscribeRequestParams) -> EmptyResult:
        transport: TransportState = ctx.lifespan_context
        session, uri = transport.session_of(ctx), str(params.uri)
        if session is None:
            raise MCPError(INVALID_REQUEST, "there is no session to tell of changes")
        if uri not in session.uris:
            if len(session.uris) >= MAX_WATCHED:
                raise MCPError(INVALID_REQUEST, f"a session may listen for {MAX_WATCHED:,} resources")
            place = await self._watch(uri, self.who(ctx))
            if uri in session.uris:  # another request was quicker
                await self._unwatch({uri: place})
            else:
                session.uris[uri] = place
        return EmptyResult()

    async def _unsubscribe(self, ctx: Request, params: UnsubscribeRequestParams) -> EmptyResult:
        transport: TransportState = ctx.lifespan_context
        session, uri = transport.session_of(ctx), str(params.uri)
        if session is not None and uri in session.uris:
            await self._unwatch({uri: session.uris.pop(uri)})
        return EmptyResult()

    async def _watch(self, uri: str, who: Peer) -> ContentPlace:
        place = await self._catalogue.at(uri, who)
        if place is None:
            raise MCPError(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})
        try:
            await place.server.watch(place.own, who)
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, self._calls.redact(str(error))) from error
        except MCPError as error:
            raise self._calls.told(error) from error
        self._watched.setdefault((place.server, place.own), Counter())[uri] += 1
        return place

    async def _unwatch(self, places: Mapping[str, ContentPlace]) -> None:
        for uri, place in places.items():
            shown = self._watched[place.server, place.own]
            shown[uri] -= 1
            if not shown[uri]:
                del shown[uri]
            if not shown:
                del self._watched[place.server, place.own]
            with contextlib.suppress(MCPError, ToolError):
                await place.server.unwatch(place.own)

    def begin(self, transport: TransportState) -> None:
        """There is another session of the handshake era."""
        if self._level != LEVELS[0]:
            transport.spawn(self._tell_level(transport))

    def forget(self, transport: TransportState, session: HandshakeSession) -> None:
        """A session of the handshake era is over."""
        if session.uris:
            transport.spawn(self._unwatch(session.uris))
            session.uris = {}

    @asynccontextmanager
    async def watching(self, transport: TransportState, who: Peer, uris: Iterable[str]) -> AsyncGenerator[None]:
        """While a stream of 2026-07-28 listens for these resources. What no server has never changes."""
        watched: dict[str, ContentPlace] = {}
        for uri in islice(dict.fromkeys(uris), MAX_WATCHED):
            try:
                watched[uri] = await self._watch(uri, who)
            except MCPError as error:
                log.debug("%s is not watched: %s", uri, error)
        try:
            yield
        finally:
            if watched:
                transport.spawn(self._unwatch(watched))

    # --- logs

    async def set_level(self, ctx: Request, params: SetLevelRequestParams) -> EmptyResult:
        """`logging/setLevel` of the handshake era: servers tell what the most curious session wants."""
        transport: TransportState = ctx.lifespan_context
        session = transport.session_of(ctx)
        if session is None:
            raise MCPError(INVALID_REQUEST, "there is no session to set a level for")
        session.level = params.level
        await self._tell_level(transport)
        return EmptyResult()

    async def _tell_level(self, transport: TransportState) -> None:
        """Ask servers for what the most curious session wants. One that set no level wants everything."""
        levels = [each.level or LEVELS[0] for each in transport.sessions.values()]
        wanted = min(levels, key=LEVELS.index, default=LEVELS[0])
        if wanted != self._level:
            self._level = wanted
            await self._servers.log_level(wanted)

    # --- what servers tell

    async def listen(self, transport: TransportState) -> Callable[[], None]:
        """Pass on to the sessions and streams of a transport what servers tell of their own accord."""

        def heard(event: Event) -> None:
            transport.loop.call_soon_threadsafe(self._tell, transport, event)

        return await self._servers.pass_on(heard)

    async def start(self) -> None:
        """Connect servers that nobody has asked yet: their tools are in the first list. Raises McpFailure where one
        that is required cannot be reached."""
        if self._servers.waiting:
            await self._servers.start()

    def _tell(self, transport: TransportState, event: Event) -> None:
        """Tell it to whom it concerns, when they can hear it: see `Outbox`."""
        sessions = tuple(transport.sessions.values())
        bus = transport.bus
        match event:
            case Changed(_, kind):
                self._catalogue.stale()
                lists = ResourcesListChanged() if kind == "resources" else PromptsListChanged()
                transport.outbox.put(("list", kind), lambda: bus.publish(lists))
                for each in sessions:
                    to = each.session
                    each.outbox.put(
                        ("list", kind),
                        to.send_resource_list_changed if kind == "resources" else to.send_prompt_list_changed,
                    )
            case Updated(server, own):
                for uri in tuple(self._watched.get((server, own), ())):
                    transport.outbox.put(uri, partial(bus.publish, ResourceUpdated(uri)))
                    for each in sessions:
                        place = each.uris.get(uri)
                        if place is not None and place.server is server:
                            each.outbox.put(uri, partial(each.session.send_resource_updated, uri))
            case Logged(_, params):
                wanting = [each for each in sessions if wants(each.level or LEVELS[0], params.level)]
                if wanting:
                    self._send(wanting, LoggingMessageNotification(params=sanitize_model(params, self._calls.redact)))
            case Told(_, notification):
                self._send(sessions, notification)

    @staticmethod
    def _send(sessions: Iterable[HandshakeSession], note: Any) -> None:
        for each in sessions:
            each.outbox.put(None, partial(each.session.send_notification, note))

    async def _reach(self, place: ContentPlace, ask: Callable[[Any], Any], who: Peer) -> Json:
        """Ask a server something that is no call. Raises MCPError: its own, or that it cannot be reached."""
        refused: list[MCPError] = []

        async def work(client: Any) -> Json:
            try:
                return await ask(client)
            except MCPError as error:
                refused.append(self._calls.told(error))
                raise

        try:
            return await place.server.use(work, who)
        except ToolError as error:
            raise refused[0] if refused else MCPError(INTERNAL_ERROR, self._calls.redact(str(error))) from error


def _stateless(ctx: Request) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _as_told(delivered: Json, output: ToolOutput) -> Json:
    """An answer in our words, where hooks may have changed the server's."""
    if "messages" in delivered:
        text = {"type": "text", "text": output.for_llm}
        return {**delivered, "messages": [{"role": "user", "content": text}]}
    uri = next((each.get("uri") for each in delivered["contents"]), "")
    return {**delivered, "contents": [{"uri": uri, "text": output.for_llm}]}


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, cast("Mapping[str, Any]", value).values()))
    return sum(map(_size, cast("list[Any]", value))) if isinstance(value, list) else 8
