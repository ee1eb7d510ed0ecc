"""The guard in front of the HTTP server. It checks every request before anything reads it: Host, Origin, bearer token.

Host and Origin stop a web page in the user's browser from reaching a local server under a chosen name (DNS rebinding).
The token stops everyone else on the machine or the network, and says which caller it is.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core.caller import Caller
from ...core.nesting import has_many_pieces
from ..addressed import has_two_lengths, is_one_of, only_one
from ..defaults import CALLER, HEALTH, METRICS
from .tokens import Token, Tokens, has_expired

log = logging.getLogger("toolcrib.serve")

REALM = 'Bearer realm="toolcrib"'
MAX_BODY = 16 * 2**20
"""The largest request body: several times the largest file that a model writes in one call."""
MAX_HELD = 128 * 2**20
"""How large the bodies of all requests of a token under way may be. Else one client could hold all the memory."""
SMALL_BODY = 2**16
"""Such bodies do not count: a client with large requests can still use the server otherwise."""
MAX_PIECES = 250_000
"""How many strings, and how many commas and brackets, a request may have: twice the values of a call's arguments, and
room for the rest. Reading more would stop every other caller for seconds."""
LONG = 2**20
"""A shorter body is read without counting. It cannot have many more."""
MAX_TIMER = 24 * 3600.0
"""The longest a stream of a token with an end may be open, in seconds. Its client opens it again."""
INVALID = f'{REALM}, error="invalid_token"'

Refusal = tuple[int, str, Mapping[str, str]]
"""Status, text and headers of the answer to a request that is not let through."""


class RequestGuard:
    """ASGI middleware that checks requests.

    `hosts` are whole authorities (`localhost:8808`). `tokens` may be replaced at any time. `admit(client, token, number
    of tokens)` says whether the connection of a request is not one too many for its token.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: frozenset[str],
        tokens: Tokens,
        admit: Callable[[object, str, int], bool] = lambda _client, _token, _tokens: True,
    ) -> None:
        self.app, self.hosts, self.tokens, self._admit = app, hosts, tokens, admit
        self.refused: Counter[int] = Counter()
        """How many requests were refused, by HTTP status."""
        self._held: Counter[str] = Counter()
        """How large the bodies of the requests under way may become, by token."""
        self._ended = 0
        """How large the bodies of requests were that have ended since garbage was collected: Python looks for it by the
        number of objects, and a request of 16 MiB has few."""
        self._open: list[tuple[Token, asyncio.Event]] = []
        """The requests of named tokens that are open, each with the event that ends it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal, token = self._refusal(headers), None
        if refusal is None and self.tokens.required:
            refusal, token = self._holder(headers)
        if refusal is None and (scope["path"] in (HEALTH, METRICS)) != (token is not None and token.monitoring):
            refusal = 404, "Not Found", dict[str, str]()
        holder, size = token.digest if token is not None else "", _size(headers)
        if refusal is None and self._held[holder] + size > MAX_HELD:
            refusal = 503, "Too many large requests at once", {"Retry-After": "1"}
        if refusal is None and not self._admit(scope.get("client"), holder, len(self.tokens.all)):
            refusal = 503, "Too many connections at once", {"Retry-After": "1", "Connection": "close"}
        if refusal is None:
            self._held[holder] += size
            try:
                if token is None or token.caller is None:
                    await self._pass_on(scope, receive, send)
                else:
                    await self._serve(token, token.caller, scope, receive, send)
            except ClientDisconnect:
                log.debug("a client went away before it had sent its request")
            finally:
                self._held[holder] -= size
            return
        status, text, extra = refusal
        self.refused[status] += 1
        log.warning("refused a request: %s", text)
        await PlainTextResponse(text, status, extra)(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, unless its body has more pieces than the server can read beside other requests.

        A body that is too long is refused by the SDK.
        """
        read: list[Message] = []
        headers = Headers(scope=scope)
        length = _size(headers)
        if length > LONG and len(given := headers.get("content-length", "")) < 9 and int(given or 0) <= MAX_BODY:
            length, more = 0, True
            while more and length <= MAX_BODY:
                read.append(message := await receive())
                length += len(message.get("body", b""))
                more = message.get("more_body", False)
            if has_many_pieces(b"".join(each.get("body", b"") for each in read), MAX_PIECES):
                self.refused[413] += 1
                await PlainTextResponse("The request has too many values", 413)(scope, receive, send)
                return
            read.reverse()

        async def receive_again() -> Message:
            return read.pop() if read else await receive()

        try:
            await self.app(scope, receive_again, send)
        finally:
            self._ended += length
            if self._ended > MAX_HELD:
                self._ended = 0
                gc.collect()

    def use(self, tokens: Tokens) -> None:
        """Accept these tokens from now on. Streams of tokens that are not accepted any more end."""
        self.tokens = tokens
        for token, over in self._open:
            if not tokens.accepts(token):
                over.set()

    async def _serve(self, token: Token, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request of a named token. When the token is over, so is its stream, as if its client had gone."""
        over = asyncio.Event()
        opened = token, over
        self._open.append(opened)
        timer: asyncio.TimerHandle | None = None
        if token.expires is not None:
            left = min(max(0.0, token.expires - time.time()), MAX_TIMER)
            timer = asyncio.get_running_loop().call_later(left, over.set)
        # the SDK binds each session to the user that opened it
        user = AuthenticatedUser(AccessToken(token="", client_id=caller.name, scopes=[]))
        ended = False

        async def receive_in_time() -> Message:
            getting, waiting = asyncio.ensure_future(receive()), asyncio.ensure_future(over.wait())
            try:
                await asyncio.wait({getting, waiting}, return_when=asyncio.FIRST_COMPLETED)
                return getting.result() if getting.done() else {"type": "http.disconnect"}
            finally:
                getting.cancel()
                waiting.cancel()

        async def send_and_see(message: Message) -> None:
            nonlocal ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._pass_on({**scope, "user": user, CALLER: caller}, receive_in_time, send_and_see)
            if over.is_set() and not ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._open.remove(opened)
            if timer is not None:
                timer.cancel()

    def _refusal(self, headers: Headers) -> Refusal | None:
        host = only_one(headers, "host")
        if host is None or host.lower() not in self.hosts:
            return 421, "Invalid Host header", {}
        if "origin" in headers:
            origin = only_one(headers, "origin")
            if origin is None or not is_one_of(origin, self.hosts):
                return 403, "Invalid Origin header", {}
        if has_two_lengths(headers):
            return 400, "Content-Length and Transfer-Encoding exclude each other", {"Connection": "close"}
        return None

    def _holder(self, headers: Headers) -> tuple[Refusal | None, Token | None]:
        """Return the token of a request, or why there is none."""
        given = only_one(headers, "authorization")
        if given is None:
            return (401, "A bearer token is needed", {"WWW-Authenticate": REALM}), None
        scheme, _, value = given.partition(" ")
        token = self.tokens.find(value.strip().encode("latin-1"))
        if token is None or scheme.lower() != "bearer":
            return (401, "The bearer token is wrong", {"WWW-Authenticate": INVALID}), None
        if has_expired(token):
            return (401, "The bearer token has expired", {"WWW-Authenticate": INVALID}), None
        return None, token


def _size(headers: Headers) -> int:
    """Return how much of MAX_HELD a request needs."""
    length = only_one(headers, "content-length") or "0"
    if "transfer-encoding" in headers or not length.isdecimal():
        return MAX_BODY
    size = min(int(length[:12]), MAX_BODY)
    return size if size > SMALL_BODY else 0
