"""Dial judged addresses: an httpx2 transport and client that connect only to addresses that the guard admitted.

The network backend looks a name up, lets the guard judge every answer, and connects to one of those addresses; the
`Host` header and TLS's server name stay as in the URL. A redirect is a new request, so it is judged like the first.
Import this only to send something: httpx2 takes a while to load.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, cast

import httpcore2
import httpx2

from .address_guard import MAX_REDIRECTS, AddressGuard
from .resolve import DIAL_SECONDS, connect_first, tls_context
from .special_addresses import Address

MAX_CONNECTIONS = 20
KEEP_SECONDS = 5.0


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """A backend that opens TCP connections only to addresses that the guard admits."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first admitted address that answers; `timeout` seconds for the lookup and all tries."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        addresses = await self._guard.admit(host, port, DIAL_SECONDS if timeout is None else timeout)

        async def connect(address: Address) -> httpcore2.AsyncNetworkStream:
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                raise httpcore2.ConnectTimeout(f"{host}: none of its addresses answered in time")
            return await self._inner.connect_tcp(str(address), port, left, local_address, socket_options)

        try:
            return await connect_first(addresses, connect, (httpcore2.ConnectError, httpcore2.ConnectTimeout))
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error}") from None

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a path is not a public address."""
        raise httpcore2.ConnectError("requests do not go to sockets of this machine")

    async def sleep(self, seconds: float) -> None:
        """Wait between tries."""
        await asyncio.sleep(seconds)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """An httpx2 transport behind the guard. It raises AddressRefused for a request that may not go out.

    With `proxy` in the guard's settings requests go through that proxy. Then the proxy dials: the addresses are judged
    before, but a name is looked up twice. The environment is not used for this.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._proxied = guard.settings.proxy is not None
        self._pool = _pool(guard)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Judge the request, then send it."""
        target = self._guard.target(str(request.url))
        if self._proxied:
            await self._guard.admit(str(target.host), target.port)
        url = request.url
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("httpx2.AsyncByteStream", request.stream),
            extensions=request.extensions,
        )
        with _errors(request):
            got = await self._pool.handle_async_request(sent)
        return httpx2.Response(
            got.status,
            headers=got.headers,
            stream=_Body(cast("httpx2.AsyncByteStream", got.stream), request),
            extensions=cast("dict[str, Any]", got.extensions),  # pyright: ignore[reportUnknownMemberType]
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


def _pool(guard: AddressGuard) -> httpcore2.AsyncConnectionPool:
    settings = guard.settings
    tls = tls_context(settings.proxy_ca)
    common: dict[str, Any] = {"ssl_context": tls, "max_connections": MAX_CONNECTIONS, "keepalive_expiry": KEEP_SECONDS}
    if settings.proxy is None:
        return httpcore2.AsyncConnectionPool(**common, network_backend=GuardedBackend(guard))
    proxy = httpx2.Proxy(settings.proxy)
    return httpcore2.AsyncHTTPProxy(
        proxy_url=httpcore2.URL(scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target="/"),
        proxy_auth=proxy.raw_auth,
        proxy_ssl_context=tls if proxy.url.scheme == "https" else None,
        **common,
    )


class _Body(httpx2.AsyncByteStream):
    """A response's body, with httpx2's errors."""

    def __init__(self, inner: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._inner, self._request = inner, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors(self._request):
            async for part in self._inner:
                yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextlib.contextmanager
def _errors(request: httpx2.Request) -> Generator[None]:
    """Raise httpcore2's errors as httpx2's errors of the same name. Our errors pass unchanged."""
    try:
        yield
    except Exception as error:
        for kind in type(error).__mro__:
            if kind.__module__.partition(".")[0] == "httpcore2" and hasattr(httpx2, kind.__name__):
                raise getattr(httpx2, kind.__name__)(str(error), request=request) from error
        raise


def guarded_client(
    guard: AddressGuard,
    *,
    timeout: float = 30.0,
    headers: Mapping[str, str] | None = None,
    follow_redirects: bool = True,
) -> httpx2.AsyncClient:
    """Return an httpx2 client for our requests. Each request is judged, also at each redirect (five at most); cookies
    are not stored.

    `timeout` is in seconds. Other options of httpx2 are not accepted, because some (`mounts`, `proxy`) would bypass the
    guard.
    """
    return httpx2.AsyncClient(
        transport=GuardedTransport(guard),
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers=headers,
        timeout=timeout,
        follow_redirects=follow_redirects,
        max_redirects=MAX_REDIRECTS,
    )
