"""Every use of private parts of the MCP SDK, for the client and the server. No other module may use them.

For each part this module says what it is, why no public part is enough, and the version of `mcp` it was last
checked with. `tests/sources/mcp/test_sdk_private.py` fails with the name of the part when the SDK changes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, cast

from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

from ...core.bound import clean_id

if TYPE_CHECKING:
    from mcp.client import ClientSession
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http import EventStore
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.exceptions import MCPError
    from mcp_types import Tool

SEEN_IN = "2.3.0"
"""The version of `mcp` with which all of this was checked."""


def load() -> None:
    """Load the SDK as a whole: two threads that load parts of it fail, as its parts import each other.

    Private: `mcp_types._wire_base.WireModel`, the base of its 300 models of messages in each revision. Each of them is
    built when it is first used, and not as the SDK loads. Why: a process uses a dozen of them; the others are a tenth
    of the time that the SDK takes to load, and 3 MB. There is no setting for it.
    """
    with contextlib.suppress(ImportError):  # an SDK without it only loads more slowly
        from mcp_types._wire_base import WireModel

        WireModel.model_config["defer_build"] = True
    import_module("mcp")


async def send_raw(session: ClientSession, request: Any, progress: ProgressFnT | None = None) -> dict[str, Any]:
    """Send a request and return the raw result. Raises MCPError as `ClientSession.send_request` does.

    Private: `ClientSession._stamp` (adds what the protocol revision requires to a request) and
    `ClientSession._dispatcher.send_raw_request`. Why: `send_request` validates the result with a model, and one
    field of a wrong type loses the whole result.
    """
    data: dict[str, Any] = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    options: Any = {}
    session._stamp(data, options)  # pyright: ignore[reportPrivateUsage]
    if progress is not None:
        options["on_progress"] = progress
    return await session._dispatcher.send_raw_request(  # pyright: ignore[reportPrivateUsage]
        data["method"], data.get("params"), options
    )


def stamp_also(session: ClientSession, stamp: Callable[[dict[str, Any]], None]) -> None:
    """Let `stamp` change the parameters of every later request, after the SDK has stamped them.

    Private: `ClientSession._stamp`, which is replaced. Why: in 2026-07-28 each request declares what its client can
    do. The SDK knows only one client, itself. A gateway acts for many clients, and there is no public hook.
    """
    ours = session._stamp  # pyright: ignore[reportPrivateUsage]

    def both(data: dict[str, Any], options: Any) -> None:
        ours(data, options)
        stamp(data["params"])

    session._stamp = both  # pyright: ignore[reportPrivateUsage]


def know_tools(session: ClientSession, tools: Sequence[Tool]) -> None:
    """Give the session the schemas of a server's tools: some arguments travel in headers, as the schemas define.

    Private: `ClientSession._absorb_tool_listing`. Why: only `ClientSession.list_tools` calls it, and that rejects a
    whole list for one tool with a wrong field.
    """
    from mcp_types import ListToolsResult

    page = ListToolsResult.model_construct(tools=list(tools))
    session._absorb_tool_listing(page, complete=True)  # pyright: ignore[reportPrivateUsage]


def says_lost(error: MCPError) -> bool:
    """Whether the SDK itself says that no answer will come, because the connection ended.

    Private: the messages "Connection closed" and "SSE stream …" of errors that the SDK creates. Why: servers use
    the same error code for their own errors.
    """
    said = error.error.message
    return error.error.code == CONNECTION_CLOSED and (said == "Connection closed" or said.startswith("SSE stream "))


def says_refused(error: MCPError) -> bool:
    """Whether the SDK itself made this error of an HTTP answer that says why in its status alone.

    Private: the message. Why: the SDK does not pass the status on.
    """
    return error.error.code == INTERNAL_ERROR and error.error.message == "Server returned an error response"


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the connection of a request: the only object that lives as long as its client.

    Private: `ServerSession._connection`. Why: the SDK gives handlers no public object with that lifetime.
    """
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def session_manager(
    server: Server[Any], store: Callable[[], EventStore], *, max_sessions: int, **more: Any
) -> StreamableHTTPSessionManager:
    """Return a manager of HTTP sessions that gives each session an event store, and each user `max_sessions`, all users
    ten times as many. A session gets its store with `store()`; when it is over, the store's `close()` is called.

    Private: `StreamableHTTPSessionManager._admit_session`, `_discard_session`, `_session_owners` and
    `_server_instances`. Why: the SDK has one store for all sessions, in which the streams of different sessions have
    the same names, and one limit for all users together.
    """
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    class Manager(StreamableHTTPSessionManager):
        def _admit_session(self, requestor: Any) -> Any:
            owners = [self._session_owners.get(session) for session in self._server_instances]
            if owners.count(requestor) >= max_sessions:
                return None
            self.event_store = store()
            admitted = super()._admit_session(requestor)
            if admitted is not None:
                stores[admitted.mcp_session_id] = self.event_store
            return admitted

        async def _discard_session(self, session_id: str, transport: Any) -> None:
            try:
                await super()._discard_session(session_id, transport)
            finally:
                if (ended := stores.pop(session_id, None)) is not None:
                    ended.close()

    stores: dict[Any, Any] = {}
    return Manager(server, max_sessions=10 * max_sessions, **more)


def refuse_odd_ids() -> None:
    """Refuse a request over HTTP whose id is not an integer or a text, also null. It is answered with 400.

    Private: `mcp.server.streamable_http.jsonrpc_message_adapter`, which is replaced. Why: in the handshake era the SDK
    reads such a request as a notification and answers 202, so its client waits for ever.
    """
    from mcp.server import streamable_http
    from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
    from pydantic import AfterValidator, TypeAdapter, create_model

    def refuse(_: Any) -> None:
        raise ValueError("should be an integer or a text")

    without_id = create_model(
        "JSONRPCNotification", __base__=JSONRPCNotification, id=(Annotated[Any, AfterValidator(refuse)], None)
    )
    message: Any = JSONRPCRequest | without_id | JSONRPCResponse | JSONRPCError
    streamable_http.jsonrpc_message_adapter = TypeAdapter(message)  # pyright: ignore[reportPrivateImportUsage]


def forget_messages() -> None:
    """Let a session not keep its last message, which may have 16 MiB, while it waits for the next one.

    Private: `JSONRPCDispatcher._dispatch`, which is wrapped. Why: the loop that reads messages holds the last one.
    """
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
    from mcp.shared.message import SessionMessage

    kind: Any = JSONRPCDispatcher
    plain = kind._dispatch
    if plain.__module__ == __name__:
        return

    async def dispatch(self: Any, item: Any, *more: Any) -> None:
        await plain(self, item, *more)
        if isinstance(item, SessionMessage):
            item.__dict__.update(message=None, metadata=None)

    kind._dispatch = dispatch


def without_spans(server: Server[Any]) -> None:
    """Remove the SDK's own OpenTelemetry middleware from a server: unread spans cost as much as others.

    Private: the class name `OpenTelemetryMiddleware`; its module is private. Why: there is no setting for it.
    """
    server.middleware[:] = [each for each in server.middleware if type(each).__name__ != "OpenTelemetryMiddleware"]


def with_clean_spans(server: Server[Any], redact: Callable[[str], str]) -> None:
    """Let no secret into the spans of a server's requests: names and ids are a client's, and errors may quote them.

    Private: the class name `OpenTelemetryMiddleware`, and which attributes of its request it reads. Why: its spans
    leave this process before we could mask anything, and there is no public hook.
    """
    spans = [n for n, each in enumerate(server.middleware) if type(each).__name__ == "OpenTelemetryMiddleware"]
    for number in spans:
        server.middleware[number] = _CleanSpans(server.middleware[number], redact)


class _CleanSpans:
    def __init__(self, spans: Any, redact: Callable[[str], str]) -> None:
        self._spans, self._redact = spans, redact

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Any]) -> Any:
        failed: Exception | None = None

        async def go_on(_: Any) -> Any:
            nonlocal failed
            try:
                return await call_next(ctx)
            except Exception as error:
                failed = error
                raise self._shown(error) from None

        given: dict[str, Any] = ctx.params or {}
        name = given.get("name")
        params = {"name": clean_id(name, self._redact)} if isinstance(name, str) else None
        ident = ctx.request_id if ctx.request_id is None else clean_id(str(ctx.request_id), self._redact)
        meta: dict[str, Any] = ctx.meta or {}
        trace = {key: value for key, value in meta.items() if key == "traceparent"}
        shown = replace(ctx, method=clean_id(ctx.method, self._redact), params=params, request_id=ident, meta=trace)
        try:
            return await self._spans(shown, go_on)
        except Exception:
            if failed is not None:
                raise failed from failed.__cause__
            raise

    def _shown(self, error: Exception) -> Exception:
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        if isinstance(error, MCPError):
            return MCPError(error.error.code, self._redact(error.error.message))
        if isinstance(error, ValidationError):  # of which the span has no text
            return error
        return type(type(error).__name__, (Exception,), {})(self._redact(str(error)))


def refuse_used_ids() -> None:
    """Refuse a request with the id of one that runs: a cancellation would reach the later one only.

    Private: `JSONRPCDispatcher._dispatch_request`, which is wrapped, and its `_in_flight`. Why: the SDK takes both.
    """
    from mcp.shared import jsonrpc_dispatcher
    from mcp_types import ErrorData

    sdk: Any = jsonrpc_dispatcher
    kind: Any = sdk.JSONRPCDispatcher
    plain = kind._dispatch_request
    if plain.__module__ == __name__:
        return

    async def dispatch(self: Any, request: Any, metadata: Any, on_request: Any, sender: Any) -> None:
        if sdk.coerce_request_id(request.id) not in self._in_flight:
            await plain(self, request, metadata, on_request, sender)
            return
        error = ErrorData(code=INVALID_REQUEST, message="a request with this id runs already; give each one its own")
        self._spawn(self._write_error, request.id, error, sender_ctx=sender)

    kind._dispatch_request = dispatch


def without_error_texts() -> None:
    """Leave the texts of errors out of the SDK's OpenTelemetry spans of requests, from now on and in this process.

    Private: `mcp.shared.jsonrpc_dispatcher.otel_span`, which is replaced. Why: a server's error may hold a secret that
    it was given; it leaves this process with the span before we could mask it. There is no public hook.
    """
    from mcp.shared import jsonrpc_dispatcher

    cast("Any", jsonrpc_dispatcher).otel_span = _span_without_texts


@contextlib.contextmanager
def _span_without_texts(name: str, **more: Any) -> Generator[Any]:
    from mcp.shared._otel import otel_span

    with otel_span(name, **more, record_exception=False, set_status_on_exception=False) as span:
        yield _SpanWithoutTexts(span)


class _SpanWithoutTexts:
    def __init__(self, span: Any) -> None:
        self._span = span
        self.set_attributes = span.set_attributes

    def set_status(self, status: Any, _text: str | None = None) -> None:
        self._span.set_status(status)
