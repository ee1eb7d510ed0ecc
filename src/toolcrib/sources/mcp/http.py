"""MCP over HTTP: streamable HTTP and the older server-sent events, with our own HTTP client.

The address comes from a person's settings, so by default it is not checked. `guarded` sends requests through the
address guard, like those of the web tools. The SDK handles redirects: it follows none that goes to another origin.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ...boundary.network.address_guard import AddressGuard
from ...boundary.network.dial import GuardedTransport
from ...core.bound import safe
from ...core.dataclass import dataclass

CONNECT_SECONDS, READ_SECONDS = 30.0, 600.0
"""Timeouts in seconds. A stream may be silent for as long as the longest call."""
MAX_EVENT = 64 * 2**20
MAX_ACCOUNT = 300
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
        legacy: bool,
    ) -> None:
        self._url, self._headers, self._auth, self._guard, self._legacy = url, dict(headers), auth, guard, legacy
        self.session_lost: Callable[[], None] = lambda: None
        """Called when the server has forgotten the session."""
        self._last = ""
        self.refusal: HttpRefusal | None = None
        """The last answer of the server that was an error."""

    def account(self) -> str:
        """Return the server's last answer if it was an error; otherwise ""."""
        return self._last

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
            yield streams

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
        context = httpx2.create_ssl_context()
        # SSLKEYLOGFILE would write the keys of all connections into a file
        context.keylog_filename = None  # pyright: ignore[reportAttributeAccessIssue]
        inner = httpx2.AsyncHTTPTransport(verify=context) if self._guard is None else GuardedTransport(self._guard)
        return httpx2.AsyncClient(
            headers={**self._headers, **(headers or {})},
            timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS),
            auth=self._auth or auth,
            event_hooks={"response": [self._answered]},
            transport=_Remembering(inner, self._failed),
            trust_env=self._guard is None,
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


def _seconds(response: httpx2.Response) -> float | None:
    """Return the seconds of a Retry-After header; None for a date, or if there is none."""
    text = response.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


class _Remembering(httpx2.AsyncBaseTransport):
    """Reports why a request failed: the SDK does not pass the reason on."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, failed: Callable[[Exception], None]) -> None:
        self._inner, self._told = inner, failed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._inner.handle_async_request(request)
        except Exception as error:
            self._told(error)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()
