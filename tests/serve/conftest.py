"""A toolbox on a temporary workspace with its state beside it, and a client in either protocol era."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool
from toolcrib.serve.mcp import McpServer
from toolcrib.toolbox import Toolbox

ERAS = ["legacy", "2026-07-28"]


@pytest.fixture(autouse=True)
def no_certificates(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client would read the system's certificates anew, 20 ms, though these tests speak plain HTTP."""
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path_factory.getbasetemp()))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server begins when those behind it are there, however busy the machine is."""
    monkeypatch.setattr("toolcrib.serve.mcp.FIRST_SECONDS", 60.0)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """Both protocol eras, one after the other."""
    return request.param


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toolbox]:
    """A toolbox without the built-in tools, in assistant mode."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    workspace = tmp_path / "work"
    workspace.mkdir()
    with Toolbox.open(workspace=workspace, builtin=False) as opened:
        yield opened


@pytest.fixture
def launch(box: Toolbox, tmp_path: Path) -> Path:
    """A tool `launch(what)` that asks first; the file it returns the path of has a line for each run."""
    ran = tmp_path / "ran"

    @tool(category="destructive", preview=lambda args, ctx: f"would launch {args['what']}")
    async def launch(what: str, ctx: ToolContext) -> str:
        """Launch something.

        Args:
            what: The thing.
        """
        with ran.open("a") as file:
            file.write(what + "\n")
        return f"launched {what}"

    box.registry.register(launch)
    return ran


@dataclass(frozen=True, slots=True)
class Hang:
    """A tool `hang()` that sleeps for a minute, and what tells that it has started and ended."""

    tool: Tool
    started: asyncio.Event
    ended: asyncio.Event


@pytest.fixture
def hang() -> Hang:
    """One that nobody has called yet."""
    started, ended = asyncio.Event(), asyncio.Event()

    @tool(category="memory")
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "slept"

    return Hang(hang, started, ended)


Answerer = Callable[[Any, Any], Awaitable[ElicitResult]]


@pytest.fixture
def connect() -> Callable[..., Client]:
    """`connect(box, era)`: a client of an MCP server over the box, in this process."""

    def make(box: Toolbox | ToolRegistry | McpServer, era: str, answer: Answerer | None = None, **more: Any) -> Client:
        server = box if isinstance(box, McpServer) else McpServer(box)
        return Client(server.sdk, mode=era, elicitation_callback=answer, **more)

    return make
