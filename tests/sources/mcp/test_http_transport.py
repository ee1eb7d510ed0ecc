"""Servers by HTTP: forgotten sessions, servers that are gone, headers, the guard."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import itertools
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from http_world import http_server

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.core.errors import AddressRefused
from toolcrib.core.output import ToolOutput
from toolcrib.sources.mcp import http_transport as http_module
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.connector import McpFailure
from toolcrib.sources.mcp.servers import McpServers


async def call(servers: McpServers, tool: str = "count") -> ToolOutput:
    return await servers.registered.registry.execute(f"mcp_web_{tool}", {})


def web(url: str, **settings: Any) -> Any:
    return server_config("web", {"url": url, "protocol": "legacy", **settings})


async def test_list_and_call_with_headers(client: Any, monkeypatch: Any) -> None:
    with http_server() as world:
        config = web(world.url, headers={"X-Team": "${HTTP_TEAM:-blue}"})
        servers = await client(config)
        assert servers.servers["web"].tools == 2
        assert str(await call(servers)) == "1"
        assert world.headers[-1]["x-team"] == "blue"
        assert len(world.sessions) == 1
        await servers.aclose()
        assert not world.sessions  # ended, not left to the server


async def test_a_forgotten_session_is_made_anew_and_the_call_sent_again(client: Any) -> None:
    with http_server() as world:
        servers = await client(web(world.url))
        world.sessions.clear()
        assert str(await call(servers)) == "1"  # the first was refused unseen
        assert world.calls == ["count"]


async def test_a_server_that_is_gone_and_comes_back(client: Any) -> None:
    with http_server() as world:
        port = urlsplit(world.url).port
        servers = await client(web(world.url))
        world.stop()
        gone = await call(servers)
        assert gone.is_error
        assert "MCP server web" in gone.for_llm
        again = await call(servers)
        assert "ConnectError" in again.for_llm
        assert "tried again in" in (await call(servers)).for_llm
    servers._servers["web"].connectors.main._not_before = 0.0
    with http_server(port or 0):
        assert str(await call(servers)) == "1"


async def test_a_connection_cut_in_a_call_is_not_repeated(client: Any) -> None:
    with http_server() as world:
        servers = await client(web(world.url))
        world.cut = True
        output = await call(servers)
        assert output.is_error
        assert world.calls == ["count"]
        world.cut = False
        assert str(await call(servers)) == "2"


async def test_a_server_that_asks_and_takes_no_answer_is_ended(client: Any) -> None:
    with http_server() as world:
        servers = await client(web(world.url))
        world.asks = 2_000
        output = await call(servers)
        assert "it did not take our answers to 1,024 requests" in output.for_llm
        world.asks = 0
        assert str(await call(servers)) == "2"


async def test_an_answer_that_is_an_error_page(client: Any) -> None:
    with http_server() as world:
        world.status = 503
        servers = await client(web(world.url))
        error = servers.servers["web"].error
        assert error is not None
        assert "HTTP 503" in error


@pytest.mark.parametrize(
    ("status", "after", "said"),
    [
        (401, "", "HTTP 401 Unauthorized. It wants a login, which a person can do: `toolcrib mcp login web`"),
        (403, "", "HTTP 403 Forbidden"),
        (429, "30", "HTTP 429 Too Many Requests. Try again in 30 s."),
        (429, "Wed, 21 Oct 2065 07:28:00 GMT", "HTTP 429 Too Many Requests. Try again later."),
        (500, "", "HTTP 500 Internal Server Error"),
        (503, "30", "HTTP 503 Service Unavailable. Try again in 30 s."),
    ],
)
async def test_the_status_of_a_refused_call_is_said(client: Any, status: int, after: str, said: str) -> None:
    with http_server() as world:
        servers = await client(web(world.url))
        world.status, world.refuse, world.retry_after = status, 1, after
        output = await call(servers)
        assert output.is_error
        assert output.for_llm.startswith(f"MCP server web refused: {said}")
        assert world.calls == []


async def test_a_call_that_reads_is_tried_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.sources.mcp.tool_caller.RETRY_SECONDS", 0.01)
    with http_server() as world:
        servers = await client(web(world.url))
        world.status, world.refuse = 503, 1
        assert str(await call(servers, "other")) == "1"
        world.status, world.refuse = 503, 2  # once again only
        assert "HTTP 503" in (await call(servers, "other")).for_llm
        world.status, world.refuse = 503, 1  # what may have effects is not repeated
        assert "HTTP 503" in (await call(servers, "count")).for_llm
        world.status, world.refuse, world.retry_after = 429, 1, "600"  # nobody waits that long
        assert "Try again in 600 s" in (await call(servers, "other")).for_llm


async def test_an_address_of_the_older_protocol_is_hinted_at(client: Any) -> None:
    with http_server() as world:
        world.status = 405
        servers = await client(web(world.url))
        error = servers.servers["web"].error
        assert error is not None
        assert 'set type = "sse"' in error


async def test_a_server_of_the_newer_protocol_is_used_where_the_older_was_set(client: Any) -> None:
    with http_server() as world:
        servers = await client(web(world.url, transport="http_sse"))
        assert servers.servers["web"].error is None
        assert str(await call(servers, "other")) == "1"


async def test_nobody_there(client: Any) -> None:
    with http_server() as world:
        pass
    servers = await client(web(world.url))
    error = servers.servers["web"].error
    assert error is not None
    assert "ConnectError" in error


async def test_the_guard_where_it_is_set(client: Any, host: Any) -> None:
    with http_server() as world:
        guarded = dataclasses.replace(host, guard=lambda: AddressGuard())
        servers = await client(start=False)
        servers._services = guarded
        with pytest.raises(McpFailure, match=r"the setting web.ports can add it$"):
            await servers.connect("web", web(world.url, guarded=True))
        assert not world.headers


@pytest.mark.parametrize(("url", "reached"), [("https://mcp.example/mcp", False), ("http://localhost:9/mcp", True)])
async def test_a_public_server_names_no_private_address(url: str, reached: bool) -> None:
    """A login asks the addresses that the server names: its metadata, its authorization server, its token endpoint."""
    with http_server() as world:
        transport = http_module.HttpTransport(
            url, headers={}, auth=None, guard=AddressGuard(), guarded=False, legacy=False
        )
        async with transport._client() as client:
            with contextlib.nullcontext() if reached else pytest.raises(AddressRefused):
                assert (await client.get(world.url)).status_code


async def test_its_own_origin_is_dialled_directly() -> None:
    with http_server() as world:
        public = http_module._OwnOrigin(world.url, httpx2.AsyncHTTPTransport(), AddressGuard())
        async with httpx2.AsyncClient(transport=public) as client:
            assert (await client.get(world.url)).status_code
            with pytest.raises(AddressRefused):
                await client.get(world.url.replace("127.0.0.1", "localhost"))


# --- answers without end


@pytest.fixture
async def answering() -> AsyncIterator[Callable[..., httpx2.AsyncClient]]:
    """`answering(body, **headers)`: a client of which each request gets this answer, with the transport of ours."""
    made: list[httpx2.AsyncClient] = []
    told: list[Exception] = []

    def make(body: bytes | Iterable[bytes], **headers: str) -> httpx2.AsyncClient:
        async def stream() -> AsyncIterator[bytes]:
            for piece in [body] if isinstance(body, bytes) else body:
                yield piece

        inner = httpx2.MockTransport(
            lambda _: httpx2.Response(
                200, headers={k.replace("_", "-"): v for k, v in headers.items()}, content=stream()
            )
        )
        made.append(httpx2.AsyncClient(transport=http_module._Remembering(inner, told.append)))
        return made[-1]

    make.told = told  # type: ignore[attr-defined]
    yield make
    for each in made:
        await each.aclose()


async def test_a_compressed_answer_is_read(answering: Any) -> None:
    text = b'{"a": [1, 2]}'
    for encoding, packed in (("gzip", gzip.compress(text)), ("deflate", zlib.compress(text)), ("", text)):
        assert (await answering(packed, Content_Encoding=encoding).post("http://x/")).content == text


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_without_end_ends(answering: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(http_module, "MAX_EVENT", 2**20)
    monkeypatch.setattr(http_module, "MAX_OPENED", 1_000)
    bomb = gzip.compress(b"x" * 2**24)
    for body, headers in (
        (itertools.repeat(b"x" * 10_000), {}), (itertools.repeat(b"[],"), {}), (bomb, {"Content_Encoding": "gzip"}),
        (itertools.repeat(b'"1":1,', 3_000), {}), (itertools.repeat(b"0,", 40_000), {}),
    ):  # fmt: skip
        with pytest.raises(httpx2.RemoteProtocolError, match="too large"):
            await answering(body, Content_Type=kind, **headers).post("http://x/")
        assert "too large" in str(answering.told[-1])  # why the server counts as gone


async def test_what_is_quoted_in_a_text_is_no_text_of_an_answer(
    answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "MAX_OPENED", 400)
    text = b'"' + rb"\"a\": 1," * 10_000 + b'"'
    assert (await answering(text).post("http://x/")).content == text


async def test_a_stream_of_events_may_be_long(answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MAX_EVENT", 200)
    for end in (b"\n\n", b"\r\n\r\n"):
        events = [b'data: {"a": [1]}' + end] * 1_000
        found = await answering(events, Content_Type="text/event-stream").post("http://x/")
        assert found.content == b"".join(events)


@pytest.mark.parametrize("encoding", ["nonsense", "gzip"])
async def test_an_encoding_that_is_none(answering: Any, encoding: str) -> None:
    with pytest.raises(httpx2.DecodingError):
        await answering(b"no", Content_Encoding=encoding).post("http://x/")


async def test_a_server_that_ends_each_stream_is_not_asked_at_once(
    answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await real(0)

    monkeypatch.setattr(http_module.asyncio, "sleep", sleep)
    http = answering(b"")
    for _ in range(4):
        await http.get("http://x/")
    assert waited[0] == 0 and waited[1:] == sorted(waited[1:]) and waited[3] > 1.2
    await http.post("http://x/")
    assert len(waited) == 4
