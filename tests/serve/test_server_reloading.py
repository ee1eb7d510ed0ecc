"""The configuration is read again while clients are connected: what is new counts, what is wrong changes nothing."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from mcp_types import EmptyResult, SubscribeRequest, SubscribeRequestParams

from toolcrib.config import Settings, load_settings
from toolcrib.core.tool import tool
from toolcrib.serve import server_reloading
from toolcrib.serve.http import tokens as tokens_module
from toolcrib.toolbox import Toolbox

from ..waiting import pass_time, until
from .test_callers import ALICE, BOB, client, text, token
from .test_http import TOKEN, serving

HOSTILE = Path(__file__).parents[1] / "sources" / "mcp" / "servers" / "hostile.py"
RAW = HOSTILE.with_name("raw.py")


class Place:
    """A workspace, the user's own configuration, and a toolbox that was opened with both."""

    def __init__(self, work: Path, config: Path) -> None:
        self.work, self.config = work, config / "toolcrib" / "config.toml"
        self.config.parent.mkdir(parents=True)
        self.box: Any = None

    def write(self, given: str) -> None:
        self.config.write_text(given, encoding="utf-8")

    def load(self) -> Settings:
        return load_settings(workspace=self.work)

    def open(self, *tools: Any) -> Toolbox:
        self.box = Toolbox.open(settings=self.load(), builtin=False, tools=tools, start_servers=False).__enter__()
        return self.box


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(server_reloading, "LOOK_SECONDS", 0.02)
    (tmp_path / "work").mkdir()
    found = Place(tmp_path / "work", tmp_path / "config")
    yield found
    if found.box is not None:
        found.box.close()


@tool(category="network_write")
async def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


def tokens(**values: str) -> str:
    made = [token(name, value) for name, value in values.items()]
    return "".join("[[serve.tokens]]\nname = '{name}'\nhash = '{hash}'\n".format(**each) for each in made)


@asynccontextmanager
async def reloaded(place: Place, **more: Any) -> AsyncIterator[str]:
    async with serving(place.box, reload=place.load, **more) as url:
        yield url


async def test_mode_and_rules_count_for_the_next_call_of_a_session(place: Place, era: str) -> None:
    place.write('mode = "autonomous"\n')
    box = place.open(send)
    async with reloaded(place) as url, client(url, era, TOKEN) as a:
        assert text(await a.call_tool("send", {"to": "x"})) == "sent to x"
        place.write('mode = "observer"\n')
        await until(lambda: box.policy.mode == "observer")
        assert "observer mode" in text(await a.call_tool("send", {"to": "x"}))
        place.write('mode = "assistant"\n[rules]\nallow = ["send"]\n')
        await until(lambda: box.rules.rules)
        assert text(await a.call_tool("send", {"to": "x"})) == "sent to x"
        place.write('mode = "assistant"\n[approval]\nnever_ask = true\n')
        await until(lambda: not box.rules.rules)
        assert "approval.never_ask" in text(await a.call_tool("send", {"to": "x"}))


async def test_a_wrong_configuration_changes_nothing(place: Place, caplog: pytest.LogCaptureFixture, era: str) -> None:
    place.write('mode = "observer"\n')
    box = place.open(send)
    wrong = (
        "mode = ", 'mode = "wild"\n', 'mode = "autonomous"\n[rules]\nallow = ["send(("]\n',
        'mode = "autonomous"\n[[serve.tokens]]\nname = "a"\nhash = "x"\n',
        'mode = "autonomous"\n[mcp_servers.a]\ncommand = 1\n',
    )  # fmt: skip
    async with reloaded(place) as url, client(url, era, TOKEN) as a:
        for given in wrong:
            caplog.clear()
            place.write(given)
            await until(lambda: "so the one before stays" in caplog.text)
            assert box.policy.mode == "observer"
            assert "observer mode" in text(await a.call_tool("send", {"to": "x"}))


async def test_tokens_come_and_go(place: Place, era: str) -> None:
    place.write(tokens(alice=ALICE))
    place.open(send)
    async with reloaded(place, token=None) as url, client(url, era, ALICE) as a:
        await a.list_tools()

        async def status(value: str) -> int:
            async with httpx2.AsyncClient() as http:
                return (await http.post(url, headers={"Authorization": f"Bearer {value}"}, json={})).status_code

        assert await status(BOB) == 401
        place.write(tokens(alice=ALICE, bob=BOB))
        async with asyncio.timeout(60):
            while await status(BOB) == 401:
                await asyncio.sleep(0.02)
        await a.list_tools()
        place.write("")
        async with asyncio.timeout(60):
            while await status(BOB) != 401:
                await asyncio.sleep(0.02)
        assert await status(ALICE) == 401, "without any token left, the server is closed and not open"


async def test_the_stream_of_a_removed_token_ends(place: Place) -> None:
    place.write(tokens(alice=ALICE, bob=BOB))
    place.open(send)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {ALICE}"}
    async with reloaded(place, token=None) as url, httpx2.AsyncClient(headers=headers, timeout=60) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        session = (await http.post(url, json=body)).headers["mcp-session-id"]
        async with http.stream("GET", url, headers={"Mcp-Session-Id": session}) as stream:
            assert stream.status_code == 200
            place.write(tokens(bob=BOB))
            async with asyncio.timeout(60):
                async for _ in stream.aiter_bytes():
                    pass


async def test_the_stream_of_an_expired_token_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=10)
    place.write(tokens(alice=ALICE) + f"expires = {end.isoformat()}\n")
    place.open(send)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {ALICE}"}
    async with reloaded(place, token=None) as url, httpx2.AsyncClient(headers=headers, timeout=None) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        session = (await http.post(url, json=body)).headers.get("mcp-session-id", "")
        async with http.stream("GET", url, headers={"Mcp-Session-Id": session}) as stream:
            assert stream.status_code == 200
            pass_time(601)
            async for _ in stream.aiter_bytes():
                pass
        monkeypatch.setattr(tokens_module, "time", SimpleNamespace(time=lambda: end.timestamp() + 1))
        assert (await http.post(url, json=body)).status_code == 401


async def test_servers_come_and_go_without_the_client(place: Place, caplog: pytest.LogCaptureFixture, era: str) -> None:
    def server(name: str, **more: str) -> str:
        lines = {"command": sys.executable, "category": "memory", **more}
        given = "".join(f"{key} = '{value}'\n" for key, value in lines.items())
        return f"[mcp_servers.{name}]\nargs = ['-S', '{place.work}/echo.py']\n{given}"

    hello = '{"text": "hello"}'
    outside = place.work.parent / "echo.py"
    outside.write_text(RAW.read_text())

    def outer(name: str, **more: str) -> str:
        return server(name, **more).replace(str(place.work / "echo.py"), str(outside))

    place.write(outer("one"))
    box = place.open()
    async with reloaded(place) as url, client(url, era, TOKEN) as a:

        async def names() -> list[str]:
            async with client(url, era, TOKEN) as fresh:
                return [each.name for each in (await fresh.list_tools()).tools]

        await until(lambda: "mcp_one_echo" in box.registry)
        assert text(await a.call_tool("mcp_one_echo", {"text": "hello"})) == hello
        place.write(outer("one") + outer("two"))
        await until(lambda: "mcp_two_echo" in box.registry)
        assert text(await a.call_tool("mcp_two_echo", {"text": "hello"})) == hello
        pid = box.mcp.servers["one"].pid
        place.write(outer("two", prefix="new_"))
        await until(lambda: "new_echo" in box.registry)
        assert not [name for name in await names() if not name.startswith("new_")]
        assert text(await a.call_tool("new_echo", {"text": "hello"})) == hello
        await until(lambda: not (Path("/proc") / str(pid)).exists())
        place.write(outer("two", prefix="new_") + server("inside"))
        (place.work / "echo.py").write_text(outside.read_text())
        await until(lambda: "wait for a restart: mcp_servers.inside" in caplog.text)
        assert "inside" not in box.mcp.servers, "its program could have been written by a tool: it waits for a restart"


async def test_resources_and_prompts_of_the_first_server_come_and_go(place: Place, era: str) -> None:
    script = place.work.parent / "server.json"
    say = {"say": [{"method": "notifications/resources/updated", "params": {"uri": "x://1"}}]}
    answers = {
        "resources/list": {"resources": [{"uri": "x://1", "name": "one"}]},
        "resources/read": {"contents": [{"uri": "x://1", "text": "what it says"}]},
        "prompts/list": {"prompts": [{"name": "p"}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "do it"}}]},
    }
    script.write_text(json.dumps({"answers": answers}))
    given = (
        f"[mcp_servers.one]\ncommand = '{sys.executable}'\nargs = ['-S', '{HOSTILE}', '{script}']\n"
        "category = 'memory'\n"
    )
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(type(message).__name__)

    place.write("")
    box = place.open()
    async with reloaded(place) as url, client(url, era, TOKEN, message_handler=hear) as a:
        await a.list_tools()
        place.write(given)
        await until(lambda: "mcp_one_do" in box.registry)
        assert [each.uri for each in (await a.list_resources()).resources] == ["x://1"]
        assert (await a.read_resource("x://1")).contents[0].text == "what it says"  # type: ignore[union-attr]
        assert [each.name for each in (await a.list_prompts()).prompts] == ["mcp_one_p"]
        assert "do it" in (await a.get_prompt("mcp_one_p")).model_dump_json()
        if era == "legacy":
            params = SubscribeRequestParams(uri="x://1")
            await a.session.send_request(SubscribeRequest(params=params), EmptyResult)
            await a.call_tool("mcp_one_do", say)
            await until(lambda: "ResourceUpdatedNotification" in heard)
            async with client(url, era, TOKEN) as fresh:
                assert fresh.server_capabilities.resources is not None
                assert fresh.server_capabilities.prompts is not None
        place.write("")
        await until(lambda: "mcp_one_do" not in box.registry)
        async with client(url, era, TOKEN) as fresh:  # others may keep a list for some seconds
            assert (await fresh.list_resources()).resources == []
            assert (await fresh.list_prompts()).prompts == []
        if era == "legacy":
            await until(lambda: "ResourceListChangedNotification" in heard)


async def test_a_project_that_is_not_trusted_never_loosens(place: Place) -> None:
    place.write('mode = "assistant"\n')
    box = place.open(send)
    async with reloaded(place):
        (place.work / "toolcrib.toml").write_text(
            'mode = "autonomous"\n[rules]\nallow = ["send"]\ndeny = ["other"]\n[mcp_servers.evil]\ncommand = "evil"\n'
            + tokens(evil=BOB)
        )
        await until(lambda: box.rules.rules)
        assert [(rule.verdict, rule.text) for rule in box.rules.rules] == [("deny", "other")]
        assert box.policy.mode == "assistant"
        assert box.settings.mcp_servers == {}
        assert box.settings.serve.tokens == ()
        (place.work / "toolcrib.toml").write_text('mode = "observer"\n')
        await until(lambda: box.policy.mode == "observer")


async def test_what_is_built_once_is_named(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.write("")
    box = place.open(send)
    async with reloaded(place):
        place.write('mode = "observer"\n[sandbox]\nbackend = "none"\n')
        await until(lambda: "wait for a restart: sandbox" in caplog.text)
        assert box.policy.mode == "observer"
        assert box.settings.sandbox.backend == "auto"


async def test_sighup_reads_secrets_again_and_ends_nothing(place: Place, forked_python: str) -> None:
    place.write(tokens(alice=ALICE))
    command = [forked_python, "-m", "toolcrib", "serve", "--http", "127.0.0.1:0", "--workspace", str(place.work)]
    server = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
        start_new_session=True,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        url = ""
        while not url:
            line = (await asyncio.wait_for(server.stderr.readline(), 60)).decode()
            url = (re.findall(r"http://\S+", line) or [""])[0]
        server.send_signal(signal.SIGHUP)
        line = ""
        while "configuration read again" not in line:
            line = (await asyncio.wait_for(server.stderr.readline(), 60)).decode()
        async with client(url, "2026-07-28", ALICE) as a:
            await a.list_tools()
    finally:
        with suppress(ProcessLookupError):
            server.terminate()
        await server.wait()
