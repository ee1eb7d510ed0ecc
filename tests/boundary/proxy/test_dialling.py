"""Connections through the proxy that the user has set."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest

from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.proxy.dialling import dial_directly, dialling
from toolcrib.boundary.proxy.proxy_server import FilteringProxy, loopback_listener

HOME = ip_address("127.0.0.1")


async def here(host: str, port: int) -> tuple[Address, ...]:
    return (HOME,)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def upstream(answer: bytes | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy that answers everything with `answer`, or with 200 and what it was asked."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nfrom the other side" if answer is None else answer)
            await writer.drain()
        await hang_up(writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


async def test_a_set_proxy_is_asked_for_the_name() -> None:
    async with upstream() as (port, heads):
        dial = dialling(GuardSettings(proxy=f"http://me:a%40b@127.0.0.1:{port}"))
        proxy = FilteringProxy(here, dial=dial)
        listener = loopback_listener()
        await proxy.serve(listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        await hang_up(writer)
        await proxy.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"from the other side")
    assert heads[0].startswith(b"CONNECT example.com:443 HTTP/1.1\r\n")
    assert base64.b64encode(b"me:a@b") in heads[0]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 No\r\n\r\n", b"no", b"", b"\r\n\r\n", b"x" * 200_000])
async def test_what_it_refuses_is_an_error(answer: bytes) -> None:
    async with upstream(answer) as (port, _):
        with pytest.raises(OSError, match=r"web\.proxy|reset"):
            await asyncio.wait_for(
                dialling(GuardSettings(proxy=f"http://127.0.0.1:{port}"))("a.test", (HOME,), 443), 20
            )


async def test_without_one_the_next_address_is_tried() -> None:
    async with upstream() as (port, _):
        _, writer = await dial_directly("a.test", (ip_address("127.0.0.77"), HOME), port)
        await hang_up(writer)
        with pytest.raises(OSError, match="no address"):
            await dial_directly("a.test", (), port)
    assert dialling(GuardSettings()) is dial_directly
