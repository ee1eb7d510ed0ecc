"""Make connections for the proxy's clients: to the judged addresses or, if it is set, through `web.proxy`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..network.host_names import place_of
from ..network.resolve import connect_first, tls_context
from ..network.settings import GuardSettings
from ..network.special_addresses import Address

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, Sequence[Address], int], Awaitable[Streams]]
"""`await dial(host, addresses, port)` connects to one of the addresses, which belong to the host. Raises OSError."""

LINGER_SECONDS = 1.0  # how long a connection may take to close, and a refused client may go on sending before that
_HEAD_BYTES = 64 * 1024


async def dial_directly(host: str, addresses: Sequence[Address], port: int) -> Streams:
    """Connect to the first address that answers. Raises OSError if none does."""
    return await connect_first(addresses, lambda address: asyncio.open_connection(str(address), port), (OSError,))


def dialling(settings: GuardSettings) -> Dial:
    """Return the way to connect that these settings ask for: directly, or through their proxy.

    The proxy gets the name, by CONNECT, for plain HTTP too. It looks the name up again, so the judged address is not
    always the one that is dialled in the end.
    """
    if settings.proxy is None:
        return dial_directly
    url, proxy_ca = settings.proxy, settings.proxy_ca

    async def dial(host: str, addresses: Sequence[Address], port: int) -> Streams:
        return await _through(url, proxy_ca, host, port)

    return dial


async def _through(url: str, proxy_ca: Path | None, host: str, port: int) -> Streams:
    parts = urlsplit(url)
    assert parts.hostname is not None, "the settings have seen to it"
    tls = tls_context(proxy_ca) if parts.scheme == "https" else None
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if tls else 80), ssl=tls, limit=_HEAD_BYTES
    )
    try:
        authority = place_of(host, port)
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b" ", 2)[1][:3]
        if not head.startswith(b"HTTP/1.") or status != b"200":
            raise OSError(f"the proxy of web.proxy answered {status.decode('latin-1')!a}")
    except (IndexError, EOFError, asyncio.LimitOverrunError):
        await end_connection(writer)
        raise OSError("the proxy of web.proxy gave no usable answer") from None
    except BaseException:
        await end_connection(writer)
        raise
    return reader, writer


async def end_connection(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait a moment until it is."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(LINGER_SECONDS):
            await writer.wait_closed()
