"""MCP over HTTP: streamable HTTP and the older server-sent events, with our own HTTP client.

The address comes from a person's settings, so by default it is not checked. `guarded` sends requests through the
address guard, like those of the web tools. The other addresses of a login come from the server: a server that is not
on a private network itself cannot name private ones. The SDK handles redirects: it follows none that goes to another
origin.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, cast

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ...boundary.network.address_guard import AddressGuard
from ...boundary.network.decoding import Turns, accepted, decoder
from ...boundary.network.dial import GuardedTransport
from ...boundary.network.host_names import RULE_NAME
from ...boundary.network.resolve import tls_context
from ...boundary.network.special_addresses import RULE_PRIVATE
from ...core.bound import safe
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from .pipes import ASKED, Answers

CONNECT_SECONDS, READ_SECONDS = 30.0, 600.0
"""Timeouts in seconds. A stream may be silent for as long as the longest call."""
MAX_EVENT = 64 * 2**20
MAX_OPENED = 500_000
"""The most tables, lists, pairs of texts and 32 commas of an answer: the SDK needs 2 µs for each, and nobody else is
served meanwhile. A text may have many commas."""
MAX_ACCOUNT = 300
STREAM_SECONDS = 0.5
"""The least time from one try to open a stream to the next."""
_SESSION = "mcp-session-id"
_LATER = (429, 502, 503, 504)
_NOT_OLDER = ("HTTP 400", "HTTP 404", "HTTP 405", "HTTP 406")
"""How a server of streamable HTTP answers a GET that opens no session."""


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """The status of an answer that is an error, in words. `later`: it may be tried again, after `seconds` if the server
    named a time."""

    said: str
    later: bool
    seconds: float | None


class HttpTransport:
    """One connection to a server over HTTP. `legacy` uses server-sent events where the server does."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        auth: httpx2.Auth | None,
        guard: AddressGuard | None,
        guarded: bool,
        legacy: bool,
    ) -> None:
        self._url, self._headers, self._auth, self._guard, self._legacy = url, dict(headers), auth, guard, legacy
        self._guarded = guarded and guard is not None
        self.session_lost: Callable[[], None] = lambda: None
        """Called when the server has forgotten the session."""
        self._last = self._fault = ""
        self.refusal: HttpRefusal | None = None
        """The last answer of the server that was an error."""

    def account(self) -> str:
        """Return why we ended it, or the server's last answer if it was an error; otherwise ""."""
        return self._fault or self._last

    def kill(self) -> None:
        """Do nothing: there is no process to end."""

    @contextlib.asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any]:
        """Connect. Yields the two streams of the SDK's session."""
        async with contextlib.AsyncExitStack() as stack:
            streams = await self._older_streams(stack) if self._legacy else None
            if streams is None:
                client = await stack.enter_async_context(self._client())
                streamable = streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_EVENT)
                streams = await stack.enter_async_context(streamable)
            incoming: Any = streams[0]

            def asks_too_much() -> None:
                self._fault = ASKED
                incoming.close()

            yield incoming, Answers(streams[1], asks_too_much)

    async def _older_streams(self, stack: contextlib.AsyncExitStack) -> Any:
        """Return the streams of the older protocol; None if the server refuses it, as those do that speak the newer."""
        older = sse_client(
            self._url, timeout=CONNECT_SECONDS, sse_read_timeout=READ_SECONDS, httpx_client_factory=self._client
        )
        try:
            return await stack.enter_async_context(older)
        except Exception:
            if not self._last.startswith(_NOT_OLDER):
                raise
            return None

    def _client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        guard, inner = self._guard, httpx2.AsyncHTTPTransport(verify=tls_context(None))
        if guard is not None and self._guarded:
            inner = GuardedTransport(guard)
        elif guard is not None and not names_private(self._url, guard):
            inner = _OwnOrigin(self._url, inner, guard)
        return httpx2.AsyncClient(
            headers={"Accept-Encoding": accepted(), **self._headers, **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
            auth=self._auth or auth,
            event_hooks={"response": [self._answered]},
            transport=_Remembering(inner, self._failed),
            trust_env=not self._guarded,
        )

    def _failed(self, error: Exception) -> None:
        self._last = safe(f"{type(error).__name__}: {error}")[:MAX_ACCOUNT]

    async def _answered(self, response: httpx2.Response) -> None:
        if response.status_code < 400:
            self._last = ""
            return
        self._last = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        self.refusal = HttpRefusal(safe(self._last), response.status_code in _LATER, _seconds(response))
        if response.status_code == 404 and _SESSION in response.request.headers:
            self.session_lost()


def names_private(url: str, guard: AddressGuard) -> bool:
    """Return whether a URL says that it is on a private network. A name is not looked up: its owner could answer that
    it is."""
    judged = guard.judge_known(str(httpx2.URL(url).copy_with(port=None)))
    return judged is not None and judged.rule in (RULE_NAME, RULE_PRIVATE)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _OwnOrigin(httpx2.AsyncBaseTransport):
    """Sends the requests to a server's own origin, and those to other origins, which it names, through the guard."""

    def __init__(self, url: str, inner: httpx2.AsyncBaseTransport, guard: AddressGuard) -> None:
        self._own, self._inner, self._guard = _origin(httpx2.URL(url)), inner, guard
        self._guarded: GuardedTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if _origin(request.url) == self._own:
            return await self._inner.handle_async_request(request)
        self._guarded = self._guarded or GuardedTransport(self._guard)
        return await self._guarded.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._guarded is not None:
            await self._guarded.aclose()


def _seconds(response: httpx2.Response) -> float | None:
    """Return the seconds of a Retry-After header; None for a date, or if there is none."""
    text = response.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


class _BoundedBody(httpx2.AsyncByteStream):
    """The decoded body of an answer, or its events: each has at most MAX_EVENT bytes and MAX_OPENED tables and
    lists. Raises RemoteProtocolError for more, and DecodingError."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, encoding: str, events: bool, failed: Callable[[Exception], None]
    ) -> None:
        self._inner, self._encoding, self._events, self._told = inner, encoding, events, failed
        self._size, self._opened = 0, 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            decode, turns = decoder(self._encoding), Turns()
            async for data in self._inner:
                for piece in decode(data):
                    self._count(piece)
                    yield piece
                    await turns.after(piece)
                await turns.after(data)
        except ToolError as error:
            self._told(error)
            raise httpx2.DecodingError(str(error)) from error

    def _count(self, piece: bytes) -> None:
        if self._events and (end := max(piece.rfind(b"\n\n"), piece.rfind(b"\n\r\n"))) >= 0:
            piece, self._size, self._opened = piece[end:], 0, 0.0  # of the next event
        self._size += len(piece)
        quotes = piece.count(b'"') - piece.count(b'\\"')
        self._opened += piece.count(b"[") + piece.count(b"{") + quotes / 4 + piece.count(b",") / 32
        if self._size > MAX_EVENT or self._opened > MAX_OPENED:
            error = httpx2.RemoteProtocolError("the answer is too large")
            self._told(error)
            raise error

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Remembering(httpx2.AsyncBaseTransport):
    """Reports why a request failed: the SDK does not pass the reason on. Bounds the answers, and how often a stream is
    opened."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, failed: Callable[[Exception], None]) -> None:
        self._inner, self._told = inner, failed
        self._next_stream = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":  # a server could close each stream at once, and ask for the next one
            now = asyncio.get_running_loop().time()
            wait, self._next_stream = self._next_stream - now, max(now, self._next_stream) + STREAM_SECONDS
            await asyncio.sleep(max(wait, 0))
        try:
            response = await self._inner.handle_async_request(request)
        except Exception as error:
            self._told(error)
            raise
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        encoding = response.headers.pop("content-encoding", "")
        response.stream = _BoundedBody(cast("httpx2.AsyncByteStream", response.stream), encoding, events, self._told)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
