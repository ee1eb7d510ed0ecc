"""Parse the request of a proxy client. It is read strictly: a head that two programs could read differently is refused.

h11 reads the head. Before that, its raw lines are checked, because h11 is as lenient as RFC 9112 allows (bare LF,
folded lines). After that, headers that must not occur together are checked. The head for the server is written anew.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

import h11

from ...core.dataclass import dataclass
from ...core.errors import AddressRefused
from ...core.text import lazy_regex
from ..network.host_names import place_of
from ..network.url import Target, parse_url

PIECE = 64 * 1024

# For one hop only (RFC 9110 §7.6.1), or between a client and its proxy.
_ONE_HOP = frozenset(
    {
        b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade",
        b"proxy-authorization", b"proxy-authenticate", b"proxy-authentication-info",
    }
)  # fmt: skip
_BARE_LF = lazy_regex(rb"(?<!\r)\n")
_BARE_CR = lazy_regex(rb"\r(?!\n|\Z)")
_FOLDED = lazy_regex(rb"\n[ \t]")
_METHOD = lazy_regex(rb"[A-Za-z]")
_USERINFO = lazy_regex(r"[a-z]+://[^/?#]*@", re.IGNORECASE)

Header = tuple[bytes, bytes]


class BadRequest(Exception):
    """The request gets an error answer from the proxy. `status` is HTTP's; `rule` names the rule that refused it, if
    any."""

    def __init__(self, status: int, text: str, rule: str | None = None, where: str | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.rule, self.where = status, text, rule, where


class Inbox:
    """The bytes that a client sends. Bytes can be handed back: data after a request is the beginning of the next
    one."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._left = b""

    @property
    def empty(self) -> bool:
        """Return whether nothing was handed back."""
        return not self._left

    def give_back(self, data: bytes) -> None:
        """Hand bytes back: the next read returns them."""
        self._left = data + self._left

    async def some(self) -> bytes:
        """Return the next bytes; empty at the end."""
        data, self._left = self._left, b""
        return data or await self._reader.read(PIECE)

    async def _beginning(self) -> bytes:
        """Return the first bytes of a request, without an empty line before it (RFC 9112 §2.2)."""
        data = await self.some()
        if data == b"\r":
            data += await self.some()
        return await self.some() if data == b"\r\n" else data.removeprefix(b"\r\n")

    async def head(self, most: int) -> bytes | None:
        """Return the lines of a request up to the empty one; None at the end of the stream. Raises BadRequest."""
        data = bytearray(await self._beginning())
        seen = 0
        while data:
            end = data.find(b"\r\n\r\n", max(0, seen - 3))
            size = end + 4 if end >= 0 else len(data)
            _judge_lines(data, max(0, seen - 1), size)
            if size > most:
                raise BadRequest(431, f"the head of the request is longer than {most:,} bytes")
            if end >= 0:
                self._left = bytes(data[size:])
                return bytes(data[:size])
            seen = len(data)
            more = await self._reader.read(PIECE)
            if not more:
                break
            data += more
        return None


def _judge_lines(data: bytearray, start: int, end: int) -> None:
    """Judge only the new part: otherwise a client that sends byte by byte would make us read all of it each time."""
    if start == 0 and not _METHOD.match(data):
        raise BadRequest(400, "this is a proxy for HTTP, and this is not a request (use CONNECT before TLS)")
    if _BARE_LF.search(data, start, end) or _BARE_CR.search(data, start, end):
        raise BadRequest(400, "a line of the request's head ends otherwise than in CR LF")
    if _FOLDED.search(data, start, end):
        raise BadRequest(400, "a header is folded into a second line")


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A parsed request. `tunnel` is for CONNECT, whose target has no relevant path."""

    event: h11.Request
    target: Target
    tunnel: bool
    upgrade: bytes | None

    @property
    def where(self) -> str:
        """Return the target as people write it, with its port."""
        return place_of(str(self.target.host), self.target.port)

    def onward(self) -> h11.Request:
        """Return the request for the server: origin-form, its `Host` from the target, without headers for the proxy."""
        headers = [(b"Host", self.target.authority.encode()), *passed_on(self.event.headers.raw_items())]
        if _values(self.event.headers, b"transfer-encoding"):
            headers.append((b"Transfer-Encoding", b"chunked"))
        if self.upgrade is not None:
            headers += [(b"Connection", b"upgrade"), (b"Upgrade", self.upgrade)]
        else:
            headers.append((b"Connection", b"close"))
        return h11.Request(method=self.event.method, target=self.target.path.encode(), headers=headers)


def passed_on(headers: Iterable[Header]) -> list[Header]:
    """Return the headers that are for more than one hop, without `Host`."""
    given = list(headers)
    named = {token for value in _values(given, b"connection") for token in _tokens(value)}
    return [
        (name, value)
        for name, value in given
        if name.lower() not in _ONE_HOP and name.lower() not in named and name.lower() != b"host"
    ]


def _values(headers: Iterable[Header], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name.lower() == wanted]


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip().lower() for token in value.split(b",")]


def read_request(event: h11.Request, opened: Target | None = None) -> ProxyRequest:
    """Read a request. `opened` is the target of the tunnel that it came through, if the proxy opened its TLS.

    Raises BadRequest for a request that no client of a proxy should send."""
    tunnel = event.method == b"CONNECT"
    _judge_framing(event, tunnel)
    if opened is not None:
        target = _opened_target(event.target, opened, tunnel)
    else:
        target = _connect_target(event.target) if tunnel else _absolute_target(event.target)
    _judge_host(event, target)
    upgrade = None
    if any(b"upgrade" in _tokens(value) for value in _values(event.headers, b"connection")):
        upgrade = b", ".join(_values(event.headers, b"upgrade")) or None
        if opened is not None:
            raise BadRequest(403, "this host gets a secret, so no protocol but HTTP is spoken with it")
    return ProxyRequest(event, target, tunnel, upgrade)


def _judge_framing(event: h11.Request, tunnel: bool) -> None:
    """Check that the end of the request is stated only once, or another reader finds a second request in its body."""
    length, coding = _values(event.headers, b"content-length"), _values(event.headers, b"transfer-encoding")
    if length and coding:
        raise BadRequest(400, "the request has both Content-Length and Transfer-Encoding")
    if coding and event.http_version < b"1.1":
        raise BadRequest(400, "an HTTP/1.0 request has no Transfer-Encoding")
    if tunnel and (coding or any(value != b"0" for value in length)):
        raise BadRequest(400, "CONNECT has no body")


def _connect_target(raw: bytes) -> Target:
    text = raw.decode("ascii")
    if re.search(r"[/?#@]", text):
        raise BadRequest(400, "CONNECT names a host and a port, and nothing else")
    _, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise BadRequest(400, "CONNECT names no port")
    return _parsed(f"http://{text}/")


def _opened_target(raw: bytes, opened: Target, tunnel: bool) -> Target:
    text = raw.decode("ascii")
    if tunnel or not text.startswith("/"):
        raise BadRequest(400, "a request to this host names a path; the host is that of the tunnel")
    return _parsed(f"https://{opened.host}:{opened.port}{text}")


def _absolute_target(raw: bytes) -> Target:
    text = raw.decode("ascii")
    if text.startswith("/") or text == "*":
        raise BadRequest(400, "this is a proxy: the request's target should be a whole URL (http://host/path)")
    if _USERINFO.match(text):
        raise BadRequest(400, "the URL has a user name; it belongs into the Authorization header")
    target = _parsed(text)
    if target.scheme != "http":
        raise BadRequest(400, f"{target.scheme} is not spoken for others here; use CONNECT")
    return target


def _parsed(url: str) -> Target:
    try:
        return parse_url(url)
    except AddressRefused as error:
        raise BadRequest(400, str(error), error.rule) from None


def _judge_host(event: h11.Request, target: Target) -> None:
    """Check that `Host` names the target (RFC 9112 §3.2.2 lets a proxy ignore it; a difference is a mistake, or an
    attack).

    A `Host` without a port is accepted for a CONNECT with one: many clients write it so.
    """
    for value in _values(event.headers, b"host"):
        try:
            host = parse_url(f"{target.scheme}://{value.decode('ascii')}/")
        except (AddressRefused, UnicodeDecodeError):
            raise BadRequest(400, "the Host header names no host") from None
        port_matches = host.port == target.port or (event.method == b"CONNECT" and b":" not in value)
        if b"@" in value or b"/" in value or host.host != target.host or not port_matches:
            raise BadRequest(400, "the Host header and the target of the request differ")
