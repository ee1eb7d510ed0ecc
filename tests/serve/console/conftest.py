"""A console that listens, in a thread of its own; a toolbox whose calls wait; and a real browser."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from toolcrib.boundary.sandbox.spec import DoctorFinding
from toolcrib.builtin.browser.launch import find_browser, missing, needs_no_sandbox
from toolcrib.builtin.settings import BrowserSettings
from toolcrib.config import TextToTrust, TrustStore
from toolcrib.config.files import read_config_file
from toolcrib.core.context import ToolContext
from toolcrib.core.tool import Tool, tool
from toolcrib.jobs.engine import JobEngine
from toolcrib.jobs.host import jobs_file
from toolcrib.jobs.opening import open_engine
from toolcrib.jobs.placing import schedules_of
from toolcrib.record.approvals import local_records
from toolcrib.record.connection import Where
from toolcrib.record.journal import Journal
from toolcrib.record.rows import ApprovalRow
from toolcrib.serve.console import ConsoleSources, NewLink, serve_console
from toolcrib.toolbox import Toolbox

LACKING = missing(BrowserSettings())


@dataclass
class Answer:
    """What the console answered."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Open:
    """A console that listens."""

    new_link: NewLink
    cookie: str = ""
    base: str = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.new_link().partition("#")[0]

    @property
    def port(self) -> int:
        port = urlsplit(self.base).port
        assert port is not None
        return port

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, name: str, given: dict[str, str] | None = None, **headers: str) -> Answer:
        """Send one request, with the cookie if there is one. `Sec_Fetch_Site` is the header Sec-Fetch-Site."""
        body = None if given is None else urlencode(given)
        usual = {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
        if self.cookie:
            usual["Cookie"] = self.cookie
        sent = {**usual, **{key.replace("_", "-"): value for key, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            path = name if name.startswith("/") else urlsplit(self.base).path + name
            connection.request(method, path, body, {key: value for key, value in sent.items() if value})
            got = connection.getresponse()
            found = {key.lower(): value for key, value in got.getheaders()}
            return Answer(got.status, found, got.read().decode())
        finally:
            connection.close()

    def enter(self, *, read_only: bool = False) -> None:
        """Open a link, and keep the cookie."""
        self.cookie = ""
        got = self.ask("POST", "enter", {"link": self.new_link(read_only=read_only).partition("#")[2]})
        assert got.status == 303, got
        self.cookie = got.headers["set-cookie"].partition(";")[0]

    def form(self) -> str:
        """The secret of this browser's forms."""
        text = self.ask("GET", "rules?rule=none").text
        return text.partition('name="form" value="')[2].partition('"')[0]


@dataclass
class Room:
    """A toolbox with a tool that asks first, and the file with a line for each of its runs."""

    box: Toolbox
    ran: Path
    sources: ConsoleSources

    @property
    def runs(self) -> list[str]:
        return self.ran.read_text().splitlines() if self.ran.exists() else []

    def ask(self, what: str = "a rocket", session: str | None = "s", **ctx: Any) -> ApprovalRow:
        """Call the tool; its request waits."""
        output = self.box.call_sync("launch", {"what": what}, ToolContext(session_id=session, **ctx))
        assert output.error_kind == "pending", output
        return self.row(output.meta["approval_id"])

    def row(self, ident: str) -> ApprovalRow:
        row = self.box.approvals.get(ident)
        assert row is not None
        return row


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    ran = tmp_path / "ran"
    with Toolbox.open(workspace=tmp_path / "work", builtin=False, tools=[launching(ran)]) as box:
        yield Room(box, ran, sources_of(box))


def launching(ran: Path) -> Tool:
    """A tool that asks first, and writes what it ran into a file."""

    @tool(category="destructive", preview=lambda args, ctx: f"would launch {args['what']}")
    def launch(what: str) -> str:
        """Launch something."""
        with ran.open("a") as file:
            file.write(what + "\n")
        return f"launched {what}"

    return launch


def findings() -> list[DoctorFinding]:
    fine = DoctorFinding("sandbox", True, "<b>works</b>")
    return [fine, DoctorFinding("rg", False, "not found", "install it", needed=False)]


def sources_of(box: Toolbox) -> ConsoleSources:
    @contextmanager
    def journal() -> Iterator[Journal]:
        opened = Journal(box.state, box.workspace)
        yield opened
        opened.close()

    @asynccontextmanager
    async def jobs() -> AsyncIterator[tuple[JobEngine, Where]]:
        engine = open_engine(str(jobs_file(box.state.path)))
        yield engine, box.state.record
        await engine.aclose()

    def untrusted() -> list[TextToTrust]:
        files = [read_config_file(path) for path in Path(box.workspace.root).glob("*.toml")]
        texts = [TextToTrust(file, "all of it counts") for file in files]
        return [each for each in texts if TrustStore().status(each.file) != "trusted"]

    return ConsoleSources(
        local_records, lambda: box.state, journal, lambda: nullcontext(box), lambda: nullcontext(box), findings,
        jobs=jobs, schedules=lambda: closing(schedules_of(box)), untrusted=untrusted,
    )  # fmt: skip


def listening(sources: ConsoleSources, port: int = 0) -> Iterator[Open]:
    """Serve it in a thread with a loop of its own."""
    ready = threading.Event()
    found: list[Any] = []

    def started(new_link: NewLink) -> None:
        found.append(new_link)
        ready.set()

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        found.extend([asyncio.get_running_loop(), task])
        try:
            await serve_console(sources, "127.0.0.1", port, started=started, poll=0.02)
        except asyncio.CancelledError:
            return

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    assert ready.wait(60)
    loop, task, new_link = found
    try:
        yield Open(new_link)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)


@pytest.fixture
def console(room: Room) -> Iterator[Open]:
    yield from listening(room.sources)


@pytest.fixture(scope="session")
def launched() -> Iterator[Any]:
    """One browser for all files of a process, and its loop."""
    if LACKING:
        pytest.skip(f"no browser here: {LACKING}")
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium-headless-shell") or str(find_browser())  # it takes a fourth of the time
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, chromium_sandbox=not needs_no_sandbox())
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def chromium(launched: Any) -> Iterator[Any]:
    browser, loop = launched
    asyncio._set_running_loop(loop)  # Playwright leaves it set, so that no other test could run a loop
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture
def page(chromium: Any, console: Open) -> Iterator[Any]:
    """A page that opened a link. What its scripts logged, and what its policy refused, fails the test."""
    context = chromium.new_context()
    context.set_default_timeout(20_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.goto(console.new_link())
    page.wait_for_url("**/inbox")
    assert all("401" in fault for fault in faults), faults  # the entrance
    faults.clear()
    yield page
    context.close()
    assert faults == []
