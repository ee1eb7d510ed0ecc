"""A server on the official SDK, in both eras and by all transports: what it gives, asks and tells."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from mcp_world import SERVERS, sdk

from toolcrib.core.context import ToolContext
from toolcrib.core.output import ImageBlock, ToolOutput
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.servers import McpServers

from ...ports import free_port


async def call(servers: McpServers, tool: str, ctx: ToolContext | None = None, **arguments: Any) -> ToolOutput:
    return await servers.registered.registry.execute(f"mcp_sdk_{tool}", arguments, ctx)


async def _gives(servers: McpServers) -> None:
    status = servers.servers["sdk"]
    assert (status.server, status.tools) == ("fixture 1.0", 14)
    assert str(await call(servers, "echo", text="hi")) == "hi"
    weather = await call(servers, "weather", city="Oslo")
    assert weather.data == {"degrees": 12.5, "windy": True}
    picture = await call(servers, "picture")
    assert picture.content == (ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png"),)
    failed = await call(servers, "fail")
    assert (failed.is_error, failed.error_kind) == (True, "tool")
    wrong = await call(servers, "echo", txt="hi")
    assert wrong.error_kind == "invalid"
    listed = await call(servers, "resources")
    assert "note://one" in listed.for_llm
    assert "note://{name}" in listed.for_llm
    read = await call(servers, "resources", uri="note://two")
    assert read.for_llm == "note two"
    assert (await call(servers, "resources", uri="note://a/b/c")).is_error
    assert "greet(who)" in (await call(servers, "prompts")).for_llm
    assert "Say hello to Ada" in (await call(servers, "prompts", name="greet", arguments={"who": "Ada"})).for_llm


async def _asks_the_person_of_the_call(servers: McpServers) -> None:
    questions: list[tuple[str, tuple[str, ...]]] = []

    async def ask(question: str, options: Sequence[str] = ()) -> str:
        questions.append((question, tuple(options)))
        return {0: "accept", 1: "Ada"}.get(len(questions) - 1, "")

    output = await call(servers, "ask", ToolContext(ask=ask))
    assert output.for_llm.startswith("accept:")
    assert "name='Ada' age=42" in output.for_llm
    assert "The MCP server sdk asks: Who are you?" in questions[0][0]
    assert questions[0][1] == ("accept", "decline")


async def _takes_nobody_for_a_no(servers: McpServers) -> None:
    assert (await call(servers, "ask")).for_llm.startswith("cancel:")


async def _reports_progress(servers: McpServers) -> None:
    seen: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    await call(servers, "steps", ToolContext(on_progress=progress), number=3, pause=0.01)
    assert seen == [1, 2, 3]


async def _tells_of_new_tools(servers: McpServers) -> None:
    for _ in range(100):  # in the later era the subscription takes a moment
        await call(servers, "grow")
        await asyncio.sleep(0.2)
        if any(tool.name == "mcp_sdk_extra" for tool in servers.tools("sdk")):
            break
    assert str(await call(servers, "extra")) == "extra"


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_by_stdio(client: Any, protocol: str, forked_python: str) -> None:
    servers = await client(sdk(protocol=protocol, command=forked_python))
    await _gives(servers)
    await _asks_the_person_of_the_call(servers)
    await _takes_nobody_for_a_no(servers)
    await _reports_progress(servers)
    await _tells_of_new_tools(servers)


@pytest.fixture
def port(request: pytest.FixtureRequest, forked_python: str) -> Iterator[int]:
    """A port on which the server serves by the transport that the test names."""
    free = free_port()
    command = [forked_python, str(SERVERS / "sdk.py"), request.param, str(free)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield free
        finally:
            process.kill()


async def _up(port: int) -> None:
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise AssertionError("the server did not start")


@pytest.mark.slow
@pytest.mark.parametrize("port", ["http"], indirect=True)
@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_by_streamable_http(client: Any, port: int, protocol: str) -> None:
    await _up(port)
    config = server_config("sdk", {"url": f"http://127.0.0.1:{port}/mcp", "protocol": protocol})
    await _gives(servers := await client(config))
    await _asks_the_person_of_the_call(servers)
    await _reports_progress(servers)
    await _tells_of_new_tools(servers)


@pytest.mark.slow
@pytest.mark.parametrize("port", ["sse"], indirect=True)
async def test_by_server_sent_events(client: Any, port: int) -> None:
    await _up(port)
    config = server_config("sdk", {"url": f"http://127.0.0.1:{port}/sse", "transport": "sse"})
    await _gives(servers := await client(config))
    await _reports_progress(servers)
