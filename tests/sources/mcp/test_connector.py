"""The ways to a server: one for each era that clients behind us speak, ended when nobody uses them."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_world import alive, raw, sdk

from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.sources.mcp import connecting, tool_list
from toolcrib.sources.mcp.callbacks import Callbacks
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.connector import Connectors, McpFailure
from toolcrib.sources.mcp.inflight import MAX_TELLING, CallsInFlight, InFlight, ProgressTimeout
from toolcrib.sources.mcp.relay import Relay
from toolcrib.sources.mcp.servers import McpServers

from ...waiting import pass_time, until


class Client:
    """A client behind a call, as far as servers look at one."""

    exact, delivered, failure, capabilities, meta, log_level, session = False, None, None, None, {}, None, 1

    def __init__(self, modern: bool) -> None:
        self.modern = modern
        self.logged: list[str] = []

    def can_answer(self, request: Any) -> bool:
        return False

    async def exchange(self, requests: Any) -> Any:
        raise AssertionError("nobody asks")

    async def log(self, params: Any) -> None:
        self.logged.append(params.data)


def of(client: Client) -> ToolContext:
    return ToolContext(metadata={"mcp": client}, session_id="s")


def server(servers: McpServers, name: str) -> Any:
    return servers._servers[name]


async def pid(servers: McpServers, client: Client | None) -> int:
    name = servers.tools("sdk")[0].name.rsplit("_", 1)[0] + "_pid"
    registry = servers.registered.registry
    return int((await registry.execute(name, {}, of(client) if client is not None else None)).for_llm)


async def test_a_client_reaches_a_server_over_its_own_era(client: Any) -> None:
    servers = await client(sdk())
    one = server(servers, "sdk")
    assert one.connectors.main.connection.modern
    later = await pid(servers, Client(modern=True))
    assert later == await pid(servers, None), "we ourselves speak the later one"
    earlier = await pid(servers, Client(modern=False))
    assert earlier != later, "a process of its own: a local server speaks one era at a time"
    assert await pid(servers, Client(modern=False)) == earlier
    assert [each.state for each in one.connectors] == ["connected", "connected"], "both are used"
    assert one.tools.protocol == "2026-07-28", "asked for the earlier one, it still knows the later"
    await servers.aclose()
    assert not alive(earlier)
    assert not alive(later)


async def test_one_process_is_enough_where_one_era_is_used(client: Any) -> None:
    servers = await client(sdk())
    first = servers.servers["sdk"].pid  # it was asked what it has, and no more
    earlier = await pid(servers, Client(modern=False))
    await server(servers, "sdk").connectors.ending
    assert first != earlier
    assert not alive(first)
    assert servers.servers["sdk"].pid == earlier


async def test_one_start_is_enough_for_a_client_of_the_handshake_era(client: Any) -> None:
    servers = await client(sdk(), start=False)
    servers.handshake = True
    await servers.start()
    first = servers.servers["sdk"].pid
    assert await pid(servers, Client(modern=False)) == first
    one = server(servers, "sdk")
    assert one.connectors.main.connection is None
    assert one.tools.protocol is None, "it may speak the later one, too"
    assert await pid(servers, Client(modern=True)) != first


async def test_a_process_starts_before_the_sdk_is_loaded_and_ends_if_it_is_not(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    command = {"command": "/bin/sh", "args": ["-c", f"echo $$ >{file}; exec sleep 60"]}
    monkeypatch.setattr(connecting, "load_sdk", asyncio.Event().wait)
    servers = await client(server_config("slow", command), start=False)
    starting = asyncio.create_task(servers.start())
    await until(lambda: file.exists() and file.read_text())
    assert alive(int(file.read_text()))
    await servers.aclose()
    await asyncio.gather(starting, return_exceptions=True)
    await until(lambda: not alive(int(file.read_text())))


async def test_a_server_that_starts_before_the_gateway_listens_knows_that_it_will(client: Any) -> None:
    servers = await client(raw(), start=False)
    await servers.begin(handshake=True)
    [connection] = server(servers, "raw").connectors.live
    assert connection.callbacks.sampling is not None
    end = await servers.pass_on(lambda event: None)
    assert not connection.lost, "it is not connected again"
    end()
    assert not servers.relay.on
    assert Callbacks(raw(), Any, servers.relay, lambda kind: None).sampling is None, "that was the gateway's end"


async def test_a_server_without_a_handshake_is_asked_in_the_later_era() -> None:
    dialled: list[bool] = []

    async def opened(seconds: float) -> None:
        if dialled[-1]:
            raise MCPError(-32022, "Unsupported protocol version")

    async def dial(older: bool, who: Any) -> Any:
        dialled.append(older)
        nothing: Any = lambda *_: None  # noqa: E731
        return SimpleNamespace(open=opened, when_lost=nothing, when_over=nothing, touch=nothing, transport=None)

    async def connected(connection: Any) -> None:
        pass

    events: Any = SimpleNamespace(connected=connected, failed=lambda error: None, over=lambda: None)
    connectors = Connectors(raw(), dial, events, lambda: None)
    assert await connectors.any(older=True) is connectors.main.connection
    assert dialled == [True, False]


async def test_a_server_of_one_era_has_one_line(client: Any) -> None:
    servers = await client(raw(tools=["pid"]))
    for modern in (True, False):
        output = await servers.registered.registry.execute("mcp_raw_pid", {}, of(Client(modern)))
        assert int(output.for_llm) == servers.servers["raw"].pid
    assert server(servers, "raw").connectors.older is None


async def test_nobody_uses_it(client: Any) -> None:
    servers = await client(raw(tools=["pid", "slow"], settings={"idle_timeout": 100}))
    first = servers.servers["raw"].pid
    for _ in range(4):  # in use
        pass_time(60)
        await asyncio.sleep(0.01)
        assert int((await servers.registered.registry.execute("mcp_raw_pid", {})).for_llm) == first
    pass_time(200)
    await until(lambda: not alive(first))
    await until(lambda: servers.servers["raw"].state == "idle")
    again = int((await servers.registered.registry.execute("mcp_raw_pid", {})).for_llm)
    assert again != first, "the next call starts it again"


async def test_a_failure_is_told_once_and_waits(client: Any) -> None:
    servers = await client(raw(settings={"command": "no-such-program"}), start=False)
    one = server(servers, "raw")
    with pytest.raises(McpFailure, match="no program"):
        await one.refresh()
    assert one.state == "failed"
    with pytest.raises(McpFailure, match="tried again in"):
        await one.refresh()


async def test_log_messages_go_to_the_client_of_the_call(client: Any) -> None:
    servers = await client(raw(tools=["log"]))
    mine, heard = Client(modern=False), []
    await servers.pass_on(lambda event: heard.append(event))
    await servers.registered.registry.execute("mcp_raw_log", {"say": "in the call"}, of(mine))
    assert mine.logged == ["in the call"]
    await servers.registered.registry.execute("mcp_raw_log", {"say": "nobody's"}, ToolContext())
    assert [each.params.data for each in heard if hasattr(each, "params")] == [], "it is of a call of ours"


async def test_a_listener_hears_what_changes(client: Any) -> None:
    servers = await client(raw(tools=["notify"]))
    heard: list[Any] = []
    end = await servers.pass_on(heard.append)
    assert server(servers, "raw").connectors.main.live is None, "made anew, to say more"
    for method in ("resources/list_changed", "prompts/list_changed"):
        await servers.registered.registry.execute("mcp_raw_notify", {"method": f"notifications/{method}"})
    await until(lambda: len(heard) >= 2)
    assert [SimpleNamespace(kind=each.kind).kind for each in heard] == ["resources", "prompts"]
    end()
    await servers.registered.registry.execute("mcp_raw_notify", {"method": "notifications/prompts/list_changed"})
    await asyncio.sleep(0.1)
    assert len(heard) == 2


async def test_a_list_that_always_changes_takes_little_time(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = await client(raw(tools=["notify"]))
    await servers.registered.registry.execute("mcp_raw_notify", {"method": "ping"})  # it is connected
    tools, fetches = server(servers, "raw").tools, list[float]()

    async def read(self: Any, connection: Any) -> None:
        fetches.append(time.monotonic())
        await asyncio.sleep(0.1)

    monkeypatch.setattr(tool_list.ToolList, "read", read)

    async def spam() -> None:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            tools.changed()
            await asyncio.sleep(0.01)

    await spam()
    assert len(fetches) == 2, fetches  # each after ten times as long as the one before took


async def test_tools_that_ask_run_by_themselves() -> None:
    calls, order = CallsInFlight(), list[str]()

    async def run(tool: str, caller: str, seconds: float, *, asks: bool = False) -> None:
        await calls.turn(tool, caller)
        mine = InFlight(tool, ToolContext(), ProgressTimeout(1, 1), caller)
        calls.begin(mine)
        order.append(f"{caller} {tool}")
        try:
            await asyncio.sleep(seconds)
            if asks:
                order.append(f"{caller} is asked" if await calls.asker() is mine else "nobody knows")
            await asyncio.sleep(seconds)
            mine.answered = True
        finally:
            calls.end(mine)

    await asyncio.gather(run("ask", "ann", 0.02, asks=True), run("look", "bob", 0.02))
    assert order == ["ann ask", "bob look", "ann is asked"]
    assert calls.asks == {"ask"}
    order.clear()
    await asyncio.gather(*(run("ask", who, 0.01, asks=True) for who in ("ann", "bob", "eve")), run("look", "dan", 0.01))
    assert "nobody knows" not in order
    assert sorted(each for each in order if each.endswith("is asked")) == [
        "ann is asked",
        "bob is asked",
        "eve is asked",
    ]
    assert not calls.running


def in_flight(calls: CallsInFlight, *callers: str) -> list[InFlight]:
    running = [InFlight(f"tool of {who}", ToolContext(), ProgressTimeout(1, 1), who) for who in callers]
    for each in running:
        calls.begin(each)
    return running


async def end(calls: CallsInFlight, call: InFlight, *, answered: bool) -> None:
    call.answered = answered
    calls.end(call)
    await asyncio.sleep(0)


async def test_a_question_waits_until_it_is_known_whose_it_is() -> None:
    calls = CallsInFlight()
    ann, bob, eve = in_flight(calls, "ann", "bob", "eve")
    question = asyncio.create_task(calls.asker())
    await end(calls, eve, answered=True)
    assert not question.done()
    await end(calls, ann, answered=True)
    assert await question is bob
    assert calls.asks == {"tool of bob"}, "the others have not asked"


async def test_nobody_is_asked_what_may_be_anothers() -> None:
    calls = CallsInFlight()
    ann, bob = in_flight(calls, "ann", "bob")
    question = asyncio.create_task(calls.asker())
    await asyncio.sleep(0)
    await end(calls, ann, answered=False)
    assert await question is None, "what was cancelled or is too late may have asked"
    calls.end(bob)
    ann, bob = in_flight(calls, "ann", "bob")
    first = asyncio.create_task(calls.asker())
    await asyncio.sleep(0)
    assert await calls.asker() is None, "each may have asked one: they would wait for each other"
    await end(calls, ann, answered=True)
    assert await first is bob
    assert not calls._held  # pyright: ignore[reportPrivateUsage]


async def test_the_question_for_the_roots_makes_no_tool_run_alone(host: Any) -> None:
    """Servers ask it at their start, beside the calls of whoever calls first."""

    class Answering(Client):
        asked = 0

        def can_answer(self, request: Any) -> bool:
            return True

        async def exchange(self, requests: Any) -> Any:
            Answering.asked += 1
            return dict.fromkeys(requests, mcp_types.ListRootsResult(roots=[]))

    def call(session: str) -> InFlight:
        ctx = ToolContext(session_id=session, metadata={"mcp": Answering(modern=True)})
        return InFlight("look", ctx, ProgressTimeout(1, 1), (session, id(ctx)))

    callbacks = Callbacks(raw(), host, Relay(), lambda kind: None)
    callbacks.roots = callbacks._roots  # pyright: ignore[reportPrivateUsage]
    nothing: Any = None
    for sessions in (["ann", "ann", "ann"], ["ann", "bob"]):
        running = [call(session) for session in sessions]
        for each in running:
            each.timeout = SimpleNamespace(ask=lambda: None, answered=lambda: None)  # type: ignore[assignment]
            callbacks.calls.begin(each)
        found = await callbacks.roots(nothing)
        one = len(set(sessions)) == 1
        assert isinstance(found, mcp_types.ListRootsResult if one else mcp_types.ErrorData)
        assert callbacks.calls.asks == set()
        for each in running:
            callbacks.calls.end(each)
    assert Answering.asked == 1


async def test_a_toolcrib_that_starts_itself_ends(client: Any, host: Any) -> None:
    servers = await client(raw(tools=["environment"]))
    told = json.loads((await servers.registered.registry.execute("mcp_raw_environment", {})).for_llm)["env"]
    own = told["TOOLCRIB_BEHIND"]
    for behind, why in ((own, "this process is that server"), ("a,b,c", "does a server of it start Toolcrib")):
        deep = McpServers(
            [raw(tools=["environment"])],
            replace(host, environ={**host.environ, "TOOLCRIB_BEHIND": behind}),
            ToolRegistry(),
        )
        assert len(deep.registered.registry) == (behind != own)  # else the list grew with each start
        with pytest.raises(McpFailure, match=why):
            await deep.connect("raw")


async def test_no_more_notifications_wait_for_a_slow_client_than_fit() -> None:
    mine, reads, told = InFlight("do", ToolContext(), ProgressTimeout(1, 1), "a"), asyncio.Event(), 0

    async def send() -> None:
        nonlocal told
        await reads.wait()
        told += 1

    flood = [asyncio.create_task(mine.tell(send)) for _ in range(MAX_TELLING + 500)]
    await asyncio.sleep(0)
    reads.set()
    await asyncio.gather(*flood)
    assert told == MAX_TELLING
    await mine.tell(send)
    assert told == MAX_TELLING + 1


async def test_what_else_a_client_gets_waits_for_one_notification_of_a_call() -> None:
    mine, wire, sent = InFlight("do", ToolContext(), ProgressTimeout(1, 1), "a"), asyncio.Lock(), list[str]()

    async def send(what: str) -> None:
        async with wire:  # in order, as a session's stream
            await asyncio.sleep(0)
            sent.append(what)

    flood = [asyncio.create_task(mine.tell(lambda: send("log"))) for _ in range(100)]
    await asyncio.sleep(0)
    await send("answer")
    assert sent.index("answer") <= 2
    await asyncio.gather(*flood)
    assert sent.count("log") == 100
