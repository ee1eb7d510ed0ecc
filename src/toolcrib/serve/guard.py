"""Check every HTTP request before anything reads it: Host, Origin, bearer token.

Host and Origin stop a web page in the user's browser from reaching a local server under a chosen name (DNS
rebinding). The token stops everyone else on the machine or the network.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("toolcrib.serve")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}
REALM = 'Bearer realm="toolcrib"'


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def authorities(names: Iterable[str], port: int) -> frozenset[str]:
    """Return the Host headers to accept: each name with our port, or unchanged if it already has a port."""
    accepted: set[str] = set()
    for name in names:
        bare = name.strip().lower().rstrip("/")
        if not bare:
            continue
        if bare.count(":") > 1 and not bare.startswith("["):
            bare = f"[{bare}]"
        accepted.add(bare if _has_port(bare) else f"{bare}:{port}")
        if not _has_port(bare) and port in DEFAULT_PORTS.values():
            accepted.add(bare)  # a client omits the scheme's default port
    return frozenset(accepted)


def _has_port(authority: str) -> bool:
    tail = authority.rsplit("]", 1)[-1]
    return ":" in tail


class RequestGuard:
    """ASGI middleware that checks requests.

    `hosts` are whole authorities (`localhost:8808`). If `token` is None, no token is required.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str | None) -> None:
        self.app, self.hosts = app, hosts
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        refusal = self._refusal(headers)
        if refusal is None:
            await self.app(scope, receive, send)
            return
        status, text, extra = refusal
        log.warning("refused a request: %s", text)
        await PlainTextResponse(text, status, extra)(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, str, Mapping[str, str]] | None:
        host = _only(headers, b"host")
        if host is None or host.lower() not in self.hosts:
            return 421, "Invalid Host header", {}
        if any(key == b"origin" for key, _ in headers):
            origin = _only(headers, b"origin")
            if origin is None or not self._origin_ok(origin):
                return 403, "Invalid Origin header", {}
        if self._token is not None:
            given = _only(headers, b"authorization")
            if given is None:
                return 401, "A bearer token is needed", {"WWW-Authenticate": REALM}
            scheme, _, value = given.partition(" ")
            right = hmac.compare_digest(value.strip().encode("latin-1"), self._token)
            if scheme.lower() != "bearer" or not right:
                return 401, "The bearer token is wrong", {"WWW-Authenticate": f'{REALM}, error="invalid_token"'}
        return None

    def _origin_ok(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin.lower())
            port = parts.port or DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            return False
        if parts.scheme not in DEFAULT_PORTS or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return False
        return parts.netloc in self.hosts or f"{parts.netloc}:{port}" in self.hosts


def _only(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return a header's value; None if it is missing or repeated, because then it is unclear which value counts."""
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1").strip() if len(found) == 1 else None
