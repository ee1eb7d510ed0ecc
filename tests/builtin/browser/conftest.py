"""A small web on this machine for the browser: servers under public names, and places that must never be reached."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.browser import browser_tools
from toolcrib.builtin.browser.launch import missing
from toolcrib.builtin.settings import BrowserSettings
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import AddressRefused
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder

HERE = "127.0.0.1"
LACKING = missing(BrowserSettings())
SETTINGS = BrowserSettings(timeout=20)


@dataclass(frozen=True)
class Reply:
    """What a server answers."""

    body: str | bytes = ""
    type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Got:
    """What a server was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Site:
    """A server that answers by a function and remembers what it was asked."""

    def __init__(self, answer: Callable[[Got], Reply]) -> None:
        self.asked: list[Got] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                got = Got(self.command, self.path, headers, self.rfile.read(length))
                site.asked.append(got)
                reply = answer(got)
                body = reply.body.encode() if isinstance(reply.body, str) else reply.body
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.type)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = _answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((HERE, 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, path: str = "/", name: str = "site.example") -> str:
        return f"http://{name}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [got.path for got in self.asked if got.path != "/favicon.ico"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Trap:
    """Counts what reaches an address by TCP or UDP. Nothing should."""

    def __init__(self, address: str = "127.0.0.9") -> None:
        self.hits = 0
        self.address = address
        self._tcp = socket.create_server((address, 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((address, self.port))
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._accept, self._receive)]
        for thread in self._threads:
            thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            self.hits += 1
            connection.close()

    def _receive(self) -> None:
        while True:
            try:
                data, sender = self._udp.recvfrom(2048)
            except OSError:
                return
            if not data and sender[0] == self.address:
                return
            self.hits += 1

    def close(self) -> None:
        self._tcp.shutdown(socket.SHUT_RDWR)
        self._tcp.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:  # a blocked recvfrom hears of no close
            last.bind((self.address, 0))
            last.sendto(b"", (self.address, self.port))
        for thread in self._threads:
            thread.join(60)
        self._udp.close()


class Room:
    """The browser tools over a new workspace, with names that lead to this machine: `*.example` to 127.0.0.1."""

    Reply = Reply

    def __init__(self, folder: Path, settings: BrowserSettings = SETTINGS, **more: Any) -> None:
        self.stack = ExitStack()
        self.ports: set[int] = set()
        self.domains: tuple[str, ...] = ()
        self.proxy: str | None = None
        (folder / "work").mkdir(parents=True)
        self.root = folder / "work"
        self.workspace = Workspace(self.root)
        self.stack.callback(self.workspace.close)
        self.state = StateFolder.for_workspace(self.root, folder / "state")
        journal = Journal(self.state, self.workspace)
        self.stack.callback(journal.close)
        closers: list[Callable[[], object]] = []
        self.ends: list[Callable[[str | None], object]] = []
        given: dict[str, Any] = {"closers": closers, "ends": self.ends, "lacking": [], **more}
        tools = browser_tools(self.workspace, journal, self.guard, settings, **given)
        self.registry = ToolRegistry(tools)
        self.engine: Any = closers[0].__self__ if closers else None  # type: ignore[attr-defined]
        for close in closers:
            self.stack.callback(close)

    async def _look_up(self, name: str, seconds: float) -> tuple[Address, ...]:
        if name.endswith(".inside.example"):
            return (ip_address("127.0.0.9"),)
        if name.endswith(".example"):
            return (ip_address(HERE),)
        raise AddressRefused(f"{name} does not resolve", "address:unresolved")

    def guard(self) -> AddressGuard:
        settings = GuardSettings(
            tuple(f"{HERE}:{port}" for port in self.ports), tuple(self.ports), self.domains, self.proxy
        )
        return AddressGuard(settings, self._look_up)

    def site(self, answer: Callable[[Got], Reply] | Mapping[str, Reply | str]) -> Site:
        def by_path(got: Got) -> Reply:
            found = answer.get(got.path.partition("?")[0], Reply("no such page", status=404))  # type: ignore[union-attr]
            return Reply(found) if isinstance(found, str) else found

        site = Site(answer if callable(answer) else by_path)
        self.stack.callback(site.close)
        self.ports.add(site.port)
        return site

    def trap(self) -> Trap:
        trap = Trap()
        self.stack.callback(trap.close)
        self.ports.add(trap.port)  # the port alone is no reason to refuse it
        return trap

    async def call(self, tool: str, session: str = "s", **arguments: Any) -> ToolOutput:
        return await self.registry.execute(tool, arguments, ToolContext(session_id=session, call_id="c"))

    async def ok(self, tool: str, session: str = "s", **arguments: Any) -> str:
        output = await self.call(tool, session, **arguments)
        assert not output.is_error, output.for_llm
        return output.for_llm

    async def refused(self, tool: str, session: str = "s", **arguments: Any) -> str:
        output = await self.call(tool, session, **arguments)
        assert output.is_error, output.for_llm
        return output.for_llm


def ref_of(text: str, said: str) -> str:
    """The ref of the first line of a snapshot that begins so: `button "Save"`."""
    for line in text.splitlines():
        if line.lstrip(" -").startswith(said) and "[ref=" in line:
            return line.partition("[ref=")[2].partition("]")[0]
    raise AssertionError(f"{said} is not in:\n{text}")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    if LACKING:
        pytest.skip(f"no browser here: {LACKING}")
    made = Room(tmp_path)
    with made.stack:
        yield made


@pytest.fixture(scope="module")
def room_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """One browser for all tests of a module; each takes a session of its own, or closes what it opened."""
    if LACKING:
        pytest.skip(f"no browser here: {LACKING}")
    made = Room(tmp_path_factory.mktemp("browser"))
    with made.stack:
        yield made


@pytest.fixture
def room_with(tmp_path: Path) -> Iterator[Callable[..., Room]]:
    if LACKING:
        pytest.skip(f"no browser here: {LACKING}")
    with ExitStack() as stack:

        def make(settings: BrowserSettings = SETTINGS, **more: Any) -> Room:
            made = Room(tmp_path / str(len(list(tmp_path.iterdir()))), settings, **more)
            stack.enter_context(made.stack)
            return made

        yield make
