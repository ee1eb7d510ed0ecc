"""Runs two gateways for long under mixed calls, and fails if anything of them grows or fails.

    python benchmarks/soak.py [--minutes 30] [--clients 64] [--pause 1.0]     # make soak MINUTES=30

One gateway serves HTTP. Clients of both eras come and go: with tokens of four callers, some in the middle of a call. It
calls its own tools (files, search, commands, approvals) and eight servers behind it: four that answer, one that dies in
calls, and three that hang: in a call, at the start, or when they are asked for their tools. The other gateway serves one client over stdio, and its servers
die again and again. Each answer is checked. Only the servers that hang and die may cause errors.

Every few seconds both processes are looked at: memory, descriptors, threads, processes, files. Nothing may be larger in
the last third of the time than in the second. Then the clients leave, the gateways are ended, and nothing may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from gateway import HELLO, META, SERVER, memory

ROOT = Path(__file__).resolve().parents[1]
RAW, HOSTILE = (ROOT / "tests" / "sources" / "mcp" / "servers" / name for name in ("raw.py", "hostile.py"))
CALLERS = [f"caller-{number}-of-the-soak" for number in range(4)]
WATCHER = "watcher-of-the-soak"
LOOK_SECONDS = 2.0
ENDING_SECONDS = 10.0
FILES, OWN_FILES = 50, 64
SLACK = {
    "memory, MB": (0.03, 2.0),
    "descriptors": (0.05, 3),
    "threads": (0, 2),
    "processes": (0.05, 2),
    "files": (0, 3),
}
"""By how much the median of the last third may be above that of the second: a part of it, and a number besides."""

WARM_MINUTES, WARMING = 10, 0.12
"""In a shorter run the memory still grows to its usual size: this part is allowed then."""

Json = dict
Check = Callable[[str, bool], bool]


# --- the gateways


@dataclass(eq=False)
class Gateway:
    """One process, and what was seen of it and of the processes below it."""

    name: str
    process: subprocess.Popen
    folder: Path
    rows: list[dict[str, float]] = field(default_factory=list)
    seen: set[tuple[int, str]] = field(default_factory=set)

    def look(self, parents: dict[int, int]) -> None:
        below, pid = set(), self.process.pid
        for each in parents:
            at = each
            while at in parents and at != pid:
                at = parents[at]
            if at == pid and each != pid:
                below.add(each)
        for each in below:
            with contextlib.suppress(OSError):
                self.seen.add((each, started(each)))
        self.rows.append(
            {
                "memory, MB": memory(pid)[1],
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": len(os.listdir(f"/proc/{pid}/task")),
                "processes": len(below),
                "files": sum(len(names) for where, _, names in os.walk(self.folder) if not kept(where)),
            }
        )

    def left(self) -> list[int]:
        """Processes of it that still run."""
        found = []
        for pid, start in self.seen:
            with contextlib.suppress(OSError):
                if started(pid) == start:
                    found.append(pid)
        return found


def kept(where: str) -> bool:
    """Whether the record keeps the files of a folder, up to its own limits: earlier contents and long outputs."""
    return "/journal" in where or "/spill" in where


def started(pid: int) -> str:
    """When a process was started, which tells apart two that had one number. Raises OSError if it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    if fields[0] == "Z":
        raise ProcessLookupError(pid)
    return fields[19]


def descriptors(gateway: Gateway) -> Counter[str]:
    """How many descriptors a gateway has open, by their kinds."""
    found, folder = Counter(), f"/proc/{gateway.process.pid}/fd"
    for each in os.listdir(folder):
        with contextlib.suppress(OSError):
            found[re.sub(r"\d+", "N", os.path.basename(os.readlink(f"{folder}/{each}")))] += 1
    return found


def parents() -> dict[int, int]:
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found[int(pid)] = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return found


def settings(servers: dict[str, Json]) -> str:
    lines = ['[sandbox]\nbackend = "auto"']
    for name, given in servers.items():
        lines.append(f"[mcp_servers.{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in given.items()]
    for name in (*CALLERS, WATCHER):
        digest = hashlib.sha256(name.encode()).hexdigest()
        more = "\nmonitoring = true" if name == WATCHER else ""
        lines.append(f'[[serve.tokens]]\nname = "{name[:8]}"\nhash = "sha256:{digest}"{more}')
    return "\n".join(lines)


def server(path: Path, *args: str, **more) -> Json:
    """A server whose results are trusted, unless `more` says something else."""
    given = {"command": sys.executable, "args": ["-S", str(path), *args], "category": "memory", "trust": "hints"}
    return {**given, **more}


def start(name: str, folder: Path, servers: dict[str, Json], *more: str, **pipes) -> Gateway:
    folder.mkdir()
    for each in ("work/out", "state", "config", "temp"):
        (folder / each).mkdir(parents=True)
    for number in range(FILES):
        lines = (f"line {line} of file {number}" for line in range(1, 1001))
        (folder / "work" / f"{number}.txt").write_text("\n".join(lines) + "\n")
    for number in range(OWN_FILES):
        (folder / "work" / "out" / f"{number}h.txt").touch()
        (folder / "work" / "out" / f"{number}s.txt").touch()
    (folder / "soak.toml").write_text(settings(servers))
    env = {
        **os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"),
        "TMPDIR": str(folder / "temp"), "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    command = (sys.executable, "-m", "toolcrib", "serve", "--workspace", str(folder / "work"))
    process = subprocess.Popen(
        [*command, "--config", str(folder / "soak.toml"), "--mode", "assistant", *more], env=env, **pipes
    )
    return Gateway(name, process, folder)


# --- what is called


@dataclass(frozen=True)
class Call:
    """A call of a tool, and whether an answer to it is right. `theirs`: a server's own error is no error of ours."""

    tool: str
    arguments: Json
    right: Check
    theirs: bool = False


count = itertools.count(1)
OWN_ERRORS = ("went away", "is not available", "did not answer within")


def echo(tool: str, theirs: bool = False) -> Call:
    said = f"text {next(count)}"
    return Call(tool, {"text": said}, lambda text, wrong: said in text and not wrong, theirs)


def large(tool: str = "mcp_plain_big") -> Call:
    size = random.randint(15_000, 20_000)
    return Call(tool, {"size": size, "n": next(count)}, lambda text, wrong: text.count("x") == size)


def die() -> Call:
    return Call("mcp_dying_die", {"path": "/dev/null", "n": next(count)}, lambda text, wrong: False, theirs=True)


def hang() -> Call:
    return Call("mcp_hanging_silence", {"n": next(count)}, lambda text, wrong: False, theirs=True)


def read_file() -> Call:
    number, line = random.randrange(FILES), random.randint(1, 900)
    asked = {"path": f"{number}.txt", "offset": line, "limit": 20}
    return Call("read_file", asked, lambda text, wrong: f"line {line} of file {number}\n" in text)


def grep() -> Call:
    line = random.randint(1, 1000)
    asked = {"pattern": f"^line {line} of file", "output_mode": "count"}
    return Call("grep", asked, lambda text, wrong: text.count(".txt") >= FILES and not wrong)


def write_file(own: str) -> Call:
    asked = {"path": f"out/{own}.txt", "content": f"number {next(count)}\n"}
    return Call("write_file", asked, lambda text, wrong: not wrong)


def command() -> Call:
    number = next(count)
    return Call("exec", {"command": f"echo $(({number} + 1))"}, lambda text, wrong: str(number + 1) in text)


def invalid() -> Call:
    asked = {"path": 7, "offset": f"x{next(count)}"}
    return Call("read_file", asked, lambda text, wrong: wrong and "offset" in text)


MIX: list[tuple[int, Callable[..., Call]]] = [
    (20, lambda: echo("mcp_plain_echo")), (20, lambda: echo("mcp_open_echo")), (4, lambda: large("mcp_open_big")), (20, lambda: echo("mcp_both_echo")), (6, large), (3, lambda: echo("mcp_asking_echo")),
    (10, read_file), (4, grep), (4, write_file), (2, command), (3, invalid),
    (4, lambda: echo("mcp_dying_echo", theirs=True)), (2, die), (2, hang),
]  # fmt: skip


def some_call(own: str) -> Call:
    """A call. `own` names a file that no other session writes: what another has changed may not be written over."""
    weights, kinds = zip(*MIX, strict=True)
    kind = random.choices(kinds, weights)[0]
    return kind(own) if kind is write_file else kind()


@dataclass
class Tally:
    """What became of the calls."""

    calls: int = 0
    theirs: int = 0
    """Errors of the servers that hang and die."""
    lives: int = 0
    wrong: Counter = field(default_factory=Counter)
    spans: list[float] = field(default_factory=list)

    def judge(self, call: Call, answer: Json) -> None:
        self.calls += 1
        if "error" in answer:
            text, wrong = json.dumps(answer["error"]), True
        else:
            result = answer["result"]
            text, wrong = (
                "".join(each.get("text", "") for each in result.get("content", ())),
                bool(result.get("isError")),
            )
        if call.right(text, wrong):
            return
        if call.theirs and wrong and any(each in text for each in OWN_ERRORS):
            self.theirs += 1
        else:
            self.wrong[f"{call.tool}: {text[:200]!r}"] += 1


# --- clients over HTTP


class Client:
    """One client over HTTP, which comes, calls and goes, again and again."""

    def __init__(self, url: str, number: int, tally: Tally, pause: float) -> None:
        self.url, self.number, self.tally, self.pause = url, number, tally, pause
        self.token = CALLERS[number % len(CALLERS)]

    async def live(self, ending: asyncio.Event) -> None:
        for life in itertools.count():
            if ending.is_set():
                return
            try:
                await (self.handshake if (life + self.number) % 2 else self.stateless)(ending)
                self.tally.lives += 1
            except Exception as error:  # whatever it is, it is counted
                self.tally.wrong[f"client: {type(error).__name__}: {str(error)[:300]}"] += 1
                await asyncio.sleep(1)

    @contextlib.asynccontextmanager
    async def http(self, **more: str) -> AsyncIterator[httpx2.AsyncClient]:
        headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.token}", **more}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            yield http

    async def handshake(self, ending: asyncio.Event) -> None:
        """A life in the handshake era, with a stream for announcements."""
        async with self.http() as http:
            hello = {"jsonrpc": "2.0", "id": next(count), "method": "initialize", "params": HELLO}
            response = await http.post(self.url, json=hello)
            response.raise_for_status()
            own = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
            http.headers.update(own)
            await http.post(self.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            listening = asyncio.create_task(self.listen(http))
            try:
                await self.request(http, "tools/list", {})
                await self.call_some(http, {}, ending)
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
        async with self.http(**own) as http:  # another connection, also if it went in the middle of a call
            assert (await http.delete(self.url)).status_code < 300

    async def listen(self, http: httpx2.AsyncClient) -> None:
        async with http.stream("GET", self.url) as stream:
            async for _ in stream.aiter_bytes():
                pass

    async def stateless(self, ending: asyncio.Event) -> None:
        """A life in 2026-07-28."""
        own = {"MCP-Protocol-Version": "2026-07-28", "Toolcrib-Session": f"client {self.number}"}
        async with self.http(**own) as http:
            await self.request(http, "tools/list", {"_meta": META})
            await self.call_some(http, {"_meta": META | CAN_ASK}, ending)

    async def call_some(self, http: httpx2.AsyncClient, more: Json, ending: asyncio.Event) -> None:
        """Calls with pauses. One client in five goes before the last answer has come.

        The raw client of the handshake era answers no forms. A session of 2026-07-28 has no end, so what it reads from
        untrusted servers is kept; its clients leave that to the others, whose sessions end.
        """
        for _ in range(random.randint(5, 25)):
            if ending.is_set():
                return
            call = some_call(f"{self.number % OWN_FILES}{'s' if more else 'h'}")
            before = time.perf_counter()
            if call.tool.startswith("mcp_open" if more else "mcp_asking"):
                continue
            params = {"name": call.tool, "arguments": call.arguments, **more}
            answer = await self.request(http, "tools/call", params)
            if answer.get("result", {}).get("resultType") == "input_required":
                asked = answer["result"]
                yes = {key: {"action": "accept", "content": {"decision": "approve"}} for key in asked["inputRequests"]}
                again = {"inputResponses": yes, "requestState": asked["requestState"]}
                answer = await self.request(http, "tools/call", {**params, **again})
            if not call.theirs:
                self.tally.spans.append(time.perf_counter() - before)
            self.tally.judge(call, answer)
            await asyncio.sleep(random.expovariate(1 / self.pause) if self.pause else 0)
        if random.random() < 0.2:
            call = random.choice((hang, command, large))()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(random.random() / 10):
                    await self.request(http, "tools/call", {"name": call.tool, "arguments": call.arguments, **more})

    async def request(self, http: httpx2.AsyncClient, method: str, params: Json) -> Json:
        modern = {"Mcp-Method": method, **({"Mcp-Name": params["name"]} if "name" in params else {})}
        message = {"jsonrpc": "2.0", "id": next(count), "method": method, "params": params}
        response = await http.post(self.url, json=message, headers=modern if "_meta" in params else {})
        lines = response.text.splitlines() if response.headers["content-type"].startswith("text/event-stream") else ()
        found = [json.loads(line[5:]) for line in lines if line.startswith("data:") and len(line) > 8]
        for each in found or [response.json()]:
            if each.get("id") == message["id"]:
                return each
        raise ValueError(f"HTTP {response.status_code} without an answer: {response.text[:200]}")


CAN_ASK = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


# --- the client over stdio


async def over_stdio(gateway: Gateway, tally: Tally, pause: float, ending: asyncio.Event) -> None:
    """Four calls at once, of servers that die again and again."""
    waiting: dict[int, asyncio.Future[Json]] = {}
    reader, loop = asyncio.StreamReader(limit=2**24), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), gateway.process.stdout)

    async def read() -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if message.get("id") in waiting and "method" not in message:
                waiting.pop(message["id"]).set_result(message)

    async def request(method: str, params: Json) -> Json:
        number = next(count)
        waiting[number] = future = loop.create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(gateway.process.stdin.fileno(), json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(60):
            return await future

    async def work() -> None:
        while not ending.is_set():
            call = random.choice(
                (
                    die,
                    *[lambda: echo("mcp_dying_echo", theirs=True)] * 6,
                    read_file,
                    *[lambda: large("mcp_open_big")] * 4,
                )
            )()
            try:
                tally.judge(call, await request("tools/call", {"name": call.tool, "arguments": call.arguments}))
            except Exception as error:
                tally.wrong[f"stdio: {type(error).__name__}: {error}"] += 1
            await asyncio.sleep(random.expovariate(4 / pause) if pause else 0)

    reading = asyncio.create_task(read())
    try:
        await request("initialize", HELLO)
        os.write(gateway.process.stdin.fileno(), b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        await asyncio.gather(*(work() for _ in range(4)))
    finally:
        reading.cancel()


# --- the run


async def run(folder: Path, minutes: float, clients: int, pause: float) -> bool:
    sdk = folder / "sdk.py"
    sdk.write_text(SERVER)
    plain = server(RAW, json.dumps({"tools": ["echo", "big"]}))
    dying = server(RAW, json.dumps({"tools": ["echo", "die"]}))
    servers = {
        "plain": plain,
        "open": {**plain, "category": "network_read", "trust": "none"},
        "both": {**plain, "args": [str(sdk)]},
        "asking": {**plain, "category": "destructive"},
        "dying": dying,
        "hanging": server(RAW, json.dumps({"tools": ["silence"]}), timeout=2),
    }
    for name, silent in (("mute", "initialize"), ("listless", "tools/list")):
        (script := folder / f"{name}.json").write_text(json.dumps({"answers": {silent: None}}))
        servers[name] = server(HOSTILE, str(script), start_timeout=5)
    errors = open(folder / "errors.txt", "wb")  # noqa: SIM115 (the processes write there until the end)
    http = start("HTTP", folder / "http", servers, "--http", "127.0.0.1:0", stdin=subprocess.DEVNULL, stderr=errors)
    stdio = start(
        "stdio", folder / "stdio", {"dying": dying, "open": servers["open"]}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
    )  # fmt: skip
    both, tally, ending = [http, stdio], Tally(), asyncio.Event()
    try:
        url = await until_it_listens(folder / "errors.txt")
        began, before = time.monotonic(), descriptors(http)
        working = [asyncio.create_task(over_stdio(stdio, tally, pause, ending))]
        working += [asyncio.create_task(Client(url, each, tally, pause).live(ending)) for each in range(clients)]
        told = 0.0
        while (now := time.monotonic() - began) < 60 * minutes:
            found = parents()
            for each in both:
                each.look(found)
            if now >= told:
                told += max(60 * minutes / 30, 10)
                show(now, tally, both)
            await asyncio.sleep(LOOK_SECONDS)
        ending.set()
        await asyncio.gather(*working)
        await asyncio.sleep(3)
        after = descriptors(http)
        sessions = await open_sessions(url)
    finally:
        stdio.process.stdin.close()
        http.process.send_signal(signal.SIGTERM)
        for each in both:
            each.process.wait(ENDING_SECONDS)
    await asyncio.sleep(2)
    print(
        f"\n{tally.calls:,} calls of {tally.lives:,} clients in {minutes:g} minutes, {tally.theirs:,} errors of the servers"
    )
    print(f"median of a call {1000 * statistics.median(tally.spans):.1f} ms, 99 % under "
          f"{1000 * statistics.quantiles(tally.spans, n=100)[-1]:.0f} ms")  # fmt: skip
    bad = [f"{number} × {what}" for what, number in tally.wrong.most_common(20)]
    bad += [grown for each in both for grown in growth(each, minutes < WARM_MINUTES)]
    bad += [f"{each.name}: left running: {left}" for each in both if (left := each.left())]
    bad += [f"{sessions:g} sessions are open after the last client"] if sessions else []
    print(f"more descriptors of HTTP after the last client than before the first: {dict(after - before)}")
    print("\n".join(bad) or "no wrong answer, nothing grew, nothing is left")
    return not bad


async def until_it_listens(path: Path) -> str:
    async with asyncio.timeout(60):
        while (found := re.search(r"http://\S+/mcp", path.read_text())) is None:
            await asyncio.sleep(0.1)
    return found[0]


async def open_sessions(url: str) -> float:
    headers = {"Authorization": f"Bearer {WATCHER}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        text = (await http.get(url.replace("/mcp", "/metrics"))).text
    return float(re.search(r"^toolcrib_sessions (\S+)", text, re.MULTILINE)[1])


def show(now: float, tally: Tally, both: list[Gateway]) -> None:
    parts = []
    for each in both:
        row = each.rows[-1]
        parts.append(f"{each.name}: " + ", ".join(f"{key.split(',')[0]} {value:.0f}" for key, value in row.items()))
    wrong = sum(tally.wrong.values())
    print(f"{now / 60:5.1f} min {tally.calls:7,} calls, {wrong} wrong | {' | '.join(parts)}", flush=True)


def growth(gateway: Gateway, warming: bool) -> list[str]:
    """Print the medians of the thirds of the time; return what has grown from the second to the last."""
    third, found = len(gateway.rows) // 3, []
    print(f"{gateway.name:6} median of the first / second / last third (largest)")
    for key, (part, number) in SLACK.items():
        values = [row[key] for row in gateway.rows]
        first, second, last = (
            statistics.median(each) for each in (values[:third], values[third : 2 * third], values[2 * third :])
        )
        print(f"  {key:12} {first:8.1f} {second:8.1f} {last:8.1f}  ({max(values):.1f})")
        if key == "memory, MB" and warming:
            part = WARMING
        if last > second * (1 + part) + number:
            found.append(f"{gateway.name}: {key} grew from {second:.1f} to {last:.1f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds between two calls of a client")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        good = asyncio.run(run(Path(temp), given.minutes, given.clients, given.pause))
        if not good:
            print((Path(temp) / "errors.txt").read_text()[-3000:])
    sys.exit(not good)


if __name__ == "__main__":
    main()
