"""Requests for server content other than tools: resources, prompts, completion, subscriptions, log level.

Reading a resource or filling in a prompt is a call of the tool that reaches the server (`mcp_{server}_resources`,
`mcp_{server}_prompts`). It is authorized, recorded and redacted like any other call. Then the client gets it in the
server's own words. Lists omit what policy denies. Completion is not recorded: it is one request per keystroke.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, cast

import mcp_types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PromptReference
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...core.caller import Caller
from ...core.errors import ToolError
from ...core.output import META_KEY, ToolOutput
from ...core.threads import shared_threads
from ...core.tool import Tool
from ...sources.mcp.fields import result_meta
from ...sources.mcp.servers import McpServers
from ..calls import Answer, CallHandler, Json, WantedCall
from ..content import META_APPROVAL, META_KIND
from ..peer import Peer, caller_of
from ..transport_state import Request
from .catalogue import Catalogue
from .subscribers import RESOURCE_NOT_FOUND, Subscribers

MAX_PARTS = 5_000
"""The most parts of one answer: contents of a resource, or messages of a prompt. Reading one part takes 50 µs."""
MAX_EXACT = 32 * 2**20
"""The most characters of one answer that is passed on in a server's own words."""


class Gateway:
    """Handles these requests for one of our MCP servers. `serve` adds the handlers to the SDK's server."""

    def __init__(self, servers: McpServers, calls: CallHandler) -> None:
        self._servers, self._calls = servers, calls
        stages = calls.registry.stages
        self._catalogue = Catalogue(servers, lambda tool, who: stages.hides(tool, getattr(who, "caller", None)))
        self.subscribers = Subscribers(servers, self._catalogue, calls)

    def serve(self, sdk: Server[Any]) -> None:
        """Add the handlers to the SDK's server, also while it runs. Later handshakes declare what they handle."""
        page = mcp_types.PaginatedRequestParams
        for method, params, handler in (
            ("resources/list", page, partial(self._list, "resources", "resources")),
            ("resources/templates/list", page, partial(self._list, "templates", "resourceTemplates")),
            ("resources/read", mcp_types.ReadResourceRequestParams, self._read_resource),
            ("resources/subscribe", mcp_types.SubscribeRequestParams, self._subscribe),
            ("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, self._unsubscribe),
            ("prompts/list", page, partial(self._list, "prompts", "prompts")),
            ("prompts/get", mcp_types.GetPromptRequestParams, self._get_prompt),
            ("completion/complete", mcp_types.CompleteRequestParams, self._complete),
            ("logging/setLevel", mcp_types.SetLevelRequestParams, self._set_level),
        ):
            sdk.add_request_handler(method, params, cast("Any", handler))

    def _who(self, ctx: Request) -> Peer:
        """Return the client of a request that is not a call."""
        return Peer(ctx, redact=self._calls.redact)

    # --- lists

    async def _list(self, what: str, key: str, ctx: Request, params: mcp_types.PaginatedRequestParams | None) -> Json:
        entries = await self._catalogue.entries(what, self._who(ctx))
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")
        return {key: await shared_threads.run(self._calls.shown, entries), "resultType": "complete"}

    # --- reading resources and prompts

    async def _read_resource(self, ctx: Request, params: mcp_types.ReadResourceRequestParams) -> Answer:
        uri = str(params.uri)
        place = await self._catalogue.at(uri, self._who(ctx))
        if place is None:
            code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
            raise MCPError(code, f"Resource not found: {uri}", {"uri": uri})

        def finish(output: ToolOutput, peer: Peer) -> Json:
            result = self._exact(output, peer)
            for content in cast("list[Json]", result.get("contents", [])):
                if content.get("uri") == place.own:
                    content["uri"] = uri
            return result

        wanted = WantedCall(place.tool.name, {"uri": place.own}, finish, exact=True)
        return await self._calls.handle(ctx, wanted, params.input_responses, params.request_state)

    async def _get_prompt(self, ctx: Request, params: mcp_types.GetPromptRequestParams) -> Answer:
        place = await self._catalogue.prompt(params.name, self._who(ctx))
        if place is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        arguments: dict[str, Any] = {"name": place.own}
        if params.arguments:
            arguments["arguments"] = dict(params.arguments)
        wanted = WantedCall(place.tool.name, arguments, self._exact, exact=True)
        return await self._calls.handle(ctx, wanted, params.input_responses, params.request_state)

    def _exact(self, output: ToolOutput, peer: Peer) -> Json:
        """Return the server's own answer, without secrets, with our labels.

        Raises MCPError if there is no answer or it is too large.
        """
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
            delivered = _in_our_words(delivered, output)
        result = cast("Json", self._calls.shown(delivered))
        if "cacheScope" in result:  # access was checked for this client only
            result["cacheScope"] = "private"
        meta = result_meta(result.pop("_meta", None))
        if output.labels is not None:
            meta[META_KEY] = output.labels.wire
        return {**result, "_meta": meta} if meta else result

    # --- completion

    async def _complete(self, ctx: Request, params: mcp_types.CompleteRequestParams) -> Json:
        ref = params.ref
        if isinstance(ref, PromptReference):
            place = await self._catalogue.prompt(ref.name, self._who(ctx))
        else:
            place = await self._catalogue.template(ref.uri, self._who(ctx))
        if place is None:
            what = f"prompt: {ref.name}" if isinstance(ref, PromptReference) else f"resource template: {ref.uri}"
            raise MCPError(INVALID_PARAMS, f"Unknown {what}")
        if not self._runs_freely(place.tool, caller_of(ctx)):
            return {"completion": {"values": []}, "resultType": "complete"}
        own = place.own
        ref = ref.model_copy(update={"name": own} if isinstance(ref, PromptReference) else {"uri": own})
        request = mcp_types.CompleteRequest(
            params=mcp_types.CompleteRequestParams(ref=ref, argument=params.argument, context=params.context)
        )

        async def ask(client: Any) -> Json:
            result = await client.session.send_request(request, mcp_types.CompleteResult)
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)

        try:
            found = await place.server.use(ask, self._who(ctx))
            return cast("Json", await shared_threads.run(self._calls.shown, found))
        except ToolError as error:
            if isinstance(error.__cause__, MCPError):
                raise self._calls.shown_error(error.__cause__) from error
            raise MCPError(INTERNAL_ERROR, self._calls.redact(str(error))) from error

    def _runs_freely(self, tool: Tool, caller: Caller | None) -> bool:
        """Whether policy allows every call of a tool. Only then may completion send typed text to the server.

        The question before the start of a changed server does not count: no completion starts such a server.
        """
        authorizer = self._calls.registry.stages.authorizer_of(caller)
        plain = copy.copy(tool)
        plain.judge = None
        return authorizer is None or authorizer.clears(plain)

    # --- subscriptions and logs

    async def _subscribe(self, ctx: Request, params: mcp_types.SubscribeRequestParams) -> mcp_types.EmptyResult:
        await self.subscribers.subscribe(ctx.lifespan_context.session_of(ctx), str(params.uri), self._who(ctx))
        return mcp_types.EmptyResult()

    async def _unsubscribe(self, ctx: Request, params: mcp_types.UnsubscribeRequestParams) -> mcp_types.EmptyResult:
        await self.subscribers.unsubscribe(ctx.lifespan_context.session_of(ctx), str(params.uri))
        return mcp_types.EmptyResult()

    async def _set_level(self, ctx: Request, params: mcp_types.SetLevelRequestParams) -> mcp_types.EmptyResult:
        """Handle `logging/setLevel` of the handshake era. Raises MCPError if there is no session."""
        session = ctx.lifespan_context.session_of(ctx)
        if session is None:
            raise MCPError(INVALID_REQUEST, "there is no session to set a level for")
        await self.subscribers.set_level(session, params.level)
        return mcp_types.EmptyResult()

    def watching(self, ctx: Request, uris: Iterable[Any]) -> AbstractAsyncContextManager[list[str]]:
        """Watch these resources while a 2026-07-28 stream listens for them. Yields those that the client may read."""
        return self.subscribers.watching(ctx.lifespan_context, self._who(ctx), map(str, uris))


def _in_our_words(delivered: Json, output: ToolOutput) -> Json:
    """Return an answer in our words, used when hooks may have changed the server's answer."""
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
