"""Real MCP servers, each in an environment of its own: every tool is listed, and at least one of each is called.

Each in three ways: through the library, through the gateway from an outside client in both protocol eras, and from a
stdio server in the sandbox. What there is to list is what the official SDK's client finds, without Toolcrib.
The npm packages go to `.conformance/`, those of PyPI into virtual environments there.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import ElicitResult, PromptReference, ResourceTemplateReference

sys.path.insert(0, str(Path(__file__).parent))
from gateway_probes import Sight, call, completion, every, prompt, read
from gateway_processes import gateway
from node_tools import FOLDER, environment, installed, node, one_at_a_time

from toolcrib import Toolbox
from toolcrib.config import make_settings

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NPM = {
    "everything": ("@modelcontextprotocol/server-everything", "2026.8.31"),
    "filesystem": ("@modelcontextprotocol/server-filesystem", "latest"),
    "memory": ("@modelcontextprotocol/server-memory", "latest"),
    "thinking": ("@modelcontextprotocol/server-sequential-thinking", "latest"),
}
ERAS = ("legacy", "2026-07-28")


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
    with one_at_a_time(folder.name):
        if not program.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
            install = [folder / "bin" / "pip", "install", "--quiet", name]
            subprocess.run(install, check=True, timeout=600, env=environment())
            if name == "mcp-server-fetch":  # its scripts for node come at their first use, which a sandbox would stop
                first_use = "from readabilipy.simple_json import have_node; have_node()"
                subprocess.run([folder / "bin/python", "-c", first_use], check=True, timeout=600)
    return {"command": str(program), "args": list(args)}


@dataclass(frozen=True)
class Real:
    """A server, how many tools it has, and what to call: name, arguments, and what the answer has in it."""

    server: Callable[[Path], dict[str, Any]]
    tools: int
    calls: Callable[[Path], list[tuple[str, dict[str, Any], str]]]
    package: str
    sandbox: str = "read-only"

    @property
    def home(self) -> Path:
        """Where its files are."""
        if self.package in NPM:
            return installed(*NPM[self.package]).parents[2]
        return FOLDER / f"venv-{self.package}"


def _entity(work: Path) -> list[tuple[str, dict[str, Any], str]]:
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    return [("create_entities", {"entities": [entity]}, ""), ("search_nodes", {"query": "Ada"}, "counts")]


_THOUGHT = {"thought": "1", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
REAL = {
    "everything": Real(
        lambda work: npm_server("everything"), 17,
        lambda work: [("echo", {"message": "hi"}, "Echo: hi"), ("get-sum", {"a": 2, "b": 3}, "5")], "everything",
    ),
    "filesystem": Real(
        lambda work: npm_server("filesystem", str(work)), 14,
        lambda work: [("read_text_file", {"path": str(work / "a.txt")}, "here")], "filesystem",
    ),
    "memory": Real(
        lambda work: {**npm_server("memory"), "env": {"MEMORY_FILE_PATH": str(work / "memory.json")}}, 9, _entity,
        "memory", "workspace-write",
    ),
    "thinking": Real(
        lambda work: npm_server("thinking"), 1, lambda work: [("sequentialthinking", _THOUGHT, "thoughtNumber")],
        "thinking",
    ),
    "git": Real(
        lambda work: pypi_server("mcp-server-git"), 12,
        lambda work: [("git_status", {"repo_path": str(work)}, "No commits yet")], "mcp-server-git",
    ),
    "time": Real(
        lambda work: pypi_server("mcp-server-time"), 2,
        lambda work: [("get_current_time", {"timezone": "Europe/Oslo"}, "Europe/Oslo")], "mcp-server-time",
    ),
    "fetch": Real(
        lambda work: pypi_server("mcp-server-fetch", "--allow-private-ips"), 1,
        lambda work: [("fetch", {}, "A page to read")], "mcp-server-fetch",
    ),
}  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a file in it, under git."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("here")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html><body><h1>A page</h1><p>A page to read, of some words at least.</p></body></html>"
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def page() -> Iterator[str]:
    """A page on this machine, for the server that fetches."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as web:
        thread = threading.Thread(target=web.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}/page"
        web.shutdown()
        thread.join()


def with_page(arguments: dict[str, Any], name: str, page: str) -> dict[str, Any]:
    return {"url": page} if name == "fetch" else arguments


async def listed_without_us(server: dict[str, Any], work: Path) -> set[str]:
    """What a client with all abilities finds."""
    parameters = StdioServerParameters(
        command=server["command"], args=server["args"], env=environment(**server.get("env", {})), cwd=str(work)
    )
    see = Sight(stdio_client(parameters), "auto", "bare")  # type: ignore[arg-type]
    async with quietly(), see.client() as client:
        await asyncio.sleep(0.5)  # everything adds some after it heard what the client can
        return {tool["name"] for tool in await every(client.list_tools, "tools")}


@asynccontextmanager
async def quietly() -> AsyncIterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


@pytest.fixture
async def opened(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """`await opened(name, server)` opens a toolbox with one server, allowed to do what it does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    boxes: list[Toolbox] = []

    async def open_(name: str, server: dict[str, Any], **more: Any) -> Toolbox:
        servers = {name: {**server, "start_timeout": 120.0, "timeout": 120.0, **more}}
        settings = make_settings({"workspace": work, "mcp_servers": servers})
        boxes.append(await Toolbox.open(settings=settings, yes=True, builtin=False))
        assert boxes[-1].mcp.servers[name].error is None, boxes[-1].mcp.servers
        return boxes[-1]

    yield open_
    for box in boxes:
        await box.aclose()


def own(box: Toolbox, name: str) -> set[str]:
    """The server's own tools, without those of ours that reach its resources and prompts."""
    return {tool.listed.name for tool in box.mcp.tools(name) if tool.listed.kind == "tool"}  # type: ignore[attr-defined]


# What a server adds only for clients that can do more than a toolbox without a client behind it: its model, its roots.
NEEDS_A_CLIENT = {"everything": {"trigger-sampling-request", "get-roots-list"}}
ONLY_AS_TASKS = {"simulate-research-query"}  # Toolcrib starts no tasks of the protocol


@pytest.mark.parametrize("name", REAL)
async def test_through_the_library(opened: Any, work: Path, page: str, name: str) -> None:
    real = REAL[name]
    expected = await listed_without_us(real.server(work), work)
    assert len(expected) == real.tools
    box = await opened(name, real.server(work))
    assert own(box, name) >= expected - NEEDS_A_CLIENT.get(name, set()) - ONLY_AS_TASKS
    for tool, arguments, answer in real.calls(work):
        out = await box.call(f"mcp_{name}_{tool}", with_page(arguments, name, page))
        assert not out.is_error, out
        assert answer in str(out)


@pytest.mark.parametrize("name", REAL)
async def test_in_the_sandbox(opened: Any, work: Path, page: str, name: str) -> None:
    real = REAL[name]
    expected = await listed_without_us(real.server(work), work)
    read_too = [real.home, Path(sys.base_prefix)]
    box = await opened(name, real.server(work), sandbox=real.sandbox, read=read_too)
    assert own(box, name) >= expected - NEEDS_A_CLIENT.get(name, set()) - ONLY_AS_TASKS
    for tool, arguments, answer in real.calls(work):
        out = await box.call(f"mcp_{name}_{tool}", with_page(arguments, name, page))
        if name == "fetch":  # there is no network in it
            assert out.is_error, out
            continue
        assert not out.is_error, out
        assert answer in str(out)


@contextmanager
def served(tmp_path: Path, servers: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    given = {name: {"start_timeout": 120, "timeout": 120, **server} for name, server in servers.items()}
    with gateway(tmp_path, given) as url:
        yield url


@pytest.mark.parametrize("name", REAL)
async def test_through_the_gateway(tmp_path: Path, work: Path, page: str, name: str) -> None:
    real = REAL[name]
    expected = await listed_without_us(real.server(work), work)
    with served(tmp_path, {name: real.server(work)}) as url:
        for era in ERAS:
            see = Sight(url, era, "outside")
            async with quietly(), see.client() as client:
                listed = {tool["name"] for tool in await every(client.list_tools, "tools")}
                assert expected - ONLY_AS_TASKS <= listed, era
                assert not ONLY_AS_TASKS & listed
                for tool, arguments, answer in real.calls(work):
                    out = await call(client, tool, with_page(arguments, name, page))
                    assert not out["isError"], out
                    assert answer in json.dumps(out)


async def test_all_of_them_behind_one_gateway(tmp_path: Path, work: Path, page: str) -> None:
    with served(tmp_path, {name: {**real.server(work), "prefix": None} for name, real in REAL.items()}) as url:
        see = Sight(url, "2026-07-28", "outside")
        async with quietly(), see.client() as client:
            listed = {tool["name"] for tool in await every(client.list_tools, "tools")}
            for name, real in REAL.items():
                for tool, arguments, answer in real.calls(work):
                    assert f"mcp_{name}_{tool}" in listed
                    out = await call(client, f"mcp_{name}_{tool}", with_page(arguments, name, page))
                    assert not out["isError"], out
                    assert answer in json.dumps(out)


# --- what else single servers do


async def test_everything_in_the_library(opened: Any) -> None:
    box = await opened("everything", npm_server("everything"))
    picture = await box.call("mcp_everything_get-tiny-image", {})
    assert [block.type for block in picture.content].count("image") == 1
    structured = await box.call("mcp_everything_get-structured-content", {"location": "Chicago"})
    assert "temperature" in structured.data
    long = await box.call("mcp_everything_trigger-long-running-operation", {"duration": 1, "steps": 2})
    assert not long.is_error
    assert "demo://" in str(await box.call("mcp_everything_resources", {}))
    assert not (await box.call("mcp_everything_prompts", {"name": "simple-prompt"})).is_error


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway in front of the server that shows all of the protocol, written on another SDK."""
    with served(tmp_path_factory.mktemp("everything"), {"everything": npm_server("everything")}) as url:
        yield url


@asynccontextmanager
async def bare() -> AsyncIterator[tuple[Sight, Client]]:
    """The same server without us."""
    server = npm_server("everything")
    parameters = StdioServerParameters(command=server["command"], args=server["args"], env=environment())
    see = Sight(stdio_client(parameters), "auto", "bare")  # type: ignore[arg-type]
    async with quietly(), see.client() as client:
        yield see, client


@asynccontextmanager
async def outside(url: str, era: str) -> AsyncIterator[tuple[Sight, Client]]:
    """An outside client of the gateway."""
    see = Sight(url, era, "outside")
    async with quietly(), see.client(log_level="debug" if see.modern else None) as client:
        yield see, client


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


async def resources_of(client: Client) -> list[Any]:
    listed = await every(client.list_resources, "resources")
    uris = [each["uri"] for each in listed if each["uri"].startswith("demo://")]
    texts = [(await read(client, uri))["contents"] for uri in uris]
    templates = await every(client.list_resource_templates, "resource_templates")
    blob = (await read(client, "demo://resource/dynamic/blob/7"))["contents"][0]["mimeType"]
    return [uris, texts, templates, blob]


async def prompts_of(client: Client) -> list[Any]:
    reference = PromptReference(type="ref/prompt", name="completable-prompt")
    template = ResourceTemplateReference(type="ref/resource", uri="demo://resource/dynamic/text/{resourceId}")
    filled = [
        await prompt(client, "simple-prompt"),
        await prompt(client, "args-prompt", {"city": "Oslo"}),
        await prompt(client, "resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
    ]
    return [
        await every(client.list_prompts, "prompts"),
        [[message["content"].get("text") for message in each["messages"]] for each in filled],
        (await completion(client, reference, "department", ""))["completion"],
        (await completion(client, reference, "name", "", {"department": "Engineering"}))["completion"],
        (await completion(client, template, "resourceId", "5"))["completion"],
    ]


async def test_resources_of_everything(everything: str, era: str) -> None:
    async with bare() as (_, client):
        expected = await resources_of(client)
    assert len(expected[0]) == 7
    async with outside(everything, era) as (_, client):
        assert await resources_of(client) == expected


async def test_prompts_of_everything(everything: str, era: str) -> None:
    async with bare() as (_, client):
        expected = await prompts_of(client)
    assert expected[2]["values"]
    assert expected[3]["values"]
    async with outside(everything, era) as (_, client):
        assert await prompts_of(client) == expected


async def test_questions_of_everything(everything: str, era: str) -> None:
    async with outside(everything, era) as (see, client):
        see.say = lambda _: ElicitResult(action="decline")
        asked = await call(client, "trigger-elicitation-request")
        assert "declined" in json.dumps(asked)
        assert len(see.told("elicitation")) == 1
        sampled = await call(client, "trigger-sampling-request", {"prompt": "Say hi", "maxTokens": 20})
        assert "I heard:" in json.dumps(sampled)
        assert see.told("sampling")[0]["maxTokens"] == 20
        assert "file:///work/one" in json.dumps(await call(client, "get-roots-list"))


async def test_progress_of_everything(everything: str, era: str) -> None:
    async with outside(everything, era) as (see, client):
        arguments = {"duration": 0.4, "steps": 4}
        await call(client, "trigger-long-running-operation", arguments, progress_callback=see.progress)
        await asyncio.sleep(0.1)
        assert [done for done, _, _ in see.told("progress")] == [1, 2, 3, 4]


async def test_logs_of_everything(everything: str, era: str) -> None:
    """It logs beside its calls, at random levels; a request of 2026-07-28 hears what comes while it runs."""
    async with outside(everything, era) as (see, client):
        if not see.modern:
            await client.set_logging_level("debug")
        await call(client, "toggle-simulated-logging")
        try:
            if see.modern:
                await call(client, "trigger-long-running-operation", {"duration": 6, "steps": 2})
            assert await see.news("log")
        finally:
            await call(client, "toggle-simulated-logging")


async def test_subscriptions_of_everything(everything: str, era: str) -> None:
    uri = "demo://resource/dynamic/text/1"
    async with outside(everything, era) as (see, client), see.listening(client, uri):
        await call(client, "toggle-subscriber-updates")
        try:
            for _ in range(2):
                if await see.news("updated"):
                    break
            assert set(see.told("updated")) == {uri}
        finally:
            await call(client, "toggle-subscriber-updates")


async def test_filesystem_stays_in_its_folder(opened: Any, work: Path) -> None:
    box = await opened("files", npm_server("filesystem", str(work)), trust="hints")
    assert (await box.call("mcp_files_read_text_file", {"path": "/etc/passwd"})).is_error


async def test_the_sandbox_holds_a_server(opened: Any, tmp_path: Path, work: Path) -> None:
    (tmp_path / "secret.txt").write_text("outside")
    server = npm_server("filesystem", "/")
    box = await opened("files", server, sandbox="read-only", read=[installed(*NPM["filesystem"]).parents[2]])
    assert "here" in str(await box.call("mcp_files_read_text_file", {"path": str(work / "a.txt")}))
    assert (await box.call("mcp_files_read_text_file", {"path": str(tmp_path / "secret.txt")})).is_error
    write = {"path": str(work / "b.txt"), "content": "x"}
    assert (await box.call("mcp_files_write_file", write)).is_error
    assert not (work / "b.txt").exists()
