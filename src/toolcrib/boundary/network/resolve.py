"""Look up the current addresses of a name, and connect to one of them once they are judged. For requests and for the
proxy."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from ...core.errors import AddressRefused
from ...core.threads import ThreadsExhausted, ToolThreads
from .special_addresses import Address, parse_address

T = TypeVar("T")

RULE_UNRESOLVED = "address:unresolved"
DIAL_SECONDS = 10.0
CHECK_SECONDS = 2.0

Lookup = Callable[[str, float], Awaitable[tuple[Address, ...]]]
"""`await lookup(name, seconds)` returns all addresses, at least one. Raises AddressRefused if none is found in time."""

# getaddrinfo blocks for as long as the system's resolver needs, so it has separate threads: hung lookups must not
# take those that tools run on. 256 may run and 512 hang; then lookups are refused until one ends.
_threads = ToolThreads(limit=256, max_stuck=512)


async def look_up(name: str, seconds: float = DIAL_SECONDS) -> tuple[Address, ...]:
    """Return the addresses that the system's resolver (DNS, /etc/hosts) gives for a name, IPv4 and IPv6.

    Raises AddressRefused if none is found in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _threads.run(_getaddrinfo, name)
    except TimeoutError:
        raise AddressRefused(f"{name} did not resolve within {seconds:g} s", RULE_UNRESOLVED) from None
    except ThreadsExhausted:
        raise AddressRefused(f"{name} was not looked up: too many lookups hang", RULE_UNRESOLVED) from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AddressRefused(f"{name} does not resolve: {reason}", RULE_UNRESOLVED) from None


def _getaddrinfo(name: str) -> tuple[Address, ...]:
    answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(parse_address(str(answer[4][0])) for answer in answers))


async def connect_first(
    addresses: Iterable[Address], connect: Callable[[Address], Awaitable[T]], failures: tuple[type[Exception], ...]
) -> T:
    """Connect to the first address that answers. Raises the last of these failures; OSError without an address."""
    last: Exception | None = None
    for address in addresses:
        try:
            return await connect(address)
        except failures as error:
            last = error
    raise last or OSError("it has no address")


@functools.cache
def tls_context(proxy_ca: Path | None) -> ssl.SSLContext:
    """Return the TLS context: the system's authorities (or SSL_CERT_FILE), and those of a proxy. It is cached: reading
    them takes 10 to 50 ms."""
    import httpx2

    context = httpx2.create_ssl_context()
    # SSLKEYLOGFILE would write the keys of all connections into a file
    context.keylog_filename = None  # pyright: ignore[reportAttributeAccessIssue]
    if proxy_ca is not None:
        context.load_verify_locations(str(proxy_ca))
    return context
