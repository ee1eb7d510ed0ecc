"""The proxy in front of real servers on this machine: one whose name is granted, one that is internal."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.proxy.domains import only
from toolcrib.boundary.proxy.proxy_server import FilteringProxy, ProxyLimits, ProxyRefusal, loopback_listener
from toolcrib.core.errors import AddressRefused

GOOD, INTERNAL = "127.0.0.1", "127.0.0.9"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Origin:
    """A server that keeps every byte it gets and answers each connection with `answer` after the first head."""

    address: str
    answer: bytes = ANSWER
    port: int = 0
    got: list[bytes] = field(default_factory=list[bytes])
    echo: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self.talk(reader, writer)
        await hang_up(writer)
        self.tasks.discard(task)

    async def close(self) -> None:
        for task in (tasks := list(self.tasks)):
            task.cancel()
        await asyncio.gather(*tasks)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.got.append(b"")
        mine = len(self.got) - 1
        if not self.echo:
            while b"\r\n\r\n" not in self.got[mine] and (data := await reader.read(65536)):
                self.got[mine] += data
            writer.write(self.answer)
            await writer.drain()
        if self.echo or b" 101 " in self.answer:
            while data := await reader.read(65536):
                self.got[mine] += data
                writer.write(data)
                await writer.drain()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@dataclass
class World:
    """A proxy that may reach `good.test` and what is below it, and the two servers."""

    good: Origin
    internal: Origin
    proxy: FilteringProxy
    port: int
    names: dict[str, list[str]]
    told: list[ProxyRefusal]

    async def send(self, data: bytes, *, end: bool = False, seconds: float = 20) -> bytes:
        """Everything the proxy answers to these bytes, until it closes (or, with `end`, after we have closed)."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(seconds):
                writer.write(data)
                if end:
                    writer.write_eof()
                with contextlib.suppress(ConnectionResetError):
                    return await reader.read(-1)
                return b""
        finally:
            await hang_up(writer)

    async def get(self, url: str, *headers: str, version: str = "1.1") -> bytes:
        lines = [f"GET {url} HTTP/{version}", *headers, "Connection: close", "", ""]
        if not any(each.lower().startswith("host:") for each in headers):
            lines.insert(1, f"Host: {url.partition('://')[2].partition('/')[0]}")
        return await self.send("\r\n".join(lines).encode())


@contextlib.asynccontextmanager
async def world(*patterns: str, answer: bytes = ANSWER, echo: bool = False, **options: Any) -> AsyncIterator[World]:
    good, internal = Origin(GOOD, answer, echo=echo), Origin(INTERNAL, answer)
    servers: list[asyncio.Server] = []
    for origin in (good, internal):
        server = await asyncio.start_server(origin.handle, origin.address, 0)
        origin.port = server.sockets[0].getsockname()[1]
        servers.append(server)
    names = {"good.test": [GOOD], "sub.good.test": [GOOD], "evil.test": [INTERNAL], "xn--bcher-kva.test": [GOOD]}

    async def lookup(name: str, seconds: float) -> tuple[Address, ...]:
        if name not in names:
            raise AddressRefused(f"{name} does not resolve", "address:unresolved")
        found = names[name]
        return tuple(ip_address(each) for each in (found if len(found) < 2 else [found.pop(0)]))

    granted = [f"{GOOD}/32"]
    guard = AddressGuard(GuardSettings(allow_private=tuple(granted), ports=(good.port, internal.port)), lookup)
    told: list[ProxyRefusal] = []
    proxy = FilteringProxy(only(patterns or ("*.good.test",), guard), on_refused=told.append, **options)
    listener = loopback_listener()
    port = listener.getsockname()[1]
    await proxy.serve(listener)
    try:
        yield World(good, internal, proxy, port, names, told)
    finally:
        await proxy.close()
        for server in servers:
            server.close()
        for origin in (good, internal):
            await origin.close()


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer[9:12])


# --- what goes through


async def test_a_plain_request_goes_on_in_origin_form() -> None:
    async with world() as w:
        answer = await w.get(f"http://GOOD.test:{w.good.port}/a?b=c", "X-Mine: 1", "Proxy-Authorization: Basic eA==")
        assert status(answer) == 200
        assert answer.endswith(b"ok")
        head = w.good.got[0]
        assert head.startswith(b"GET /a?b=c HTTP/1.1\r\n")
        assert f"Host: good.test:{w.good.port}\r\n".encode() in head
        assert b"X-Mine: 1" in head
        assert b"proxy" not in head.lower()


async def test_connect_is_a_tunnel() -> None:
    async with world(echo=True) as w:
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        # what the client sends without waiting belongs to the tunnel
        writer.write(f"CONNECT sub.good.test:{w.good.port} HTTP/1.1\r\nHost: sub.good.test\r\n\r\n\x16early".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await reader.readexactly(6) == b"\x16early"
        big = bytes(range(256)) * 4096
        writer.write(big)
        assert await reader.readexactly(len(big)) == big
        writer.write_eof()
        assert await reader.read() == b""
        await hang_up(writer)


async def test_a_body_is_sent_on_whatever_its_framing() -> None:
    async with world() as w:
        url = f"http://good.test:{w.good.port}/"
        chunked = f"POST {url} HTTP/1.1\r\nHost: good.test:{w.good.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await w.send(chunked.encode() + b"3;x=y\r\nabc\r\n0\r\n\r\n", end=True)
        assert status(answer) == 200
        plain = f"POST {url} HTTP/1.1\r\nHost: good.test:{w.good.port}\r\nContent-Length: 3\r\n\r\nabc"
        assert status(await w.send(plain.encode(), end=True)) == 200
        assert all(b"Host: good.test" in each for each in w.good.got)


async def test_requests_on_one_connection_are_each_judged() -> None:
    async with world() as w:
        first = f"GET http://good.test:{w.good.port}/1 HTTP/1.1\r\nHost: good.test:{w.good.port}\r\n\r\n"
        second = f"GET http://evil.test:{w.internal.port}/2 HTTP/1.1\r\nHost: evil.test:{w.internal.port}\r\n\r\n"
        answer = await w.send((first + second).encode())
        assert answer.count(b"HTTP/1.1 200") == 1
        assert answer.count(b"HTTP/1.1 403") == 1
        assert w.internal.got == []
        twice = await w.send((first + first).encode(), end=True)
        assert twice.count(b"HTTP/1.1 200") == 2


async def test_a_body_is_never_read_as_a_second_request() -> None:
    async with world() as w:
        hidden = f"GET http://evil.test:{w.internal.port}/ HTTP/1.1\r\nHost: evil.test:{w.internal.port}\r\n\r\n"
        head = f"POST http://good.test:{w.good.port}/ HTTP/1.1\r\nHost: good.test:{w.good.port}\r\n"
        answer = await w.send(f"{head}Content-Length: {len(hidden)}\r\n\r\n{hidden}".encode(), end=True)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert w.told == []


async def test_a_head_may_come_byte_by_byte() -> None:
    async with world() as w:
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        for (
            byte
        ) in f"\r\nGET http://good.test:{w.good.port}/ HTTP/1.1\r\nHost: good.test:{w.good.port}\r\n\r\n".encode():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert status(await asyncio.wait_for(reader.readuntil(b"ok"), 60)) == 200
        for byte in b"GET http://good.test/ HTTP/1.1\r\nX: a\r\n b: c\r\n\r\n":
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)
        assert status(await asyncio.wait_for(reader.read(), 60)) == 400
        await hang_up(writer)


async def test_a_broken_body_is_refused_while_the_server_waits() -> None:
    async with world(echo=True) as w:  # it never answers of its own
        head = f"POST http://good.test:{w.good.port}/ HTTP/1.1\r\nHost: good.test:{w.good.port}\r\n"
        assert status(await w.send(f"{head}Transfer-Encoding: chunked\r\n\r\nxyz\r\n".encode())) in (400, 502)
        await w.send(f"{head}Content-Length: 100\r\n\r\nhalf".encode(), end=True)  # ends, and does not wait


@pytest.mark.parametrize("part", [b"1\r\na\r\n", b""])
async def test_other_work_runs_between_the_small_parts_of_an_answer(part: bytes) -> None:
    early = b"HTTP/1.1 103 Hints\r\n\r\n" * (0 if part else 5_000)
    answer = early + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + part * 20_000 + b"0\r\n\r\n"
    longest = 0.0

    async def other() -> None:
        nonlocal longest
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begun)

    async with world(answer=answer) as w:
        running = asyncio.create_task(other())
        url, host = f"http://good.test:{w.good.port}/", f"good.test:{w.good.port}"
        got = await w.send(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(), end=True)
        running.cancel()
    assert got.endswith(b"0\r\n\r\n")
    assert longest < 0.05


async def test_an_early_answer_counts() -> None:
    async with world(answer=b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") as w:
        head = f"POST http://good.test:{w.good.port}/ HTTP/1.1\r\nHost: good.test:{w.good.port}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        writer.write(f"{head}Content-Length: 100000\r\n\r\nhalf".encode())
        assert status(await asyncio.wait_for(reader.read(), 60)) == 413
        await hang_up(writer)


async def test_upgrade_becomes_a_tunnel_to_the_same_host() -> None:
    switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello"
    async with world(answer=switched) as w:
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        writer.write(
            f"GET http://good.test:{w.good.port}/ HTTP/1.1\r\nHost: good.test:{w.good.port}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"upgrade: websocket" in head.lower()
        assert await reader.readexactly(5) == b"hello"
        writer.write(b"frame")
        assert await reader.readexactly(5) == b"frame"
        await hang_up(writer)


async def test_a_switch_that_nobody_asked_for_is_none() -> None:
    async with world(answer=b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n") as w:
        assert status(await w.get(f"http://good.test:{w.good.port}/")) == 502


async def test_a_redirect_is_the_clients_to_follow() -> None:
    async with world(answer=b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n") as w:
        answer = await w.get(f"http://good.test:{w.good.port}/")
        assert status(answer) == 302
        assert b"http://evil.test/" in answer
        assert w.internal.got == []


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", b"a\r\nto the end\r\n0\r\n\r\n"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
async def test_answers_are_framed_anew(answer: bytes, body: bytes) -> None:
    async with world(answer=answer) as w:
        got = await w.get(f"http://good.test:{w.good.port}/")
        assert got.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")[2] == body


async def test_an_answer_that_breaks_off_does_not_look_whole() -> None:
    async with world(answer=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf") as w:
        got = await w.get(f"http://good.test:{w.good.port}/")
        assert b"Content-Length: 100" in got or got == b""
        assert not got.endswith(b"0\r\n\r\n")


# --- what does not


@pytest.mark.parametrize(
    ("authority", "port"),
    [
        ("evil.test", None), ("evil.test.", None), ("notgood.test", None), ("good.test.evil.test", None),
        (INTERNAL, None), (GOOD, None), ("[::1]", None), ("2130706433", None), ("localhost", None),
        ("169.254.169.254", 80), ("good.test", 22), ("good.test", 25), ("[::ffff:127.0.0.1]", None),
    ],
)  # fmt: skip
async def test_other_hosts_and_ports_are_refused(authority: str, port: int | None) -> None:
    async with world() as w:
        at = f"{authority}:{port or w.internal.port}"
        for data in (
            f"CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n",
            f"GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
        ):
            answer = await w.send(data.encode())
            assert status(answer) == 403
            assert b"web.ports" in answer if port in (22, 25) else b"sandbox.allowed_domains" in answer
        assert w.good.got == w.internal.got == []
        assert len(w.told) == 2
        assert len(w.proxy.refused) == 1


@pytest.mark.parametrize("spelling", ["good.test.", "GOOD.TEST", "sub.good.test", "xn--bcher-kva.test"])
async def test_spellings_of_an_allowed_name(spelling: str) -> None:
    async with world("*.good.test", "xn--bcher-kva.test") as w:
        assert status(await w.get(f"http://{spelling}:{w.good.port}/")) == 200


async def test_a_name_that_leads_inside_is_refused_however_it_answers_first() -> None:
    async with world() as w:
        w.names["good.test"] = [INTERNAL]
        assert status(await w.get(f"http://good.test:{w.internal.port}/")) == 403
        w.names["good.test"] = [GOOD, INTERNAL, INTERNAL, INTERNAL]  # rebinding: the judged address is the dialled one
        assert status(await w.get(f"http://good.test:{w.internal.port}/")) == 502  # nobody listens there
        assert status(await w.get(f"http://good.test:{w.internal.port}/")) == 403
        assert w.internal.got == []


async def test_a_name_that_does_not_resolve() -> None:
    async with world("*") as w:
        assert status(await w.get(f"http://nobody.test:{w.good.port}/")) == 502


async def test_a_check_that_fails_is_a_refusal() -> None:
    async def broken(host: str, port: int) -> tuple[Address, ...]:
        raise ZeroDivisionError

    proxy = FilteringProxy(broken)
    listener = loopback_listener()
    await proxy.serve(listener)
    port = listener.getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n")
    assert status(await reader.read()) == 403
    await hang_up(writer)
    await proxy.close()


BAD: dict[str, str] = {
    "two lengths": "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "length and chunked": "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 1\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in disguise": "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "chunked and more": "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "chunked in 1.0": "POST http://{at}/ HTTP/1.0\r\nHost: {at}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded": "GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX-A: b\r\n c\r\n\r\n",
    "bare LF": "GET http://{at}/ HTTP/1.1\nHost: {at}\n\n",
    "one bare LF": "GET http://{at}/ HTTP/1.1\r\nHost: {at}\nX: y\r\n\r\n",
    "bare CR": "GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX: a\rY: b\r\n\r\n",
    "space before colon": "GET http://{at}/ HTTP/1.1\r\nHost : {at}\r\n\r\n",
    "NUL": "GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX: a\0b\r\n\r\n",
    "no host": "GET http://{at}/ HTTP/1.1\r\n\r\n",
    "two hosts": "GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nHost: evil.test\r\n\r\n",
    "other host": "GET http://{at}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "other host in 1.0": "GET http://{at}/ HTTP/1.0\r\nHost: evil.test\r\n\r\n",
    "other port": "GET http://{at}/ HTTP/1.1\r\nHost: good.test:81\r\n\r\n",
    "other host of a tunnel": "CONNECT {at} HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "origin form": "GET / HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "asterisk form": "OPTIONS * HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "user": "GET http://good.test@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "user of a tunnel": "CONNECT a@{at} HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "tunnel with a path": "CONNECT {at}/x HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "tunnel without a port": "CONNECT good.test HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "tunnel to a URL": "CONNECT http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "tunnel with a body": "CONNECT {at} HTTP/1.1\r\nHost: {at}\r\nContent-Length: 5\r\n\r\nhello",
    "https in plain": "GET https://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "other scheme": "GET ftp://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "backslash": "GET http://{at}\\@evil.test/ HTTP/1.1\r\nHost: {at}\r\n\r\n",
    "percent": "GET http://good%2etest/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
    "zone": "CONNECT [fe80::1%25eth0]:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "not UTF-8 nor a word": "\x80\x81\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD)
async def test_what_could_be_read_in_two_ways_is_refused(name: str) -> None:
    async with world() as w:
        answer = await w.send(BAD[name].format(at=f"good.test:{w.good.port}").encode("latin-1"))
        assert status(answer) in (400, 501)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert w.good.got == w.internal.got == []


async def test_headers_for_one_hop_stay_here() -> None:
    answer = (
        b"HTTP/1.1 200 OK\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-End: 2\r\n"
        b"Proxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
    )
    async with world(answer=answer) as w:
        got = (await w.get(f"http://good.test:{w.good.port}/", "Connection: x-one", "X-One: 1", "TE: gzip")).lower()
        assert b"x-end: 2" in got
        assert b"x-hop" not in got
        assert b"keep-alive" not in got
        assert b"proxy-auth" not in got
        assert b"x-one" not in w.good.got[0].lower()
        assert b"\r\nte:" not in w.good.got[0].lower()


# --- credentials and limits


async def test_without_the_password_nothing_is_served() -> None:
    async with world(credential=("toolcrib", "s3cret")) as w:
        url = f"http://good.test:{w.good.port}/"
        for header in ("X: y", "Proxy-Authorization: Basic eDp5", "Proxy-Authorization: Bearer s3cret"):
            answer = await w.get(url, header)
            assert status(answer) == 407
            assert b"Proxy-Authenticate: Basic" in answer
        assert w.good.got == []
        token = base64.b64encode(b"toolcrib:s3cret").decode()
        assert status(await w.get(url, f"Proxy-Authorization: Basic {token}")) == 200
        assert b"s3cret" not in w.good.got[0]
        assert token.encode() not in w.good.got[0]


async def test_a_long_head_is_refused() -> None:
    async with world(limits=ProxyLimits(head_bytes=2000)) as w:
        assert status(await w.get(f"http://good.test:{w.good.port}/", f"X: {'y' * 3000}")) == 431


async def test_who_says_nothing_is_left() -> None:
    async with world(limits=ProxyLimits(head_seconds=0.2)) as w:
        assert await w.send(b"GET http://good") == b""  # no head in time: closed without a word
    async with world(limits=ProxyLimits(idle=0.2), echo=True) as w:
        tunnels = [await asyncio.open_connection("127.0.0.1", w.port) for _ in range(2)]
        for reader, writer in tunnels:
            writer.write(f"CONNECT good.test:{w.good.port} HTTP/1.1\r\nHost: good.test\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
        for reader, writer in tunnels:  # idle for longer than they may be
            assert await asyncio.wait_for(reader.read(), 60) == b""
            await hang_up(writer)


async def test_too_many_connections_are_told_so() -> None:
    async with world(limits=ProxyLimits(connections=1)) as w:
        _, first = await asyncio.open_connection("127.0.0.1", w.port)
        first.write(b"GET ")
        await asyncio.sleep(0.05)
        assert status(await w.send(b"")) == 503
        await hang_up(first)


async def test_closing_ends_every_connection() -> None:
    async with world(echo=True) as w:
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        writer.write(f"CONNECT good.test:{w.good.port} HTTP/1.1\r\nHost: good.test\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await w.proxy.close()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        await hang_up(writer)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", w.port)
        with pytest.raises(RuntimeError):
            await w.proxy.serve(loopback_listener())


async def test_an_answer_names_what_was_refused_even_to_clients_that_show_its_first_line_only() -> None:
    async with world() as w:
        answer = await w.send(b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n")
        first = answer.partition(b"\r\n")[0]
        assert b"pypi.org:443" in first
        assert b"sandbox.allowed_domains" in first
        assert w.told[0].where == "pypi.org:443"
        assert w.told[0].rule == "sandbox.allowed_domains"


_pieces = st.sampled_from(
    [
        b"GET ", b"CONNECT ", b"http://", b"good.test", b"evil.test", b":80", b"@", b"/", b"?", b"#", b" HTTP/1.1",
        b"\r\n", b"\n", b"\r", b" ", b"\t", b"Host: ", b"Content-Length: 5", b"Transfer-Encoding: chunked",
        b"0\r\n\r\n", b"\r\n\r\n", b"\0", b"\xff", b"[::1]", b"%00", b"\\", b"127.0.0.9", b"..",
        b"Connection: upgrade", b"Upgrade: x",
    ]
)  # fmt: skip


@given(st.lists(st.one_of(_pieces, st.binary(max_size=6)), max_size=25))
@settings(max_examples=150, deadline=None)
def test_no_bytes_reach_the_internal_server(pieces: list[bytes]) -> None:
    reached: list[str] = []

    async def admit(host: str, port: int) -> tuple[Address, ...]:
        reached.append(host)
        raise AddressRefused("not here", "test")

    async def go() -> None:
        proxy = FilteringProxy(admit, limits=ProxyLimits(head_seconds=5))
        listener = loopback_listener()
        await proxy.serve(listener)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
        writer.write(b"".join(pieces))
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            answer = await asyncio.wait_for(reader.read(), 60)
            assert answer == b"" or status(answer) in (400, 403, 501)
        await hang_up(writer)
        await proxy.close()

    asyncio.run(go())
    assert all(host and host == host.lower().strip() for host in reached)


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_that_is_just_accepted_is_closed_with_the_proxy(turns: int) -> None:
    async def admit(host: str, port: int) -> tuple[Address, ...]:
        raise AddressRefused("not here", "test")

    proxy = FilteringProxy(admit)
    listener = loopback_listener()
    await proxy.serve(listener)
    with socket.create_connection(listener.getsockname(), 5) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.close()
        gc.collect()  # a socket that nobody closed warns here
        with contextlib.suppress(ConnectionResetError):
            while await asyncio.to_thread(client.recv, 1000):
                pass
