"""Real MCP servers, each in an environment of its own: every tool is listed, and at least one of each is called.

The npm packages go to `.conformance/`, those of PyPI into virtual environments there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from node_tools import FOLDER, environment, installed, node

from toolcrib import Toolbox
from toolcrib.config import Settings

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NPM = {
    "everything": ("@modelcontextprotocol/server-everything", "2026.8.31"),
    "filesystem": ("@modelcontextprotocol/server-filesystem", "latest"),
    "memory": ("@modelcontextprotocol/server-memory", "latest"),
    "thinking": ("@modelcontextprotocol/server-sequential-thinking", "latest"),
}


def npm_server(name: str, *args: str) -> dict[str, Any]:
    """How to start a server of npm."""
    home = installed(*NPM[name])
    about = json.loads((home / "package.json").read_text())
    program = about["bin"] if isinstance(about["bin"], str) else next(iter(about["bin"].values()))
    return {"command": node(), "args": [str(home / program), *args]}


def pypi_server(name: str, *args: str) -> dict[str, Any]:
    """How to start a server of PyPI, in a virtual environment that is made once."""
    folder = FOLDER / f"venv-{name}"
    program = folder / "bin" / name
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", name], check=True, timeout=600, env=environment())
    return {"command": str(program), "args": list(args)}


@pytest.fixture
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """`await opened(name, server)` opens a toolbox with one server, allowed to do what it does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    boxes: list[Toolbox] = []

    async def open_(name: str, server: dict[str, Any], **more: Any) -> Toolbox:
        servers = {name: {**server, "start_timeout": 120.0, "timeout": 120.0, **more}}
        settings = Settings.model_validate({"workspace": tmp_path / "work", "mcp_servers": servers})
        boxes.append(await Toolbox.open(settings=settings, yes=True, builtin=False))
        assert boxes[-1].mcp.servers[name].error is None, boxes[-1].mcp.servers
        return boxes[-1]

    yield open_
    for box in boxes:
        await box.aclose()


def own(box: Toolbox, name: str) -> list[Any]:
    """The server's own tools, without those of ours that reach its resources and prompts."""
    return [tool for tool in box.mcp.tools(name) if getattr(tool, "listed").kind == "tool"]  # noqa: B009


async def test_everything(opened: Any) -> None:
    box = await opened("everything", npm_server("everything"))
    assert len(own(box, "everything")) == 15  # two of them ask the person
    assert "Echo: hi" in str(await box.call("mcp_everything_echo", {"message": "hi"}))
    picture = await box.call("mcp_everything_get-tiny-image", {})
    assert [block.type for block in picture.content].count("image") == 1
    structured = await box.call("mcp_everything_get-structured-content", {"location": "Chicago"})
    assert "temperature" in structured.data
    long = await box.call("mcp_everything_trigger-long-running-operation", {"duration": 1, "steps": 2})
    assert not long.is_error
    assert "demo://" in str(await box.call("mcp_everything_resources", {}))
    assert not (await box.call("mcp_everything_prompts", {"name": "simple-prompt"})).is_error


async def test_filesystem(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "work" / "a.txt").write_text("here")
    box = await opened("files", npm_server("filesystem", str(tmp_path / "work")), trust="hints")
    assert len(own(box, "files")) == 14
    assert "here" in str(await box.call("mcp_files_read_text_file", {"path": str(tmp_path / "work" / "a.txt")}))
    outside = await box.call("mcp_files_read_text_file", {"path": "/etc/passwd"})
    assert outside.is_error


async def test_memory(opened: Any, tmp_path: Path) -> None:
    server = npm_server("memory")
    box = await opened("memory", {**server, "env": {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}})
    assert len(own(box, "memory")) == 9
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    assert not (await box.call("mcp_memory_create_entities", {"entities": [entity]})).is_error
    assert "counts" in str(await box.call("mcp_memory_search_nodes", {"query": "Ada"}))


async def test_sequential_thinking(opened: Any) -> None:
    box = await opened("thinking", npm_server("thinking"))
    (tool,) = own(box, "thinking")
    thought = {"thought": "1", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    assert not (await box.call(tool.name, thought)).is_error


async def test_git(opened: Any, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "work")], check=True)
    box = await opened("git", pypi_server("mcp-server-git"))
    assert len(own(box, "git")) == 12
    assert "No commits yet" in str(await box.call("mcp_git_git_status", {"repo_path": str(tmp_path / "work")}))


async def test_time(opened: Any) -> None:
    box = await opened("time", pypi_server("mcp-server-time"))
    assert len(own(box, "time")) == 2
    assert "Europe/Oslo" in str(await box.call("mcp_time_get_current_time", {"timezone": "Europe/Oslo"}))


async def test_fetch(opened: Any) -> None:
    box = await opened("fetch", pypi_server("mcp-server-fetch"))
    assert "mcp_fetch_fetch" in [tool.name for tool in box.mcp.tools("fetch")]
    failed = await box.call("mcp_fetch_fetch", {"url": "http://127.0.0.1:9/"})  # nobody is there
    assert failed.is_error


async def test_in_the_sandbox(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "work" / "a.txt").write_text("here")
    (tmp_path / "secret.txt").write_text("outside")
    server = npm_server("filesystem", "/")
    box = await opened("files", server, sandbox="read-only", read=[installed(*NPM["filesystem"]).parents[2]])
    assert "here" in str(await box.call("mcp_files_read_text_file", {"path": str(tmp_path / "work" / "a.txt")}))
    assert (await box.call("mcp_files_read_text_file", {"path": str(tmp_path / "secret.txt")})).is_error
    write = {"path": str(tmp_path / "work" / "b.txt"), "content": "x"}
    assert (await box.call("mcp_files_write_file", write)).is_error
    assert not (tmp_path / "work" / "b.txt").exists()
