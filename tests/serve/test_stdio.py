from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult

from ..waiting import until

SCRIPT = Path(__file__).with_name("server_script.py")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the SDK's own transport serves there")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def parameters(work: Path, environment: dict[str, str], forked_python: str) -> StdioServerParameters:
    return StdioServerParameters(command=forked_python, args=[str(SCRIPT), str(work)], env=environment)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


async def test_a_real_client_lists_and_calls(parameters: StdioServerParameters, era: str) -> None:
    async with Client(stdio_client(parameters), mode=era) as client:
        assert [listed.name for listed in (await client.list_tools()).tools] == ["echo", "launch", "noisy", "spawn"]
        for size in (3, 5_000, 2_000_000):
            text = "é" * (size // 2)
            result: Any = await client.call_tool("echo", {"text": text})
            got = result.content[0].text
            assert got == text if size < 50_000 else len(got) <= 50_000


async def test_cancelling_leaves_no_process(parameters: StdioServerParameters, work: Path, era: str) -> None:
    async with Client(stdio_client(parameters), mode=era) as client:
        call = asyncio.create_task(client.call_tool("spawn"))
        await until((work / "pid").exists)
        pid = int((work / "pid").read_text())
        assert not gone(pid)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until((work / "cleaned").exists)
        assert gone(pid)
        assert (await client.call_tool("echo", {"text": "alive"})).content[0].text == "alive"  # type: ignore[union-attr]


SERVER = """
import asyncio, gc
from toolcrib import tool
from toolcrib.core.registry import ToolRegistry
from toolcrib.serve import serve_stdio

@tool
def kept() -> str:
    \"\"\"Return how many objects the collector does not look through.\"\"\"
    return str(gc.get_freeze_count())

registry = ToolRegistry()
registry.register(kept)
asyncio.run(serve_stdio(registry))
"""


async def test_what_the_start_made_is_looked_through_no_more(environment: dict[str, str], forked_python: str) -> None:
    started = StdioServerParameters(command=forked_python, args=["-c", SERVER], env=environment)
    async with Client(stdio_client(started)) as client:
        result: Any = await client.call_tool("kept")
    assert int(result.content[0].text) > 50_000


async def test_approval_over_the_wire(parameters: StdioServerParameters, work: Path, era: str) -> None:
    async def yes(_: Any, params: Any) -> ElicitResult:
        assert not (work / "ran").exists()
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with Client(stdio_client(parameters), mode=era, elicitation_callback=yes) as client:
        result: Any = await client.call_tool("launch", {"what": "rocket"})
    assert result.content[0].text == "launched rocket"
    assert (work / "ran").read_text() == "rocket\n"


STUBBORN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
schema = {"type": "object"}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    else:
        result = {"tools": [{"name": "do", "inputSchema": schema}], "content": []}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
time.sleep(600)
"""


async def test_servers_that_end_for_nothing_end_before_the_client_ends_us(
    work: Path, environment: dict[str, str], forked_python: str
) -> None:
    (work / "stubborn.py").write_text(STUBBORN)
    pids = work.parent / "pids"
    server = {"command": sys.executable, "args": [str(work / "stubborn.py"), str(pids)]}
    config = work.parent / "settings.json"
    config.write_text(json.dumps({"mcpServers": {"a": server, "b": server}}))
    arguments = ["-m", "toolcrib", "serve", "--workspace", str(work), "--config", str(config)]
    async with Client(
        stdio_client(StdioServerParameters(command=forked_python, args=arguments, env=environment)), mode="legacy"
    ) as client:
        assert "mcp_a_do" in {tool.name for tool in (await client.list_tools()).tools}
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert all(map(gone, started))


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
}


def started(python: str, work: Path, environment: dict[str, str], tool: str = "spawn") -> subprocess.Popen[bytes]:
    """A server whose pipes we hold ourselves, with a call running in it."""
    server = subprocess.Popen(
        [python, str(SCRIPT), str(work)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    messages: list[dict[str, Any]] = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}},
    ]
    for message in messages:
        server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "toolcrib"
    return server


async def test_only_the_protocol_reaches_stdout(work: Path, environment: dict[str, str]) -> None:
    server = started(sys.executable, work, environment, "noisy")
    assert server.stdout is not None
    answer = json.loads(await asyncio.to_thread(server.stdout.readline))  # any other line would be no JSON
    assert answer["result"]["content"][0]["text"] == "stdin says ''"
    out, errors = await asyncio.to_thread(server.communicate, None, 30)
    assert out == b""
    for noise in (b"from print", b"from the descriptor", b"from a child"):
        assert noise in errors


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, "eof"])
async def test_the_end_of_the_server_ends_its_calls(
    work: Path, environment: dict[str, str], forked_python: str, how: object
) -> None:
    server = started(forked_python, work, environment)
    try:
        await until((work / "pid").exists)
        pid = int((work / "pid").read_text())
        if isinstance(how, signal.Signals):
            server.send_signal(how)
        else:
            assert server.stdin is not None
            server.stdin.close()
        await asyncio.to_thread(server.wait, 30)
        assert server.returncode == 0
        assert (work / "cleaned").exists()
        assert (work / "closed").exists()
        assert gone(pid)
    finally:
        server.kill()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            if pipe is not None:
                pipe.close()


async def test_nonsense_on_the_wire_does_not_end_the_server(
    work: Path, environment: dict[str, str], forked_python: str
) -> None:
    server = started(forked_python, work, environment)
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"\n\xff\xfe{]\n[]\n{}\n" + b"x" * 300_000 + b"\n")
        server.stdin.write(b'{"jsonrpc":"2.0","id":9,"method":"ping"}\n')
        server.stdin.flush()
        answer = json.loads(await asyncio.to_thread(server.stdout.readline))
        assert answer == {"jsonrpc": "2.0", "id": 9, "result": {}}
        server.stdin.close()
        await asyncio.to_thread(server.wait, 30)
    finally:
        server.kill()
        server.wait()
        for pipe in (server.stdin, server.stdout, server.stderr):
            if pipe is not None:
                pipe.close()


def test_a_message_that_is_too_long_ends_the_server_with_a_word(work: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, str(SCRIPT), str(work)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            for _ in range(66):
                server.stdin.write(b"x" * 2**20)
            server.stdin.close()
        assert b"a message of more than 64 MiB" in server.stderr.read()
    assert server.returncode == 1
