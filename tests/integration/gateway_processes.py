"""The processes behind the gateway tests: fixture servers, and `toolcrib serve` in front of them."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client

sys.path.insert(0, str(Path(__file__).parent))
from node_tools import environment

HERE = Path(__file__).parent
FIXTURES = {"plain": HERE / "gateway_fixture.py", "odd": HERE / "gateway_odd_fixture.py"}


@contextmanager
def process(*command: str, **env: str) -> Iterator[str]:
    """A server over HTTP; gives the address that it says on stderr, and ends it with everything it started."""
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment(**env),
    )  # fmt: skip
    assert server.stderr is not None
    said: list[str] = []
    rest: threading.Thread | None = None
    try:
        for line in server.stderr:
            said.append(line)
            if "http://127.0.0.1:" in line and "/mcp" in line:
                rest = threading.Thread(target=said.extend, args=(server.stderr,), daemon=True)
                rest.start()  # a full pipe would stop the server
                yield line[line.index("http://") :].strip()
                break
        else:
            raise AssertionError("it ended:\n" + "".join(said))
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        if rest is not None:
            rest.join(60)
        server.stderr.close()
        print("".join(said)[-5000:], file=sys.stderr)  # pytest shows it with a failure


def fixture(kind: str, era: str = "both") -> Any:
    """A fixture server over HTTP, by itself."""
    return process(sys.executable, str(FIXTURES[kind]), "--http", "0", "--era", era)


def over_stdio(kind: str, era: str = "both") -> dict[str, Any]:
    """How the gateway starts a fixture server for itself."""
    return {"command": sys.executable, "args": [str(FIXTURES[kind]), "--era", era]}


@contextmanager
def gateway(folder: Path, servers: Mapping[str, Mapping[str, Any]], *options: str) -> Iterator[str]:
    """`toolcrib serve` with these servers behind it; gives its address.

    Their hints are believed, and what would ask is answered with yes: policy has tests of its own. Our own `echo` is
    off: a server of the tests has one, too, and its names have no prefix here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    given = {name: {"prefix": "", "trust": "hints", "start_timeout": 60, **one} for name, one in servers.items()}
    config = folder / "toolcrib.json"
    config.write_text(json.dumps({"mcpServers": given, "tools": {"disabled": ["echo"]}}))
    toolcrib = str(Path(sys.executable).with_name("toolcrib"))
    with process(
        toolcrib, "serve", "--http", "127.0.0.1:0", "--token", "", "--all-tools", "--config", str(config),
        "--workspace", str(folder / "work"), "--yes", *options,
        XDG_STATE_HOME=str(folder / "state"), XDG_CONFIG_HOME=str(folder / "config"), NO_COLOR="1", COLUMNS="300",
    ) as url:  # fmt: skip
        if servers:
            _run(_until_connected, url, _own_tools(), len(servers))
        yield url


def _run(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    """Run it in a thread: the caller may be a test with a loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(function(*args))).result()


async def _tools(url: str) -> set[str]:
    async with Client(url, cache=None) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def _until_connected(url: str, own: set[str], servers: int) -> None:
    """Wait until the servers' tools are listed: a client is answered at once with what is there by then. Of several
    servers nobody can say whose tools are there: then until no more have come for a while."""
    known, same = own, 0
    for _ in range(300):
        now = await _tools(url)
        same = same + 1 if now == known else 0
        known = now
        if now - own and (servers == 1 or same == 20):
            return
        await asyncio.sleep(0.2)


@functools.cache
def _own_tools() -> set[str]:
    with tempfile.TemporaryDirectory() as folder, gateway(Path(folder), {}) as url:
        return _run(_tools, url)
