"""Connections without a token cannot keep those with one out."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from toolcrib.boundary.network.strangers import (
    MAX_DESCRIPTORS,
    MAX_STRANGERS,
    MAX_UNREAD,
    PIECE,
    SHARE,
    AutoHTTPProtocol,
    Strangers,
    connections_of_one,
    raise_descriptors,
)
from toolcrib.core.registry import ToolRegistry

from ...serve.test_http import connected, serving
from ...waiting import until


class End:
    """A transport that only knows whom it leads to, and whether it was ended."""

    def __init__(self, port: int) -> None:
        self.port, self.ended = port, False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def abort(self) -> None:
        self.ended = True


async def test_the_oldest_stranger_makes_room_and_nobody_else() -> None:
    strangers = Strangers(most=3, seconds=600)
    ends = [End(port) for port in range(6)]
    for end in ends[:3]:
        strangers.came(end)  # type: ignore[arg-type]
    strangers.passed(("127.0.0.1", 0), "one", 9)
    for end in ends[3:]:
        strangers.came(end)  # type: ignore[arg-type]
    assert [end.ended for end in ends] == [False, True, True, False, False, False]
    assert len(strangers) == 3


async def test_a_stranger_that_says_nothing_is_ended() -> None:
    strangers, silent, known = Strangers(seconds=0.01), End(1), End(2)
    strangers.came(silent)  # type: ignore[arg-type]
    strangers.came(known)  # type: ignore[arg-type]
    strangers.passed(["127.0.0.1", 2], "one", 9)
    await until(lambda: silent.ended)
    assert not known.ended and not len(strangers)


async def test_a_crowd_keeps_no_client_out() -> None:
    async with serving(ToolRegistry()) as url:
        place = urlsplit(url)
        crowd = []
        try:
            async with connected(url, "auto") as before:
                for _ in range(MAX_STRANGERS * 3):
                    crowd.append(await asyncio.open_connection(place.hostname, place.port))
                    crowd[-1][1].write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
                await before.list_tools()  # it is no stranger any more
                async with connected(url, "auto") as later:
                    await later.list_tools()
            ended = sum(reader.at_eof() or reader.exception() is not None for reader, _ in crowd)
            assert ended >= MAX_STRANGERS
        finally:
            for _, writer in crowd:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()


CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_flood_of_tiny_chunks_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[tuple[int, float, float]] = []
    read = AutoHTTPProtocol.data_received

    def noted(self: AutoHTTPProtocol, data: bytes) -> None:
        begun, used = self.loop.time(), time.thread_time()
        read(self, data)
        if b"a\r\n1\r\n" in data:
            pieces.append((len(data), begun, time.thread_time() - used))

    monkeypatch.setattr(AutoHTTPProtocol, "data_received", noted)
    async with serving(ToolRegistry()) as url:
        port, over = urlsplit(url).port or 0, threading.Event()

        def flood() -> None:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sender, contextlib.suppress(OSError):
                sender.sendall(CHUNKED % port)
                while not over.is_set():
                    sender.sendall(b"1\r\na\r\n" * 20_000)

        flooding = asyncio.create_task(asyncio.to_thread(flood))
        try:
            await until(lambda: pieces)
            async with connected(url, "auto") as client:
                await client.list_tools()
            await until(lambda: len(pieces) > 9)
        finally:
            over.set()
    await flooding
    assert max(length for length, _, _ in pieces) <= PIECE
    for (_, begun, took), (_, again, _) in pairwise(pieces):  # the rest of the time is others'
        assert again - begun >= took * (SHARE - 1)


def test_a_token_has_so_many_connections_and_another_its_own() -> None:
    strangers = Strangers()
    assert [strangers.passed(("::1", port), "one", 2) for port in (1, 2, 3, 2)] == [True, True, False, True]
    assert strangers.passed(("::1", 3), "other", 2)
    strangers.gone(("::1", 1))
    assert strangers.passed(("::1", 4), "one", 2)
    assert strangers.passed(("::1", 4), "other", 2)  # a proxy's connection carries requests of several tokens
    assert strangers.passed(("::1", 5), "one", 2)


def test_all_tokens_together_have_half_of_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert [connections_of_one(tokens) for tokens in (0, 1, 4, 10_000)] == [512, 512, 128, 1]


@pytest.mark.parametrize(
    ("before", "after"),
    [((1024, 4096), (4096, 4096)), ((1024, resource.RLIM_INFINITY), (MAX_DESCRIPTORS, resource.RLIM_INFINITY)),
     ((4096, 4096), None), ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None)],
)  # fmt: skip
def test_the_usual_limit_of_descriptors_is_raised(
    before: tuple[int, int], after: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: before)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.append(limits))
    raise_descriptors()
    assert found == ([] if after is None else [after])


def test_answers_that_the_clients_of_one_token_do_not_read_are_limited() -> None:
    strangers, half = Strangers(), MAX_UNREAD // 2
    for port in (1, 2, 3):
        strangers.passed(("::1", port), "one", 9)
    strangers.passed(("::1", 4), "other", 9)
    assert [strangers.waits(("::1", port), half) for port in (1, 2, 3, 4)] == [True, True, False, True]
    strangers.waits(("::1", 3), 0)  # it was ended
    strangers.waits(("::1", 1), 0)  # it was read
    assert strangers.waits(("::1", 3), half)
    assert not strangers.waits(("::1", 1), half)


async def test_a_connection_with_too_much_that_is_not_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.boundary.network.strangers.MAX_UNREAD", 2**20)

    async def much(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(2**24)})

    web = uvicorn.Server(uvicorn.Config(much, http=Strangers().protocol(), lifespan="off", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        working = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read = await asyncio.wait_for(reader.read(), 20)
            writer.close()
        finally:
            web.should_exit = True
            await working
    assert 0 < len(read) < 2**24  # what was on its way comes, the rest is gone
