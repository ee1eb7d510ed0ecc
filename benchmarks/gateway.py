"""What a gateway adds to a stdio server: latency, calls a second, CPU, time to the first answer, memory.

    python benchmarks/gateway.py [--fastmcp PYTHON] [--also NAME=SRC] [--rounds N] [--parts start,2025,2026,http,sessions]

One echo server on the SDK's low-level server is reached directly, through `toolcrib serve`, through fastmcp's
`create_proxy` (`--fastmcp` names the Python of an environment with fastmcp) and through toolcribs of other trees
(`--also NAME=SRC`, where SRC is the folder that holds the package). The client is raw: JSON lines over pipes, nothing of
the SDK. All are alive at once and take turns in short rounds; a figure is the median of the rounds, the best in brackets.
CPU and memory are the gateway's own process, without the server behind it and the client before it; resident memory is
taken after 450 calls a round. In the part `sessions` each of the calls in flight has a session of its own. Other load falls
on all alike. Do not give this program the processor (`chrt`): the bare server then takes three times as long a call.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SERVER = """
import asyncio, sys
import mcp_types as t
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

async def listed(ctx, params):
    return t.ListToolsResult(tools=[t.Tool(name="echo", description="Say it again.", input_schema=SCHEMA)])

async def called(ctx, params):
    return t.CallToolResult(content=[t.TextContent(type="text", text=params.arguments["text"])])

server = Server("echo", on_list_tools=listed, on_call_tool=called)

async def over_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

async def over_http():
    import socket, uvicorn
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", access_log=False, ws="none")
    await uvicorn.Server(config).serve(sockets=[sock])

asyncio.run(over_http() if sys.argv[1:] == ["http"] else over_stdio())
"""
PROXY = """
import socket, sys
from fastmcp.server import create_proxy
proxy = create_proxy({"mcpServers": {"echo": {"command": sys.argv[1], "args": [sys.argv[2]]}}})
if sys.argv[3:] == ["http"]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
    proxy.run(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="error")
else:
    proxy.run(show_banner=False, log_level="error")
"""
TOKEN = "t" * 20
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
CHUNK = 150
"""Calls of one way in one turn."""
AT_ONCE = (1, 16, 64)


@dataclass(frozen=True)
class Way:
    """One way to the server: what to start, and what the tool is called there."""

    name: str
    command: tuple[str, ...]
    over_http: tuple[str, ...]
    tool: str
    env: dict[str, str]
    state: Path


@dataclass
class Rows:
    """What was measured of one way."""

    latencies: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)
    rates: dict[int, list[float]] = field(default_factory=dict)
    cpu: dict[int, list[float]] = field(default_factory=dict)
    memory: tuple[float, float] = (0.0, 0.0)


# --- the client


class Pipes:
    """A raw MCP client over a process's pipes."""

    def __init__(self, way: Way, era: str) -> None:
        self.era, self.tool, self.count = era, way.tool, 0
        self.process = subprocess.Popen(
            way.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=way.env,
            bufsize=0,
        )
        self._out = os.fdopen(os.dup(self.process.stdout.fileno()), "rb", 2**16)

    @property
    def pid(self) -> int:
        return self.process.pid

    def begin(self) -> None:
        """What a client does before its first call: the handshake, and the list."""
        if self.era == "2025":
            self._send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
            self._answer()
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        names, end = list[str](), time.monotonic() + 60
        while self.tool not in names:  # on a busy machine a gateway lists its own tools before a new server answers
            assert time.monotonic() < end, names
            self._send({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": self._with_meta({})})
            names = [tool["name"] for tool in self._answer()["result"]["tools"]]

    def fresh(self) -> None:
        """Be ready for a turn."""

    def one(self) -> None:
        """One call, and its answer."""
        self._send(self._next())
        self._check(self._answer())

    def many(self, n: int, k: int) -> None:
        """So many calls, k of them in flight."""
        for _ in range(k):
            self._send(self._next())
        for i in range(n):
            self._check(self._answer())
            if i < n - k:
                self._send(self._next())

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._out.close()
        self.process.stdout.close()

    def _next(self) -> dict:
        self.count += 1
        params = self._with_meta({"name": self.tool, "arguments": {"text": f"hello {self.count}"}})
        return {"jsonrpc": "2.0", "id": self.count, "method": "tools/call", "params": params}

    def _with_meta(self, params: dict) -> dict:
        return {**params, "_meta": META} if self.era == "2026" else params

    def _check(self, answer: dict) -> None:
        assert answer["result"]["content"][0]["text"] == f"hello {answer['id']}", answer

    def _send(self, message: dict) -> None:
        os.write(self.process.stdin.fileno(), json.dumps(message).encode() + b"\n")

    def _answer(self) -> dict:
        while True:
            line = self._out.readline()
            if not line:
                raise SystemExit(f"{self.tool}: the process ended")
            message = json.loads(line)
            if "id" in message and "method" not in message:
                return message


class Posts(Pipes):
    """A raw MCP client over HTTP: a kept connection for every call in flight."""

    def __init__(self, way: Way, era: str) -> None:
        self.era, self.tool, self.count = era, way.tool, 0
        self.process = subprocess.Popen(
            way.over_http, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=way.env
        )
        seen = ""
        while (found := re.search(r"http://([^/]+)/mcp", seen)) is None:
            line = self.process.stderr.readline().decode()
            if not line:
                raise SystemExit(f"{way.name}: {seen}")
            seen += line
        self._host = found[1]
        self._connections = [http.client.HTTPConnection(self._host) for _ in range(max(AT_ONCE))]
        self._headers = {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {TOKEN}",
        }  # fmt: skip

    def begin(self) -> None:
        for _ in range(200):
            try:
                self._connections[0].connect()
                break
            except OSError:
                time.sleep(0.05)
        if self.era == "2025":
            response, _ = self._post({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
            self._headers["MCP-Protocol-Version"] = "2025-11-25"
            if response.headers["Mcp-Session-Id"]:
                self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            self._headers |= {
                "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": self.tool
            }  # fmt: skip

    def fresh(self) -> None:
        for connection in self._connections:  # a server closes those that were idle
            connection.close()

    def one(self) -> None:
        self._check(_json_of(self._post(self._next())[1]))

    def many(self, n: int, k: int) -> None:
        for i in range(k):
            self._request(self._connections[i], self._next())
        for i in range(n):
            connection = self._connections[i % k]
            self._check(_json_of(connection.getresponse().read()))
            if i < n - k:
                self._request(connection, self._next())

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self.process.terminate()
        self.process.wait(20)
        self.process.stderr.close()

    def _request(self, connection: http.client.HTTPConnection, message: dict) -> None:
        connection.request("POST", "/mcp", json.dumps(message), self._headers)

    def _post(self, message: dict) -> tuple[http.client.HTTPResponse, bytes]:
        self._request(self._connections[0], message)
        response = self._connections[0].getresponse()
        body = response.read()
        assert response.status < 300, (response.status, body)
        return response, body


class Sessions(Posts):
    """A raw client for each call in flight, with a session of its own."""

    def begin(self) -> None:
        super().begin()
        plain = {key: value for key, value in self._headers.items() if key != "Mcp-Session-Id"}
        self._own = [self._headers]
        for _ in self._connections[1:]:
            self._headers = dict(plain)
            super().begin()
            self._own.append(self._headers)

    def _request(self, connection: http.client.HTTPConnection, message: dict) -> None:
        if message["method"] == "tools/call":
            self._headers = self._own[self._connections.index(connection)]
        super()._request(connection, message)


def _json_of(body: bytes) -> dict:
    if body.startswith(b"{"):
        return json.loads(body)
    return json.loads(next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 8))


# --- what the system says of a process


def cpu_seconds(pid: int) -> float:
    """CPU that the threads of a process have used, exact where the kernel counts it."""
    try:
        spent = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            spent += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        return spent / 1e9
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> tuple[float, float]:
    """Resident memory, and what of it is not files, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    total, anonymous = (int(re.search(rf"{key}:\s+(\d+)", text)[1]) / 1000 * 1.024 for key in ("VmRSS", "RssAnon"))
    return total, anonymous


# --- what is measured


def running(ways: list[Way], client: type[Pipes], era: str, rounds: int) -> dict[str, Rows]:
    """Latency, rate, CPU and memory of processes that are all alive, in turns."""
    rows = {way.name: Rows() for way in ways}
    clients: dict[str, Pipes] = {}
    try:
        for way in ways:
            clients[way.name] = opened = client(way, era)
            opened.begin()
            opened.many(300, 4)
        for _ in range(rounds):
            for k in AT_ONCE:
                for way in ways:
                    _turn(clients[way.name], rows[way.name], k)
        for way in ways:
            assert clients[way.name].count >= 1000, "too few rounds"
            rows[way.name].memory = memory(clients[way.name].pid)
    finally:
        for opened in clients.values():
            opened.close()
    return rows


def _turn(client: Pipes, row: Rows, k: int) -> None:
    client.fresh()
    cpu, start = cpu_seconds(client.pid), time.perf_counter()
    if k == 1:
        spans = []
        for _ in range(CHUNK):
            before = time.perf_counter()
            client.one()
            spans.append(time.perf_counter() - before)
        row.p50.append(statistics.median(spans))
        row.p95.append(statistics.quantiles(spans, n=20)[-1])
        row.latencies += spans
    else:
        client.many(CHUNK, k)
    row.rates.setdefault(k, []).append(CHUNK / (time.perf_counter() - start))
    row.cpu.setdefault(k, []).append((cpu_seconds(client.pid) - cpu) / CHUNK)


def first_call(way: Way, era: str) -> tuple[float, float]:
    """Seconds from the start of the process to the answer of its first call, and the CPU of that process till then."""
    start = time.perf_counter()
    client = Pipes(way, era)
    try:
        client.begin()
        client.one()
        return time.perf_counter() - start, cpu_seconds(client.pid)
    finally:
        client.close()


def starting(ways: list[Way], rounds: int) -> None:
    """The first call of a process that has never seen the server, and of one that knows its list of tools."""
    spans: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(rounds + 1):
        for way in ways:
            shutil.rmtree(way.state, ignore_errors=True)
            for kind in ("new", "known"):
                measured = first_call(way, "2025")
                if number:  # the first round compiles and fills the page cache
                    spans.setdefault((way.name, kind), []).append(measured)
    print("first answered call (handshake, list, call), s from the start of the process; CPU of that process")
    for (name, kind), got in spans.items():
        walls, cpus = zip(*got, strict=True)
        print(f"  {name:12} {kind:6} {_shown(walls, 1, 2)} s   CPU {_shown(cpus, 1, 2)} s", flush=True)


def show(title: str, rows: dict[str, Rows]) -> None:
    direct = rows["direct"]
    print(f"{title}: added to the direct way, ms; calls a second with {'/'.join(map(str, AT_ONCE))} in flight")
    for name, row in rows.items():
        added = [mine - other for mine, other in zip(row.p50, direct.p50, strict=True)]
        late = [mine - other for mine, other in zip(row.p95, direct.p95, strict=True)]
        ratio = statistics.median(mine / other for mine, other in zip(row.p50, direct.p50, strict=True))
        print(
            f"  {name:12} p50 {_shown(row.p50, 1e3, 2)}  added {_shown(added, 1e3, 2)} ({ratio:.2f}x)"
            f"  p95 added {_shown(late, 1e3, 2)}"
            f"  rate {' / '.join(_shown(row.rates[k], 1, 0, best=max) for k in AT_ONCE)}"
            f"  CPU us {' / '.join(_shown(row.cpu[k], 1e6, 0) for k in AT_ONCE)}"
            f"  RSS {row.memory[0]:.0f} MB ({row.memory[1]:.0f} its own)",
            flush=True,
        )


def _shown(values, factor: float, digits: int, best: Callable = min) -> str:
    return f"{statistics.median(values) * factor:.{digits}f} [{best(values) * factor:.{digits}f}]"


# --- what is started


def ways(folder: Path, fastmcp: str | None, also: list[str], mode: str) -> list[Way]:
    """The server and what stands in front of it, each with a state folder of its own."""
    (folder / "work").mkdir()
    server = folder / "server.py"
    server.write_text(SERVER)
    own = Path(__file__).resolve().parents[1] / "src"
    found = [_way("direct", folder, (sys.executable, str(server)), ("http",), "echo", {})]
    config = folder / "gateway.json"
    entry = {"command": sys.executable, "args": [str(server)], "category": "network_read"}
    config.write_text(json.dumps({"mcpServers": {"echo": entry}}))
    given = ("--workspace", str(folder / "work"), "--config", str(config), "--mode", mode)
    for name, src in [("toolcrib", str(own)), *(each.split("=", 1) for each in also)]:
        command = (sys.executable, "-m", "toolcrib", "serve", *given)
        found.append(
            _way(
                name, folder, command, ("--http", "127.0.0.1:0", "--token", TOKEN), "mcp_echo_echo", {"PYTHONPATH": src}
            )
        )
    if fastmcp is not None:
        proxy = folder / "proxy.py"
        proxy.write_text(PROXY)
        found.append(_way("fastmcp", folder, (fastmcp, str(proxy), sys.executable, str(server)), ("http",), "echo", {}))
    return found


def _way(
    name: str, folder: Path, command: tuple[str, ...], http: tuple[str, ...], tool: str, env: dict[str, str]
) -> Way:
    state = folder / f"state-{name}"
    homes = {"XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(folder / "config")}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}  # with byte code
    return Way(name, command, (*command, *http), tool, {**kept, **homes, **env}, state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastmcp", metavar="PYTHON")
    parser.add_argument("--also", metavar="NAME=SRC", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--mode", default="assistant")
    parser.add_argument("--parts", default="start,2025,2026,http,sessions")
    given = parser.parse_args()
    parts = given.parts.split(",")
    with tempfile.TemporaryDirectory() as temp:
        found = ways(Path(temp), given.fastmcp, given.also, given.mode)
        if "start" in parts:
            starting(found, given.starts)
        for era in ("2025", "2026"):
            if era in parts:
                show(f"stdio, {era}", running(found, Pipes, era, given.rounds))
        if "http" in parts:
            show("HTTP in front, 2025", running(found, Posts, "2025", given.rounds))
        if "sessions" in parts:
            show(f"HTTP in front, 2025, {max(AT_ONCE)} sessions", running(found, Sessions, "2025", given.rounds))


if __name__ == "__main__":
    main()
