"""A small HTTP endpoint: POST requests with a bounded body go to one handler, everything else is refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from ...core.errors import ConfigError

log = logging.getLogger("toolcrib.channels")

MAX_BODY = 256 * 1024
_TOO_LARGE = f"a message has at most {MAX_BODY} bytes"
BODY_SECONDS = 10.0
MAX_CONNECTIONS = 100
"""Connections at a time. For a new one the oldest ends, so that open connections alone keep no sender out."""
CONNECTION_SECONDS = 15.0
"""How long a connection may last: a sender writes its message at once."""

Handler = Callable[[dict[str, str], bytes], Awaitable[tuple[int, str]]]
"""Takes the headers (names in lower case) and the body of a request, and returns the status and text of the answer."""


async def serve_http(host: str, port: int, handler: Handler) -> None:
    """Serve until it is cancelled. Raises ConfigError if it cannot listen there."""
    import uvicorn

    from ...boundary.network.strangers import Strangers
    from ...policy.secrets.logs import log_little

    class EndpointServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield  # the program handles them

    log_little("toolcrib.channels", "uvicorn.error")  # they say something for each wrong request of a stranger
    with _listener(host, port) as listener:
        config = uvicorn.Config(
            _app(handler), log_level="warning", access_log=False, lifespan="off", ws="none", proxy_headers=False,
            server_header=False, timeout_graceful_shutdown=1,
            http=Strangers(MAX_CONNECTIONS, CONNECTION_SECONDS).protocol(),
        )  # fmt: skip
        server = EndpointServer(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            log.info("webhooks are received at http://%s:%d/", *listener.getsockname()[:2])
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:  # a host such as a..b is UnicodeError
        raise ConfigError(f"cannot listen on {host}:{port}: {error}") from None


def _app(handler: Handler) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        status, text = await _answer(scope, receive, handler)
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{text}\n".encode()})

    return app


async def _answer(scope: Any, receive: Any, handler: Handler) -> tuple[int, str]:
    if scope["method"] != "POST":
        return 405, "only POST"
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in headers and name.startswith("webhook-"):
            return 400, f"{name} is there twice"
        headers[name] = raw_value.decode("latin-1")
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 15 or int(announced) > MAX_BODY:
        return 413, _TOO_LARGE
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _body(receive)
    except TimeoutError:
        return 408, "the body did not come"
    if body is None:
        return 413, _TOO_LARGE
    try:
        return await handler(headers, body)
    except Exception:
        log.exception("a request could not be handled")
        return 500, "it could not be handled"


async def _body(receive: Any) -> bytes | None:
    """Return the body; None if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return bytes(body)
