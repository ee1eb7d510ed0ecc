"""Whatever a server does wrong: one clear error, the host lives on, and no process is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_world import alive, children_of, raw

from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput
from toolcrib.sources.mcp import servers as servers_module
from toolcrib.sources.mcp import tool_names
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.connection import Connection
from toolcrib.sources.mcp.connector import McpFailure
from toolcrib.sources.mcp.listed import ListedTool
from toolcrib.sources.mcp.servers import McpServers
from toolcrib.sources.mcp.upstream import Upstream

from ...waiting import pass_time, until

READ_ONLY = {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object", "additionalProperties": True}}


async def call(servers: McpServers, tool: str, ctx: ToolContext | None = None, **arguments: Any) -> ToolOutput:
    return await servers.registered.registry.execute(f"mcp_raw_{tool}", arguments, ctx)


def pid_of(servers: McpServers, name: str = "raw") -> int:
    pid = servers.servers[name].pid
    assert pid is not None
    return pid


async def test_killed_in_a_call_it_is_started_again_but_the_call_is_not_repeated(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=["die", "pid"]))
    path = tmp_path / "calls"
    output = await call(servers, "die", path=str(path))
    assert output.is_error
    assert "went away while die ran" in output.for_llm
    assert "signal 9" in output.for_llm
    assert "about to die" in output.for_llm
    assert path.read_text() == "x"
    assert not (await call(servers, "pid")).is_error


async def test_killed_in_a_call_that_only_reads_it_is_asked_again(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=[{"name": "die_once", **READ_ONLY}]))
    path = tmp_path / "calls"
    output = await call(servers, "die_once", path=str(path))
    assert (output.is_error, output.for_llm, path.read_text()) == (False, "done", "xx")


async def test_a_call_that_only_reads_is_repeated_once(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=[{"name": "die", **READ_ONLY}]))
    path = tmp_path / "calls"
    output = await call(servers, "die", path=str(path))
    assert output.is_error
    assert path.read_text() == "xx"


async def test_killed_between_calls_it_is_started_again(client: Any) -> None:
    servers = await client(raw(tools=["pid"]))
    first = int(str(await call(servers, "pid")))
    os.kill(first, 9)
    await until(lambda: servers.servers["raw"].state != "connected")
    second = await call(servers, "pid")
    assert not second.is_error
    assert int(str(second)) != first


async def test_ended_just_before_a_call_it_is_started_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = await client(raw(tools=["pid"]))
    first = int(str(await call(servers, "pid")))
    tools, ended = servers.enabled[0].tools, list[Connection]()
    check = tools.check

    async def ends_it(tool: ListedTool, connection: Connection) -> None:
        await check(tool, connection)
        if not ended:
            ended.append(connection)
            await connection.close()

    monkeypatch.setattr(tools, "check", ends_it)
    second = await call(servers, "pid")
    assert not second.is_error
    assert int(str(second)) != first


async def test_hanging_at_start(client: Any) -> None:
    servers = await client(raw(hang=True, settings={"start_timeout": 0.5, "protocol": "legacy"}))
    status = servers.servers["raw"]
    assert (status.state, status.tools) == ("failed", 0)
    assert status.error is not None
    assert "no answer within 0.5 s" in status.error


async def test_ending_at_start(client: Any) -> None:
    servers = await client(raw(exit=3), raw("good"))
    error = servers.servers["raw"].error
    assert error is not None
    assert "it exited with 3" in error
    assert "cannot find my settings file" in error
    assert servers.servers["good"].tools == 1


async def test_no_such_program(client: Any) -> None:
    servers = await client(server_config("raw", {"command": "no-such-server-anywhere"}))
    error = servers.servers["raw"].error
    assert error is not None
    assert "there is no program 'no-such-server-anywhere'" in error


async def test_a_program_of_our_own_environment_is_named_by_its_path(client: Any) -> None:
    servers = await client(server_config("raw", {"command": "toolcrib"}))
    assert f"write {sys.prefix}/bin/toolcrib for the one" in (servers.servers["raw"].error or "")


async def test_a_required_server_that_fails_is_an_error(client: Any) -> None:
    with pytest.raises(McpFailure, match=r"it exited with 3.*required"):
        await client(raw(exit=3, settings={"required": True}))


async def test_after_a_failure_it_is_left_alone_for_a_while(client: Any) -> None:
    servers = await client(raw(exit=3))
    with pytest.raises(McpFailure, match=r"It is tried again in \d+ s"):
        await servers.connect("raw")


async def test_rubbish_on_stdout_is_passed_over(client: Any) -> None:
    servers = await client(raw(rubbish=True))
    assert json.loads(str(await call(servers, "echo", a=1))) == {"a": 1}


async def test_nothing_but_rubbish_is_shown_in_the_error(client: Any) -> None:
    config = server_config("raw", {"command": "/bin/sh", "args": ["-c", "echo I am no server; exec sleep 60"],
                                   "start_timeout": 0.5, "protocol": "legacy"})  # fmt: skip
    servers = await client(config)
    error = servers.servers["raw"].error
    assert error is not None
    assert "on stdout it printed something that is not a message: I am no server" in error


async def test_what_a_failed_server_printed_shows_no_half_of_a_word(client: Any) -> None:
    printed = "printf 'granted-4711 %.0s' $(seq 200)"  # a word may be a secret
    config = server_config("raw", {"command": "/bin/sh", "args": ["-c", f"{printed}; echo; {printed} >&2; exit 3"]})
    error = (await client(config)).servers["raw"].error
    assert set(re.findall(r"\S*(?:gra|471)\S*", error)) == {"granted-4711", "granted-4711)"}


async def test_a_result_of_16_megabytes(client: Any) -> None:
    servers = await client(raw(tools=["big"]))
    servers.tools("raw")[0].max_output = 2**25
    output = await call(servers, "big", size=16 << 20)
    assert len(output.for_llm) == 16 << 20


async def test_a_message_without_end_ends_the_connection(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.sources.mcp import pipes

    monkeypatch.setattr(pipes, "MAX_LINE", 1 << 20)
    servers = await client(raw(tools=["big", "pid"]))
    output = await call(servers, "big", size=4 << 20)
    assert "it sent a message of more than 1 MiB" in output.for_llm
    assert not (await call(servers, "pid")).is_error


async def test_300_pages(client: Any) -> None:
    servers = await client(raw(pages=300, settings={"start_timeout": 60.0}))
    assert servers.servers["raw"].tools == 300


async def test_cursors_in_a_circle(client: Any) -> None:
    servers = await client(raw(loop=True))
    status = servers.servers["raw"]
    assert status.tools == 3
    assert status.faults == ("its list of tools goes in circles; what came before counts",)


@pytest.mark.slow
async def test_10000_tools(client: Any) -> None:
    servers = await client(raw(many=10_000))
    assert servers.servers["raw"].tools == 10_000
    assert not (await call(servers, "t9999")).is_error


async def test_names_that_are_duplicate_illegal_long_or_none(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    names = ["echo", "echo", "do it!", "do_it", "日本", "x" * 200, "", "a/b", "a.b"]
    servers = await client(raw(tools=names))
    found = [tool.name for tool in servers.tools("raw")]
    other = tool_names.own_name("raw", "do it!")
    assert found[:3] == ["mcp_raw_echo", other, "mcp_raw_do_it"]
    assert len(set(found)) == 7
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() and name.isascii() for name in found)
    assert servers.servers["raw"].faults == (
        "it lists the tool 'echo' twice; the first counts",
        "a tool was left out: it has no name",
    )
    assert f"its tool 'do it!' is {other} here, because another tool is spelled alike" in caplog.text
    output = await servers.registered.registry.execute(other, {})
    assert not output.is_error


async def test_a_schema_that_is_none_leaves_its_tool_out(client: Any) -> None:
    wrong = {"name": "wrong", "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}}
    far = {
        "name": "far",
        "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
    }
    servers = await client(raw(tools=["echo", wrong, far]))
    assert [tool.name for tool in servers.tools("raw")] == ["mcp_raw_echo"]
    faults = servers.servers["raw"].faults
    assert len(faults) == 2
    assert "remote references are not followed" in faults[1]


async def test_a_changed_list(client: Any) -> None:
    servers = await client(raw(tools=["grow"]))
    changes: list[int] = []
    servers.registered.registry.on_change(lambda: changes.append(1))
    await call(servers, "grow", name="echo")
    await until(lambda: len(servers.tools("raw")) == 2)
    assert not (await call(servers, "echo")).is_error
    assert changes


async def test_20_servers_at_once(client: Any) -> None:
    servers = await client(*(raw(f"s{n}", start=0.2 if n % 2 else 0, exit=1 if n == 7 else None) for n in range(20)))
    states = {name: status.state for name, status in servers.servers.items()}
    assert states.pop("s7") == "failed"
    assert set(states.values()) == {"connected"}


async def test_only_a_few_start_at_the_same_moment(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers_module, "AT_ONCE", 2)
    monkeypatch.setattr(servers_module, "HELD_SECONDS", 600)
    starting: list[int] = [0]
    refresh = Upstream.refresh

    async def counted(self: Upstream, handshake: bool) -> None:
        starting.append(starting[-1] + 1)
        try:
            await refresh(self, handshake)
        finally:
            starting.append(starting[-1] - 1)

    monkeypatch.setattr(Upstream, "refresh", counted)
    servers = await client(*(raw(f"s{n}") for n in range(6)))
    assert max(starting) == 2
    assert {status.state for status in servers.servers.values()} == {"connected"}


async def test_a_cancelled_call_is_cancelled_on_the_server(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=["silence", "echo"]))
    path = tmp_path / "told"
    task = asyncio.create_task(call(servers, "silence", path=str(path)))
    await until(lambda: path.exists() and path.read_text() == "begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: path.read_text() == "cancelled")
    assert not (await call(servers, "echo")).is_error


async def test_a_timeout_without_progress(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=["silence", "echo"], settings={"timeout": 100}))
    path = tmp_path / "told"
    task = asyncio.create_task(call(servers, "silence", path=str(path)))
    await until(lambda: path.exists() and path.read_text() == "begun")
    pass_time(101)
    output = await task
    assert output.error_kind == "timeout"
    assert "did not answer within 100 s; the server was asked to stop" in output.for_llm
    assert "mcp_servers.raw.timeout" in output.for_llm
    await until(lambda: path.read_text() == "cancelled")
    assert not (await call(servers, "echo")).is_error


async def test_progress_extends_the_time(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=["steps"], settings={"timeout": 100}))
    seen: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, message))
        pass_time(60)
        (tmp_path / str(int(done))).touch()  # now comes the next step

    (tmp_path / "0").touch()
    ctx = ToolContext(on_progress=progress)
    output = await call(servers, "steps", ctx, number=8, pause=0, path=str(tmp_path))
    assert (output.is_error, output.for_llm) == (False, "done")
    assert seen[-1] == (8, "step 8")


async def test_progress_extends_the_time_up_to_a_cap(client: Any, tmp_path: Path) -> None:
    servers = await client(raw(tools=["steps"], settings={"timeout": 100, "max_timeout": 150}))

    async def progress(done: float, total: float | None, message: str | None) -> None:
        pass_time(60)
        (tmp_path / str(int(done))).touch()  # now comes the next step

    (tmp_path / "0").touch()
    ctx = ToolContext(on_progress=progress)
    output = await call(servers, "steps", ctx, number=100, pause=0, path=str(tmp_path))
    assert output.error_kind == "timeout"
    assert "within 150 s" in output.for_llm


async def test_settings_of_one_tool(client: Any) -> None:
    settings = {"per_tool": {"silence": {"timeout": 0.2, "category": "network_read"}, "pid": {"disabled": True}}}
    servers = await client(raw(tools=["silence", "echo", "pid"], settings=settings))
    assert [str(tool.category) for tool in servers.tools("raw")] == ["network_read", "shell"]
    assert "within 0.2 s" in (await call(servers, "silence")).for_llm


async def test_a_refusal_and_an_answer_that_breaks_the_schema(client: Any) -> None:
    servers = await client(raw(tools=["refuse", "odd", "echo"]))
    assert "MCP server raw: not like this (-32602)" in (await call(servers, "refuse")).for_llm
    assert await call(servers, "odd") == ToolOutput("no list")  # {"content": "no list"}: read as far as it goes
    assert not (await call(servers, "echo")).is_error


async def test_a_server_that_asks_and_reads_no_answer_is_ended(client: Any) -> None:
    servers = await client(raw(tools=["ask", "echo"]))
    pid = pid_of(servers)
    output = await call(servers, "ask")
    assert "it did not take our answers to 1,024 requests" in output.for_llm
    await until(lambda: not alive(pid))
    assert not (await call(servers, "echo")).is_error


async def test_what_a_server_started_ends_with_it(client: Any) -> None:
    servers = await client(raw(children=2))
    pids = [pid_of(servers), *children_of(pid_of(servers))]
    assert len(pids) == 3
    await servers.aclose()
    await until(lambda: not any(map(alive, pids)))  # a killed process takes a moment to go


@pytest.mark.slow
async def test_a_deaf_server_is_killed(client: Any) -> None:
    servers = await client(raw(deaf=True))
    pid = pid_of(servers)
    await servers.aclose()
    assert not alive(pid)


async def test_disconnecting_takes_the_tools_away(client: Any) -> None:
    servers = await client(raw())
    pid = pid_of(servers)
    await servers.disconnect("raw")
    assert not servers.registered.registry.names
    assert not alive(pid)


def test_a_loop_that_ends_leaves_no_process(host: Any) -> None:
    from toolcrib.core.registry import ToolRegistry

    async def work() -> int:
        servers = McpServers([raw()], host, ToolRegistry())
        await servers.start()
        return pid_of(servers)

    pid = asyncio.run(work())  # nobody closed anything
    assert not alive(pid)


def test_it_lives_on_in_another_loop(host: Any) -> None:
    from toolcrib.core.registry import ToolRegistry

    registry = ToolRegistry()
    servers = McpServers([raw(tools=["pid"])], host, registry)
    asyncio.run(servers.start())
    output = asyncio.run(registry.execute("mcp_raw_pid", {}))
    assert not output.is_error, output
    servers.close()
    assert not alive(int(str(output)))


@pytest.mark.slow
async def test_killed_again_and_again_under_load(client: Any) -> None:
    servers = await client(raw(tools=[{"name": "echo", **READ_ONLY}, "silence"]))
    outcomes: list[bool] = []
    pids: set[int] = set()

    async def caller() -> None:
        for n in range(20):
            with contextlib.suppress(TimeoutError):
                if n % 5 == 4:
                    async with asyncio.timeout(0.01):
                        await call(servers, "silence")
                output = await call(servers, "echo", n=n)
                assert output.is_error or json.loads(str(output)) == {"n": n}  # never another call's answer
                outcomes.append(output.is_error)

    async def killer() -> None:
        while True:
            await asyncio.sleep(0.4)
            if pid := servers.servers["raw"].pid:
                pids.add(pid)
                os.kill(pid, 9)

    killing = asyncio.create_task(killer())
    await asyncio.gather(*(caller() for _ in range(10)))
    killing.cancel()
    assert False in outcomes
    await servers.aclose()
    assert [pid for pid in pids if alive(pid)] == []
    assert len(asyncio.all_tasks()) <= 2  # this test, and perhaps the killer's end


async def test_a_server_that_stays_away_is_named_once(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    servers = await client(raw(settings={"command": "/nowhere/server"}))
    for _ in range(3):
        assert (await servers.reload("raw"))["raw"].error
    assert caplog.text.count("/nowhere/server") == 1


async def test_a_wrong_item_of_a_list_is_left_out_alone(client: Any) -> None:
    wrong = {"uri": ["no", "address"], "name": "wrong"}
    lists = {"resources": [wrong, "note://a"], "templates": [wrong, "note://{a}"], "prompts": [{"name": 5}, "greet"]}
    servers = await client(raw(offers=lists))
    resources = (await call(servers, "resources")).for_llm
    assert "note://a" in resources and "note://{a}" in resources
    assert "one of its resources was left out: uri" in resources
    assert "one of its resourceTemplates was left out: uriTemplate" in resources
    prompts = (await call(servers, "prompts")).for_llm
    assert "greet" in prompts and "one of its prompts was left out: name" in prompts
