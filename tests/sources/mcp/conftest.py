"""Servers for the tests: programs of their own, and a client with its own cache."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for mcp_world, here and in the tests

from mcp_world import alive

from toolcrib.core.registry import ToolRegistry
from toolcrib.sources.mcp.cache import ListCache
from toolcrib.sources.mcp.client_services import ClientServices
from toolcrib.sources.mcp.config import ServerConfig
from toolcrib.sources.mcp.servers import McpServers


@pytest.fixture
def host(tmp_path: Path) -> ClientServices:
    """What servers are given in the tests."""
    work = tmp_path / "work"
    work.mkdir()
    return ClientServices(work, ListCache(tmp_path / "mcp" / "lists"), tmp_path / "mcp" / "tokens", dict(os.environ))


Opened = Callable[..., Any]


@pytest.fixture
async def client(host: ClientServices) -> AsyncIterator[Opened]:
    """`await client(config, …)` connects servers and gives them, with their registry; all are closed in the end, and
    none of their processes is left."""
    made: list[McpServers] = []
    pids: set[int] = set()

    async def open_(*configs: ServerConfig, start: bool = True) -> McpServers:
        servers = McpServers(configs, host, ToolRegistry())
        made.append(servers)
        if start:
            await servers.start()
        pids.update(status.pid for status in servers.servers.values() if status.pid)
        return servers

    yield open_
    for servers in made:
        pids.update(status.pid for status in servers.servers.values() if status.pid)
        await servers.aclose()
    assert [pid for pid in pids if alive(pid)] == []
