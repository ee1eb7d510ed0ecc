"""The MCP client: a listing from the cache, large results, many servers at once. Ratios within one run.

python benchmarks/mcp_client.py
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from toolcrib.core.registry import ToolRegistry
from toolcrib.sources.mcp.client_services import ClientServices
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.servers import McpServers
from toolcrib.sources.mcp.cache import ListCache

RAW = Path(__file__).resolve().parents[1] / "tests" / "sources" / "mcp" / "servers" / "raw.py"


def raw(name: str, **behaviour):
    return server_config(name, {"command": sys.executable, "args": ["-S", str(RAW), json.dumps(behaviour)]})


def servers(folder: Path, *configs) -> McpServers:
    return McpServers(
        configs,
        ClientServices(folder, ListCache(folder / "lists"), folder / "tokens", dict(os.environ)),
        ToolRegistry(),
    )


async def large(folder: Path) -> None:
    found = servers(folder, raw("raw", tools=["big", "echo"]))
    await found.start()
    times = {}
    for megabytes in (1, 4, 16, 20):
        spans = []
        for _ in range(3):
            start = time.perf_counter()
            output = await found._registry.execute("mcp_raw_big", {"size": megabytes << 20})
            spans.append(time.perf_counter() - start)
            assert not output.is_error
        times[megabytes] = min(spans)
    print(
        "result of 1/4/16/20 MB:",
        " ".join(f"{t:.3f}" for t in times.values()),
        "s; 16 MB over 4 MB:",
        f"{times[16] / times[4]:.1f} (linear: 4)",
    )
    spans = []
    for _ in range(300):
        start = time.perf_counter()
        await found._registry.execute("mcp_raw_echo", {"a": 1})
        spans.append(time.perf_counter() - start)
    print(f"a call: p50 {statistics.median(spans) * 1e3:.2f} ms")
    await found.aclose()


async def many(folder: Path) -> None:
    for number in (1, 20):
        (home := folder / str(number)).mkdir()
        found = servers(home, *(raw(f"s{n}") for n in range(number)))
        start = time.perf_counter()
        await found.start()
        print(f"{number} servers connected and listed: {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        await found.aclose()
        print(f"{number} servers closed: {time.perf_counter() - start:.2f} s")


def listing(folder: Path) -> None:
    """`toolcrib list` with 20 servers in the cache, beside one without any."""
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    (folder / "work").mkdir()
    entries = {
        f"s{n}": {"command": sys.executable, "args": ["-S", str(RAW), json.dumps({"many": 10})]} for n in range(20)
    }
    for name, given in (("none", {}), ("twenty", entries)):
        (folder / f"{name}.json").write_text(json.dumps({"mcpServers": given}))
    command = [sys.executable, "-m", "toolcrib", "list", "--workspace", str(folder / "work"), "--config"]
    for name in ("none", "twenty"):
        path = str(folder / f"{name}.json")
        subprocess.run([*command, path], env=env, check=True, capture_output=True)  # asks them once
        walls, used = [], []
        for _ in range(7):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            done = subprocess.run([*command, path], env=env, check=True, capture_output=True, text=True)
            walls.append(time.perf_counter() - start)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        lines = len(done.stdout.splitlines())
        print(f"toolcrib list, {name} configured ({lines} tools): wall {min(walls):.2f} s, CPU {min(used):.2f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temp:
        listing(Path(temp))
        asyncio.run(large(Path(temp)))
        asyncio.run(many(Path(temp)))
