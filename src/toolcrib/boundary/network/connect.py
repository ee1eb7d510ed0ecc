"""Connect to one of several judged addresses, and load the authorities that TLS trusts. For requests and for the
proxy."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from .special_addresses import Address

T = TypeVar("T")


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
    """Return the TLS context: the system's authorities, and those of a proxy. It is cached: reading them takes 10 to
    50 ms."""
    context = ssl.create_default_context()
    if proxy_ca is not None:
        context.load_verify_locations(str(proxy_ca))
    return context
