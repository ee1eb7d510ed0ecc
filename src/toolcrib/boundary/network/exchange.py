"""Send one request and read its answer. Every redirect is judged like the first request, the body is bounded, and
requests are retried where that may help.

Redirects are followed here and not by the client, because each one is another address that may need a decision (`Hop`),
and because headers that are meant for one server must not reach another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ...core.errors import AddressRefused, ToolError
from ...core.text import clip
from ...core.threads import shared_threads

if TYPE_CHECKING:
    import httpx2

    from .address_guard import AddressGuard
    from .url import Target

REDIRECTS = frozenset({301, 302, 303, 307, 308})
TRY_AGAIN = frozenset({429, 503})
TRIES = 3
MAX_PAUSE = 10.0  # seconds; if a server wants more, the model is informed instead
MAX_WORK = 4  # times the limit: how many bytes may be received for a body of that size
PART = 512  # bytes that a part of a body counts for that besides its own, and a compressed stream in it

Hop = Callable[["Target"], Awaitable[None] | None]
"""Called before each request, the first included. Raises ToolError for a target that the request must not go to."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request to send. `private` headers go only to the origin of `url`, even after redirects."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    private: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """The limits of an exchange. `most` is for the decoded bytes of a body; `seconds` is for everything, redirects
    and pauses included."""

    most: int
    seconds: float
    tries: int = TRIES


@dataclass(frozen=True, slots=True)
class WebResponse:
    """The response. `headers` have lower-case names; `cut` means that the body is only the beginning."""

    url: str
    final_url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool
    retry_after: float | None = None


async def exchange(
    guard: AddressGuard, request: WebRequest, limits: ExchangeLimits, hop: Hop | None = None
) -> WebResponse:
    """Send a request behind the guard. Raises AddressRefused or ToolError, with what to try.

    429 and 503 are tried again, twice at most, if the server asks for a pause of at most 10 s. Only requests without
    effects (GET, HEAD) are retried.
    """
    client = await shared_threads.run(_client, guard)
    try:
        async with asyncio.timeout(limits.seconds), client:
            return await _tries(client, guard, request, limits, hop)
    except TimeoutError:
        raise ToolError(f"{_shown(request.url)} did not answer within {limits.seconds:g} s") from None


def _client(guard: AddressGuard) -> httpx2.AsyncClient:
    """Create a client for this exchange alone. In a thread, because the first time it is slow: it loads the HTTP client
    and TLS's authorities."""
    from .dial import guarded_client

    return guarded_client(guard, follow_redirects=False)


async def _tries(
    client: httpx2.AsyncClient, guard: AddressGuard, request: WebRequest, limits: ExchangeLimits, hop: Hop | None
) -> WebResponse:
    tries = limits.tries if request.method in ("GET", "HEAD") else 1
    for number in range(1, tries + 1):
        answer = await _follow(client, guard, request, limits, hop)
        if answer.status not in TRY_AGAIN or number == tries:
            return answer
        pause = answer.retry_after
        if pause is None:
            import random

            pause = 0.5 * 2 ** (number - 1) * random.uniform(1.0, 1.5)  # noqa: S311
        if pause > MAX_PAUSE:
            return answer
        await asyncio.sleep(pause)
    raise AssertionError


async def _follow(
    client: httpx2.AsyncClient, guard: AddressGuard, request: WebRequest, limits: ExchangeLimits, hop: Hop | None
) -> WebResponse:
    from .address_guard import MAX_REDIRECTS

    target = first = guard.target(request.url)
    for number in range(MAX_REDIRECTS + 1):
        asked = hop(target) if hop is not None else None
        if asked is not None:
            await asked
        answer, location = await _send(client, request, target, first, limits)
        if location is None:
            return answer
        if number == MAX_REDIRECTS:
            break
        try:
            target = guard.target(location, target)
        except AddressRefused as error:
            text = f"{target.authority} redirects to where requests may not go: {error}"
            raise AddressRefused(text, error.rule) from None
        request = _next(request, answer.status)
    raise ToolError(f"{_shown(request.url)} redirects more than {MAX_REDIRECTS} times")


def _next(request: WebRequest, status: int) -> WebRequest:
    """Return the request after a redirect: 303, and 301 and 302 after a POST, ask for a GET (RFC 9110 §15.4)."""
    if (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST"):
        bare = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
        return replace(request, method="GET", body=b"", headers=bare)
    return request


async def _send(
    client: httpx2.AsyncClient, request: WebRequest, target: Target, first: Target, limits: ExchangeLimits
) -> tuple[WebResponse, str | None]:
    """Send one request. Return the response, or the target of its redirect."""
    import httpx2

    from .decoding import accepted

    headers = {"Accept-Encoding": accepted(), **request.headers}
    if (target.scheme, target.host, target.port) == (first.scheme, first.host, first.port):
        headers |= request.private
    try:
        async with client.stream(request.method, target.url, headers=headers, content=request.body or None) as got:
            location = got.headers.get("Location") if got.status_code in REDIRECTS else None
            body, cut = (b"", False) if location is not None else await _body(got, limits.most)
    except httpx2.TimeoutException:
        raise ToolError(f"{target.authority} did not answer in time") from None
    except httpx2.InvalidURL as error:
        raise ToolError(f"{_shown(target.url)} is not a URL that can be sent: {error}") from None
    except httpx2.HTTPError as error:
        raise ToolError(f"the request to {target.authority} failed: {_why(error)}") from None
    headers = {name.lower(): value for name, value in got.headers.items()}
    pause = _pause(got.headers.get("Retry-After")) if got.status_code in TRY_AGAIN else None
    return WebResponse(request.url, target.url, got.status_code, headers, body, cut, pause), location


async def _body(got: httpx2.Response, most: int) -> tuple[bytes, bool]:
    """Return the decoded body up to the limit, and whether there is more of it."""
    from .decoding import Turns, decoder

    turns = Turns()
    decode = decoder(got.headers.get("Content-Encoding", ""))
    kept = bytearray()
    wire = 0
    async for part in got.aiter_raw():
        for piece in decode(part):
            kept += piece
            if len(kept) > most:
                del kept[most:]
                return bytes(kept), True
            wire += 0 if piece else PART
            await turns.after(piece)
        wire += len(part) + PART
        await turns.after(part)
        if wire > MAX_WORK * most:  # it decodes to almost nothing
            return bytes(kept), True
    return bytes(kept), False


def _pause(value: str | None) -> float | None:
    """Return the seconds that `Retry-After` asks for: a number, or a date."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def _why(error: Exception) -> str:
    """Return the text of a transport error, or the text of its cause if it has none."""
    inner = error
    while inner.__cause__ is not None and not str(inner):
        inner = inner.__cause__  # type: ignore[assignment]
    said = str(inner)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return f"its certificate cannot be trusted ({said.partition('] ')[2] or said})"
    return said or type(error).__name__


def _shown(url: str) -> str:
    return clip(url, 200)
