"""A stream of the handshake era that broke is resumed: by its session only, and with bounded memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from mcp_types import JSONRPCNotification

from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.serve.http import event_store
from toolcrib.serve.http.event_store import EventMemory

from ..waiting import until
from .test_http import TOKEN, serving

HEADERS = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}


async def opened(http: httpx2.AsyncClient, url: str, revision: str = "2025-11-25") -> dict[str, str]:
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    answer = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": revision}
    await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    return session


async def events(stream: Any, count: int) -> list[dict[str, str]]:
    """The next events of a stream, each as its fields."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    async with asyncio.timeout(60):
        async for line in stream.aiter_lines():
            key, _, value = line.partition(": ")
            if line.startswith(":"):
                continue
            if line:
                fields[key.rstrip(":")] = value
            elif fields:
                found.append(fields)
                fields = {}
                if len(found) == count:
                    break
    return found


async def test_a_broken_stream_is_resumed_by_its_session_only() -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    @tool(category="memory")
    async def work() -> str:
        """Work."""
        started.set()
        await finish.wait()
        return "the result"

    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "work", "arguments": {}}}
    async with serving(ToolRegistry([work])) as url, httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
        mine, other = await opened(http, url), await opened(http, url)
        async with http.stream("POST", url, json=call, headers=mine) as stream:
            (first,) = await events(stream, 1)
            await started.wait()
        assert first["data"] == ""
        assert first["retry"] == "1000"
        finish.set()
        async with http.stream("GET", url, headers={**mine, "Last-Event-ID": first["id"]}) as stream:
            found = await events(stream, 1)
        assert json.loads(found[0]["data"])["result"]["content"][0]["text"] == "the result"
        async with http.stream("GET", url, headers={**other, "Last-Event-ID": first["id"]}) as stream:
            read = b""
            try:
                async with asyncio.timeout(1):
                    async for part in stream.aiter_bytes():
                        read += part
            except TimeoutError:
                pass
        assert b"the result" not in read


async def test_sessions_of_a_caller_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.serve.http.server.MAX_SESSIONS", 2)
    async with serving(ToolRegistry()) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        first = await opened(http, url)
        await opened(http, url)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        assert (await http.post(url, json=body)).status_code == 503
        assert (await http.delete(url, headers=first)).status_code == 200
        assert (await http.post(url, json=body)).status_code == 200


def note(text: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


async def replayed(store: Any, last: str) -> list[str]:
    got: list[str] = []

    async def send(event: Any) -> None:
        got.append(event.message.params["data"])

    await store.replay_events_after(last, send)
    return got


async def test_streams_and_stores_are_separate() -> None:
    memory = EventMemory()
    one, two = memory.store(), memory.store()
    first = await one.store_event("1", None)
    assert await two.store_event("1", None) == first
    await one.store_event("1", note("a"))
    await one.store_event("2", note("b"))
    await two.store_event("1", note("c"))
    assert await replayed(one, first) == ["a"]
    assert await replayed(two, first) == ["c"]
    for unknown in ("99", "", "x", "-1", "\u0661", "9" * 5_000):
        assert await replayed(one, unknown) == []


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "MAX_EVENTS", 50)
    monkeypatch.setattr(event_store, "MAX_EVENT", 5_000)
    memory = EventMemory(100_000)
    stores: list[Any] = [memory.store() for _ in range(20)]
    first = [await store.store_event("1", None) for store in stores]
    for n in range(100):
        for store in stores:
            await store.store_event("1", note(f"{n} " + "x" * 1_000))
    assert memory.size <= 100_000
    assert sum(len(store._events) for store in stores) * 1_300 <= 110_000
    assert await replayed(stores[0], first[0]) == [], "what was dropped is not resumed with a gap"
    last = await stores[0].store_event("1", note("y" * 6_000))
    assert await replayed(stores[0], last) == []
    for store in stores:
        store.close()
    assert memory.size == 0
    await until(lambda: not memory._order)  # pyright: ignore[reportPrivateUsage]
