from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import signal
import socket
import stat
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from starlette.requests import Request

from toolcrib import serve
from toolcrib.boundary.network.host_names import is_loopback
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ConfigError
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.serve.addressed import authorities
from toolcrib.serve.http import guard
from toolcrib.serve.http.tokens import Tokens, choose_token
from toolcrib.toolbox import Toolbox

from ..waiting import pass_time, until

TOKEN = "a-token-of-enough-characters"


@asynccontextmanager
async def serving(box: Toolbox | ToolRegistry, **more: Any) -> AsyncIterator[str]:
    """The real server on a free port of the loopback address; yields its URL."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    more.setdefault("token", TOKEN)
    task = asyncio.create_task(serve.serve_http(box, port=0, started=url.set_result, **more))
    try:
        done, _ = await asyncio.wait({task, url}, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            await task
        yield await url
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def connected(url: str, era: str, token: str | None = TOKEN, **more: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, **more) as client,
    ):
        yield client


@pytest.fixture
def registry() -> ToolRegistry:
    @tool(category="memory", read_only=True)
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    return ToolRegistry([echo])


async def test_a_real_client_lists_and_calls(registry: ToolRegistry, era: str) -> None:
    async with serving(registry) as url, connected(url, era) as client:
        assert [listed.name for listed in (await client.list_tools()).tools] == ["echo"]
        result: Any = await client.call_tool("echo", {"text": "over the wire"})
    assert result.content[0].text == "over the wire"


async def test_answers_do_not_wait_for_acknowledgements(registry: ToolRegistry) -> None:
    async with serving(registry) as url, httpx2.AsyncClient() as http:
        assert (await http.post(url, headers=_headers(), json=_call("echo", text="x"))).status_code == 200
        accepted = list(_connections(httpx2.URL(url).port))
    assert accepted == [1]  # with Nagle's algorithm each answer takes 40 ms


def _connections(port: int | None) -> Iterator[int]:
    """TCP_NODELAY of each connection that this process has accepted on a port."""
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(descriptor))
        except OSError:  # just closed
            continue
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        with socket.socket(fileno=copy) as connection:
            accepting = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if connection.family == socket.AF_INET and not accepting and connection.getsockname()[1] == port:
                yield connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_progress_over_http(era: str) -> None:
    @tool(category="memory")
    async def work(ctx: ToolContext) -> str:
        """Work."""
        for done in (1, 2, 3):
            await ctx.progress(done, 3)
        return "done"

    got: list[float] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        got.append(done)

    async with serving(ToolRegistry([work])) as url, connected(url, era) as client:
        await client.call_tool("work", progress_callback=progressed)
        await until(lambda: len(got) >= 3)
    assert got == [1, 2, 3]


async def test_approval_over_http(box: Toolbox, launch: Path, era: str) -> None:
    async def yes(_: Any, params: Any) -> ElicitResult:
        assert not launch.exists()
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with serving(box) as url, connected(url, era, elicitation_callback=yes) as client:
        result: Any = await client.call_tool("launch", {"what": "rocket"})
    assert result.content[0].text == "launched rocket"
    assert launch.read_text() == "rocket\n"


async def test_cancelling_over_http_ends_the_call(era: str) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool(category="memory")
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.set()
        return "slept"

    async with serving(ToolRegistry([hang])) as url, connected(url, era) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        await asyncio.wait_for(started.wait(), 60)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.wait_for(ended.wait(), 60)


async def test_stopping_the_server_ends_its_calls(registry: ToolRegistry, hang: Any) -> None:
    registry.register(hang.tool)
    async with serving(registry) as url, httpx2.AsyncClient() as http:
        request = asyncio.create_task(http.post(url, headers=_headers("tools/call", "hang"), json=_call("hang")))
        await asyncio.wait_for(hang.started.wait(), 60)
        with contextlib.suppress(asyncio.CancelledError):
            request.cancel()
            await request
    await asyncio.wait_for(hang.ended.wait(), 60)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_calls_and_closes_the_toolbox(
    tmp_path: Path, how: signal.Signals, era: str, forked_python: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path)}
    script = Path(__file__).with_name("server_script.py")
    server = await asyncio.create_subprocess_exec(
        forked_python, str(script), str(work), "http",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        url = (await asyncio.wait_for(server.stdout.readline(), 60)).decode().strip()
        async with connected(url, era, None) as client:
            call = asyncio.create_task(client.call_tool("spawn"))
            await until((work / "pid").exists)
            server.send_signal(how)
            _, errors = await asyncio.wait_for(server.communicate(), 60)
            assert server.returncode == 0
            assert b"Traceback" not in errors
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
    finally:
        with contextlib.suppress(OSError):
            pid = int((work / "pid").read_text())
            if b"sleep\0" in Path(f"/proc/{pid}/cmdline").read_bytes():  # else the number may be another's
                os.kill(pid, signal.SIGKILL)
        if server.returncode is None:
            server.kill()
            await server.wait()
    assert (work / "cleaned").exists()  # `spawn` got to end its process and wait for it
    assert (work / "closed").exists()


async def test_sessions_are_told_apart(era: str) -> None:
    seen: list[str | None] = []

    @tool(category="memory")
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx.session_id)
        return "seen"

    from mcp_types import Implementation

    async with serving(ToolRegistry([look])) as url:
        for name in ("one", "two"):
            async with connected(url, era, client_info=Implementation(name=name, version="1")) as client:
                await client.call_tool("look")
                await client.call_tool("look")
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert not any(TOKEN in (session or "") for session in seen)


def _running(word: str) -> bool:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes().split(b"\0")[-2:] == [word.encode(), b""]:
                return True
    return False


async def test_nothing_is_kept_of_a_session_that_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(category="network_read")
    async def page() -> str:
        """Read a page."""
        return f"{uuid4()} " * 1_000

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("a")
    seen: list[str] = []
    async with Toolbox.open(work, mode="autonomous", tools=[page]) as box, serving(box) as url:
        box.events.subscribe(lambda event: seen.append(getattr(event, "session_id", "")), finished_only=True)
        async with connected(url, "legacy") as client:
            await client.call_tool("page")
            for _ in range(6):
                result = await client.call_tool("read_file", {"path": "a.txt"})
            assert "refused" in result.content[0].text
            await client.call_tool("exec", {"command": "sleep 600.4321", "background": True})
            await until(lambda: _running("600.4321"))
            assert box.flow.size > 1_000
        await until(lambda: box.flow.size == 0)
        await until(lambda: not _running("600.4321"))
        same = ToolContext(session_id=seen[0])
        assert not (await box.call("read_file", {"path": "a.txt"}, same)).is_error
        listed = await box.call("exec_session", {"action": "list"}, same)
        assert "sh-" not in listed.for_llm


# --- raw requests


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": meta},
    }


def _headers(method: str = "tools/call", name: str = "echo", **more: str) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": name,
        "Authorization": f"Bearer {TOKEN}",
        **more,
    }


async def raw(
    url: str, headers: list[tuple[str, str]], body: bytes | None = None, verb: str = "POST"
) -> tuple[int, str]:
    """One request with exactly these headers, byte for byte."""
    host, port = url.removeprefix("http://").split("/")[0].rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    data = json.dumps(_call("echo", text="hello")).encode() if body is None else body
    head = [f"{verb} /mcp HTTP/1.1", *(f"{key}: {value}" for key, value in headers)]
    head += [f"Content-Length: {len(data)}", "Connection: close", "", ""]
    writer.write("\r\n".join(head).encode("latin-1") + data)
    with anyio.fail_after(60):
        answer = (await reader.read()).decode("latin-1")
    writer.close()
    await writer.wait_closed()
    return int(answer.split(" ", 2)[1]), answer


def _with(port: str, drop: str = "", **more: str) -> list[tuple[str, str]]:
    headers = {"Host": f"127.0.0.1:{port}", **_headers()}
    headers.update({key.replace("_", "-"): value for key, value in more.items()})
    return [(key, value) for key, value in headers.items() if key != drop]


async def test_raw_requests_pass_and_fail_by_host_origin_and_token(registry: ToolRegistry) -> None:
    async with serving(registry) as url:
        port = url.split(":")[2].split("/")[0]
        good = [
            {},
            {"Host": f"localhost:{port}"},
            {"Host": f"LOCALHOST:{port}"},
            {"Host": f"[::1]:{port}"},
            {"Origin": f"http://localhost:{port}"},
            {"Origin": f"http://127.0.0.1:{port}"},
            {"Authorization": f"bearer {TOKEN}"},
        ]
        for headers in good:
            status, answer = await raw(url, _with(port, **headers))
            assert (status, "hello" in answer) == (200, True), headers
        bad = [
            (421, {"Host": f"evil.example.com:{port}"}),
            (421, {"Host": "evil.example.com"}),
            (421, {"Host": "localhost"}),
            (421, {"Host": "localhost:1"}),
            (421, {"Host": f"localhost:{port}.evil.com"}),
            (421, {"Host": f"user@localhost:{port}"}),
            (421, {"Host": ""}),
            (400, {"Transfer-Encoding": "chunked"}),  # besides a Content-Length
            (403, {"Origin": "http://evil.example.com"}),
            (403, {"Origin": "null"}),
            (403, {"Origin": "http://localhost"}),
            (403, {"Origin": f"http://localhost:{port}.evil.com"}),
            (403, {"Origin": f"http://evil.com@localhost:{port}"}),
            (403, {"Origin": f"file://localhost:{port}"}),
            (403, {"Origin": f"http://localhost:{port}/x"}),
            (403, {"Origin": ""}),
            (401, {"Authorization": "Bearer wrong-token-of-some-length"}),
            (401, {"Authorization": f"Bearer {TOKEN}x"}),
            (401, {"Authorization": f"Basic {TOKEN}"}),
            (401, {"Authorization": TOKEN}),
            (401, {"Authorization": "Bearer \xff\xfe"}),
            (401, {"Authorization": ""}),
        ]
        for expected, headers in bad:
            status, answer = await raw(url, _with(port, **headers))
            assert (status, "hello" in answer) == (expected, False), headers
            if expected == 401:
                assert "www-authenticate: Bearer" in answer
        status, answer = await raw(url, _with(port, drop="Authorization"))
        assert status == 401
        assert "invalid_token" not in answer


async def test_a_request_with_an_odd_id_is_an_error(registry: ToolRegistry) -> None:
    """It is no notification: its client waits for an answer."""
    async with serving(registry) as url, httpx2.AsyncClient() as http:
        asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
        handshake = _headers() | {"MCP-Protocol-Version": "2025-11-25"}
        opened = await http.post(url, headers=handshake, json=begin)
        handshake["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        for version, headers in (("2025-11-25", handshake), ("2026-07-28", _headers("tools/list"))):
            for ident in (None, 1.5, True, [1], {}):
                body = {"jsonrpc": "2.0", "id": ident, "method": "tools/list", "params": {}}
                answer = await http.post(url, headers=headers, json=body)
                assert (answer.status_code, answer.json()["id"]) == (400, None), (version, ident)
                assert answer.json()["error"]["code"] < 0
            notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(url, headers=headers, json=notification)).status_code == 202


async def test_a_header_sent_twice_is_refused(registry: ToolRegistry) -> None:
    async with serving(registry) as url:
        port = url.split(":")[2].split("/")[0]
        for name, value in (("Origin", "http://evil.com"), ("Authorization", "Bearer x")):
            extra = [(name, f"http://localhost:{port}" if name == "Origin" else f"Bearer {TOKEN}"), (name, value)]
            status, answer = await raw(url, [*_with(port, drop=name), *extra])
            assert status in (401, 403), answer


@pytest.mark.parametrize("verb", ["GET", "DELETE", "OPTIONS", "PUT"])
async def test_every_method_is_guarded(registry: ToolRegistry, verb: str) -> None:
    async with serving(registry) as url:
        port = url.split(":")[2].split("/")[0]
        assert (await raw(url, _with(port, Host="evil.example.com"), b"", verb))[0] == 421
        assert (await raw(url, _with(port, drop="Authorization"), b"", verb))[0] == 401


async def test_other_paths_are_guarded_too(registry: ToolRegistry) -> None:
    async with serving(registry) as url, httpx2.AsyncClient() as http:
        other = url.removesuffix("/mcp") + "/other"
        assert (await http.get(other)).status_code == 401
        assert (await http.get(other, headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 404


async def test_a_huge_body_is_refused_before_it_is_read(registry: ToolRegistry) -> None:
    async with serving(registry) as url, httpx2.AsyncClient() as http:
        body = b'"' + b"x" * (16 * 2**20 + 1) + b'"'
        assert (await http.post(url, headers=_headers(), content=body)).status_code == 413


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("{" + ",".join(f'"k{number}":1' for number in range(300_000)) + "}", 413),
        ('{"a":[' + ",".join(["{}"] * 400_000) + "]}", 413),
        ('{"text":"' + '[1,{\\"a\\":2}],' * 200_000 + '"}', 200),
    ],
    ids=["keys", "tables", "a long text"],
)
async def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(
    registry: ToolRegistry, arguments: str, status: int
) -> None:
    body = json.dumps(_call("echo", text="x")).replace('{"text": "x"}', arguments)
    assert len(body) > len(arguments) > 2**20
    async with serving(registry) as url, httpx2.AsyncClient(timeout=30) as http:
        assert (await http.post(url, headers=_headers(), content=body)).status_code == status


async def test_what_a_client_says_of_itself_is_bounded(registry: ToolRegistry) -> None:
    hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    hello["clientInfo"] = {"name": "n" * 100_000, "version": "1"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    async with serving(registry) as url, httpx2.AsyncClient() as http:
        headers = {name: value for name, value in _headers().items() if not name.startswith(("MCP", "Mcp"))}
        assert "at most 65,536 characters" in (await http.post(url, headers=headers, json=body)).text


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_no_large_request_is_kept_after_its_answer(
    registry: ToolRegistry, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, sizes = weakref.WeakSet[Request](), list[int]()

    async def body(request: Request) -> bytes:
        there.add(request)
        sizes.append(len(await read(request)))
        return await read(request)

    def is_kept() -> bool:
        if large := any(len(getattr(request, "_body", b"")) > 2**20 for request in there):
            gc.collect()
        return large

    read = Request.body
    monkeypatch.setattr(Request, "body", body)

    @tool(category="memory", read_only=True)
    def slow(text: str) -> str:
        """Run in a thread."""
        return text[:3]

    registry.register(slow)
    async with serving(registry) as url, connected(url, era) as client:
        for name in ("echo", "slow"):
            assert not (await client.call_tool(name, {"text": "x" * 2_000_000})).is_error
        await until(lambda: not is_kept())
    assert [size > 2**20 for size in sizes].count(True) == 2


async def test_garbage_of_large_requests_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line looks for garbage each 50,000 objects: so many requests would hold 16 MiB each."""
    collected: list[int] = []
    monkeypatch.setattr(guard, "MAX_HELD", 3 * 2**20)
    monkeypatch.setattr(guard.gc, "collect", lambda: collected.append(1))

    async def app(*_: Any) -> None: ...

    checks = guard.RequestGuard(app, frozenset({"localhost"}), Tokens((), required=False))
    headers = [(b"host", b"localhost"), (b"content-length", b"1048576")]
    for _ in range(8):
        await checks({"type": "http", "path": "/mcp", "headers": headers}, app, app)  # type: ignore[arg-type]
    assert len(collected) == 2


async def test_further_hosts_can_be_allowed(registry: ToolRegistry) -> None:
    async with serving(registry, allow_hosts=["tools.example.com", "proxy.example.com:443"]) as url:
        port = url.split(":")[2].split("/")[0]
        assert (await raw(url, _with(port, Host=f"tools.example.com:{port}")))[0] == 200
        assert (await raw(url, _with(port, Host="proxy.example.com:443")))[0] == 200
        assert (await raw(url, _with(port, Host="other.example.com:443")))[0] == 421


async def test_no_token_where_that_was_asked_for(registry: ToolRegistry) -> None:
    async with serving(registry, token="") as url, connected(url, "2026-07-28", None) as client:
        await client.list_tools()


async def test_a_token_is_made_up_and_shown(registry: ToolRegistry, capfd: pytest.CaptureFixture[str]) -> None:
    async with serving(registry, token=None) as url:
        out, err = capfd.readouterr()
        shown = next(line for line in err.splitlines() if "Authorization" in line).split()[-1]
        assert out == ""
        assert len(shown) >= 32
        async with connected(url, "2026-07-28", shown) as client:
            await client.list_tools()
        async with httpx2.AsyncClient() as http:
            assert (await http.post(url, headers=_headers(), json=_call("echo", text="x"))).status_code == 401


# --- settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", "", "localhost.evil.com"])
def test_only_loopback_may_go_without_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="needs a token"):
        choose_token("", host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)
    assert choose_token("", host) == (None, False)


@pytest.mark.parametrize(
    "token", ["short", "x" * 15, "with spaces in the middle", "with-ünïcode-characters", "a\nb" * 9]
)
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        choose_token(token, "127.0.0.1")


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(serve.TOKEN_VARIABLE, TOKEN)
    assert choose_token(None, "0.0.0.0") == (TOKEN, False)
    monkeypatch.setenv(serve.TOKEN_VARIABLE, "")
    made, was_made = choose_token(None, "0.0.0.0")
    assert was_made
    assert made != choose_token(None, "0.0.0.0")[0]


async def test_a_taken_port_is_a_config_error(registry: ToolRegistry) -> None:
    async with serving(registry) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigError, match="cannot listen"):
            await serve.serve_http(registry, port=port, token=TOKEN)
        with pytest.raises(ConfigError, match=r"cannot listen on a\.\.b.*choose another host"):
            await serve.serve_http(registry, "a..b", port, token=TOKEN)


@pytest.mark.parametrize(
    ("names", "port", "expected"),
    [
        (["localhost"], 8808, {"localhost:8808"}),
        (["Tools.Example.COM"], 8808, {"tools.example.com:8808"}),
        (["a.example:443"], 8808, {"a.example:443"}),
        (["::1"], 8808, {"[::1]:8808"}),
        (["[::1]:9"], 8808, {"[::1]:9"}),
        (["a.example"], 80, {"a.example", "a.example:80"}),
        (["", " "], 80, set[str]()),
    ],
)
def test_accepted_hosts(names: list[str], port: int, expected: set[str]) -> None:
    assert authorities(names, port) == expected


async def test_a_client_closes_an_idle_connection_before_the_server_does(box: Toolbox) -> None:
    """A request that is sent while the server closes the connection would be lost."""
    async with serving(box) as url:
        host, _, port = url.split("/")[2].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(2):
            writer.write(f"GET /mcp HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 401")
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head.lower())[0]))
            pass_time(10)
            await asyncio.sleep(0.05)
        writer.close()
