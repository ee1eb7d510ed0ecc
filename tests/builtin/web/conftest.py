"""A web of its own for tests: real servers on this machine under public names, and the web tools that reach them."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.worker_process import Workers
from toolcrib.builtin.documents import DocumentReader
from toolcrib.builtin.settings import HttpSettings, WebSettings
from toolcrib.builtin.web import fetch as web_module
from toolcrib.builtin.web import web_tools
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import AddressRefused
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry

HERE = "127.0.0.1"


@dataclass(frozen=True)
class Reply:
    """What a server answers. A `str` body is sent as UTF-8."""

    body: bytes | str = b""
    type: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class Got:
    """What a server was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answers = Callable[[Got], Reply]


class Site:
    """A server that answers by a function and remembers what it was asked."""

    def __init__(self, answer: Answers, address: str = HERE, port: int = 0) -> None:
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
                time.sleep(reply.delay)
                body = reply.body.encode() if isinstance(reply.body, str) else reply.body
                self.send_response(reply.status)
                if reply.type is not None:
                    self.send_header("Content-Type", reply.type)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:  # whoever asked has had enough
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((address, port), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, path: str = "/", name: str = "site.example") -> str:
        return f"http://{name}:{self.port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Web:
    """The web tools, with names that lead to this machine: `*.example` to 127.0.0.1, `inside.test` to 127.0.0.9."""

    Reply = Reply

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.ports: set[int] = set()
        self.delay = 0.0
        self.looking = self.most = 0  # lookups under way, and the most there were
        self.kept: dict[str, str] = {}

    def site(self, answer: Answers | Mapping[str, Reply], address: str = HERE, port: int = 0) -> Site:
        if not callable(answer):
            pages = answer
            answer = lambda got: pages.get(got.path.partition("?")[0], Reply("no such page", status=404))  # noqa: E731
        site = Site(answer, address, port)
        self.stack.callback(site.close)
        self.ports.add(site.port)
        return site

    def page(self, body: bytes | str, type: str | None = "text/html; charset=utf-8", **more: Any) -> Site:  # noqa: A002
        return self.site(lambda _: Reply(body, type, **more))

    async def _look_up(self, name: str, seconds: float) -> tuple[Address, ...]:
        self.looking += 1
        self.most = max(self.most, self.looking)
        await asyncio.sleep(self.delay)
        self.looking -= 1
        if name == "inside.test":
            return (ip_address("127.0.0.9"),)
        if name.endswith(".example"):
            return (ip_address(HERE),)
        raise AddressRefused(f"{name} does not resolve", "address:unresolved")

    def guard(self, **more: Any) -> AddressGuard:
        settings = GuardSettings((HERE,), tuple(self.ports), **more)
        return AddressGuard(settings, self._look_up)

    def keep(self, call_id: str, name: str, text: str) -> str:
        self.kept[name] = text
        return f"/spill/{name}"

    def registry(
        self, settings: WebSettings | HttpSettings | None = None, guard: AddressGuard | None = None, **more: Any
    ) -> ToolRegistry:
        closers: list[Callable[[], object]] = []
        chosen = guard or self.guard()
        web = settings if isinstance(settings, WebSettings) else None
        http = settings if isinstance(settings, HttpSettings) else None
        tools = web_tools(
            lambda: chosen, web, http, keep=self.keep, closers=closers, **{"documents": DocumentReader(), **more}
        )  # fmt: skip
        for close in closers:
            self.stack.callback(close)
        return ToolRegistry(tools)

    async def call(self, tool: str, settings: WebSettings | HttpSettings | None = None, **arguments: Any) -> ToolOutput:
        return await self.registry(settings).execute(tool, arguments, ToolContext(session_id="s", call_id="c"))

    async def fetch(
        self, url: str, settings: WebSettings | HttpSettings | None = None, **arguments: Any
    ) -> dict[str, Any]:
        output = await self.call("web_fetch", settings, url=url, **arguments)
        assert not output.is_error, output.for_llm
        return json.loads(output.for_llm)

    @staticmethod
    def inner(fetched: Mapping[str, Any]) -> str:
        """The text of a fetched page without the marks around it."""
        first, _, rest = fetched["text"].partition("\n")
        text, _, last = rest.rpartition("\n")
        assert first == last
        return text

    async def refused(self, tool: str, settings: WebSettings | HttpSettings | None = None, **arguments: Any) -> str:
        output = await self.call(tool, settings, **arguments)
        assert output.is_error, output.for_llm
        return output.for_llm


@pytest.fixture(scope="session")
def extraction() -> Iterator[Workers]:
    """The processes that read pages, for all tests: to start one for each test takes most of its time."""
    workers = Workers(web_module._WORKER)
    close, workers.close = workers.close, lambda: None  # type: ignore[method-assign]
    yield workers
    close()


@pytest.fixture
def web(extraction: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(web_module, "Workers", lambda _: extraction)
    room = Web()
    with room.stack:
        yield room
