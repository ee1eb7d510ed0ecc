"""Was a request meant for us? Compares its Host and Origin headers with our own names."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}


def authorities(names: Iterable[str], port: int) -> frozenset[str]:
    """Return the Host headers to accept: each name with our port, or unchanged if it already has a port."""
    accepted: set[str] = set()
    for name in names:
        bare = name.strip().lower().rstrip("/")
        if not bare:
            continue
        if bare.count(":") > 1 and not bare.startswith("["):
            bare = f"[{bare}]"
        has_port = ":" in bare.rsplit("]", 1)[-1]
        accepted.add(bare if has_port else f"{bare}:{port}")
        if not has_port and port in DEFAULT_PORTS.values():
            accepted.add(bare)  # a client omits the scheme's default port
    return frozenset(accepted)


def is_one_of(origin: str, hosts: frozenset[str]) -> bool:
    """Return whether an Origin header names one of these authorities."""
    try:
        parts = urlsplit(origin.lower())
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return False
    if parts.scheme not in DEFAULT_PORTS or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return False
    return parts.netloc in hosts or f"{parts.netloc}:{port}" in hosts


def only_one(headers: Headers, name: str) -> str | None:
    """Return a header's value; None if it is missing or repeated, because then it is unclear which value counts."""
    found = headers.getlist(name)
    return found[0].strip() if len(found) == 1 else None


def has_two_lengths(headers: Headers) -> bool:
    """Return whether a request says its length in two ways: a proxy may see its end elsewhere, and pass on a second one
    in the first. Its connection has to be closed."""
    return "content-length" in headers and "transfer-encoding" in headers
