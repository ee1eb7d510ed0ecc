"""What a gateway passes on beside tools is judged, recorded, kept apart by session, and without secrets."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitResult,
    EmptyResult,
    PromptReference,
    ResourceUpdatedNotification,
    SetLevelRequest,
    SetLevelRequestParams,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)

from toolcrib.core.wings import WINGS
from toolcrib.serve.mcp import McpServer
from toolcrib.toolbox import Toolbox

from ...waiting import Searched, until

RAW = Path(__file__).parents[2] / "sources" / "mcp" / "servers" / "raw.py"
Connect = Callable[..., Client]
OFFERS = {"resources": ["note://1"], "templates": ["note://{n}"], "prompts": ["greet"]}


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`given(**settings)`: what opens a toolbox with one server that has tools, resources and prompts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()

    def write(offers: Any = OFFERS, **settings: Any) -> dict[str, Any]:
        behaviour = {"tools": ["echo", "notify", "log", "offer"], "offers": offers}
        server = {"command": sys.executable, "args": ["-S", str(RAW), json.dumps(behaviour)], **settings}
        path = tmp_path / "settings.json"
        path.write_text(json.dumps({"mcpServers": {"raw": server}}))
        return {"workspace": tmp_path / "work", "config": path, "builtin": False, "start_servers": False}

    return write


def rows(box: Toolbox) -> list[tuple[str, str]]:
    """Tool and outcome of every call in the record."""
    box.audit.flush()
    with closing(sqlite3.connect(box.state.record_db)) as db:
        return db.execute("SELECT tool, arguments FROM record ORDER BY rowid").fetchall()


async def test_what_is_read_is_recorded(given: Any, connect: Connect, era: str) -> None:
    async with Toolbox.open(**given()) as box:
        async with connect(box, era) as client:
            assert [each.uri for each in (await client.list_resources()).resources] == ["note://1"]
            read: Any = await client.read_resource("note://7")
            assert [(each.uri, each.text) for each in read.contents] == [("note://7", "what note://7 says")]
            filled: Any = await client.get_prompt("mcp_raw_greet", {"who": "Ann"})
            assert [(each.role, each.content.text) for each in filled.messages] == [("assistant", '{"who": "Ann"}')]
            assert filled.meta["ifc"]["integrity"] == "untrusted"
            completed = await client.complete(PromptReference(name="mcp_raw_greet"), {"name": "who", "value": "A"})
            assert completed.completion.values == ["A!"]
        found = rows(box)
    assert ("mcp_raw_resources", '{"uri":"note://7"}') in found
    assert ("mcp_raw_prompts", '{"name":"greet","arguments":{"who":"Ann"}}') in found
    assert len(found) == 2, "lists and completion are no calls"


async def test_a_tool_for_nothing_is_not_listed(given: Any, connect: Connect, era: str) -> None:
    settings = given({"prompts": ["greet"]}, category="memory")
    for _ in range(2):  # asked, and then known from before
        async with Toolbox.open(**settings) as box, connect(box, era) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            assert "mcp_raw_prompts" in names
            assert "mcp_raw_resources" not in names
            assert "mcp_raw_resources" not in [each.name for each in box.registry.search("list resources", 20)]
            read: Any = await client.read_resource("note://7")
            assert read.contents[0].text == "what note://7 says", "an address may be known from elsewhere"
    async with Toolbox.open(**settings) as box, connect(box, era) as client:
        await client.call_tool("mcp_raw_offer", {"kind": "resources", "word": "note://1"})
        await until(lambda: "mcp_raw_resources" in [each.name for each in box.registry.listed()])


async def test_what_asks_waits_for_a_yes(given: Any, connect: Connect, era: str) -> None:
    asked: list[str] = []

    async def yes(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with Toolbox.open(**given(category="shell")) as box:
        async with connect(box, era) as client:
            with pytest.raises(MCPError, match="toolcrib approvals approve ap_") as refused:
                await client.read_resource("note://1")
            assert refused.value.error.data["toolcrib/error"] == "pending"
        async with connect(box, era, yes) as client:
            ref = PromptReference(name="mcp_raw_greet")
            completed = await client.complete(ref, {"name": "who", "value": "A"})
            assert completed.completion.values == [], "nothing is sent to a server that is asked about, unasked"
            read: Any = await client.read_resource("note://2")
            assert read.contents[0].text == "what note://2 says"
    assert len(asked) == 1
    assert "note://2" in asked[0]


async def test_what_is_denied_is_not_there(given: Any, connect: Connect, era: str) -> None:
    async with Toolbox.open(**given()) as box:
        box.rules.add("mcp__raw__resources", "deny", "test")
        async with connect(box, era) as client:
            assert (await client.list_resources()).resources == []
            assert (await client.list_resource_templates()).resource_templates == []
            with pytest.raises(MCPError, match="Resource not found") as refused:
                await client.read_resource("note://1")
            assert refused.value.error.code == (-32602 if era == "2026-07-28" else -32002)
            assert [each.name for each in (await client.list_prompts()).prompts] == ["mcp_raw_greet"]


async def test_no_secret_is_passed_on(given: Any, connect: Connect, era: str) -> None:
    async with Toolbox.open(**given()) as box:
        box.redactor.grant("TOKEN", "sesame-open-up")
        async with connect(box, era) as client:
            read: Any = await client.read_resource("note://sesame-open-up")
            filled: Any = await client.get_prompt("mcp_raw_greet", {"who": "sesame-open-up"})
            ref = PromptReference(name="mcp_raw_greet")
            completed = await client.complete(ref, {"name": "who", "value": "sesame-open-up"})
    for said in (read, filled, completed):
        assert "sesame-open-up" not in said.model_dump_json()


async def test_a_long_answer_is_searched_for_secrets_while_other_requests_go_on(
    given: Any, connect: Connect, era: str
) -> None:
    async with Toolbox.open(**given()) as box, connect(box, era) as client:
        await client.read_resource("note://1")
        box.registry.stages.redact = searched = Searched()
        assert (await client.read_resource("note://" + "x" * 400_000)).contents
        assert searched.on_loop == {False}


async def test_a_wrong_request_is_an_error_of_the_protocol(given: Any, connect: Connect, era: str) -> None:
    async with Toolbox.open(**given()) as box, connect(box, era) as client:
        for work in (
            client.get_prompt("nothing"), client.list_prompts(cursor="x"),
            client.complete(PromptReference(name="nothing"), {"name": "who", "value": ""}),
        ):  # fmt: skip
            with pytest.raises(MCPError):
                await work
        assert (await client.read_resource("note://1")).contents


async def test_a_server_that_is_gone_is_an_error(given: Any, connect: Connect, era: str) -> None:
    async with Toolbox.open(**given()) as box, connect(box, era) as client:
        await client.list_resources()
        await box.mcp.disconnect("raw")
        assert (await client.session.list_resources()).resources == []  # past what the client keeps
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("note://1")


async def test_only_who_subscribed_is_told(given: Any, connect: Connect) -> None:
    def heard(into: list[str]) -> Any:
        async def hear(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                into.append(str(message.params.uri))

        return hear

    first: list[str] = []
    second: list[str] = []
    async with Toolbox.open(**given(category="memory")) as box:
        server = McpServer(box)
        async with (
            connect(server, "legacy", message_handler=heard(first)) as one,
            connect(server, "legacy", message_handler=heard(second)) as two,
        ):
            await subscribe(one, "note://1")
            await subscribe(one, "note://1")  # twice is once
            await subscribe(two, "note://2")
            for uri in ("note://1", "note://2", "note://3"):
                await changed(two, uri)
            await until(lambda: bool(first) and bool(second))
            undo = UnsubscribeRequest(params=UnsubscribeRequestParams(uri="note://1"))
            await one.session.send_request(undo, EmptyResult)
            await changed(two, "note://1")
            await changed(two, "note://2")
            await until(lambda: len(second) == 2)
        assert (first, second) == (["note://1"], ["note://2", "note://2"])
        await until(lambda: not box.mcp._servers["raw"].subscriptions._uris)  # nobody is left to be told


async def subscribe(client: Client, uri: str) -> None:
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


async def level(client: Client, level: Any) -> None:
    await client.session.send_request(SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult)


async def changed(client: Client, uri: str) -> None:
    note = {"method": "notifications/resources/updated", "params": {"uri": uri}}
    assert not (await client.call_tool("mcp_raw_notify", note)).is_error


async def test_each_session_hears_the_log_from_its_own_level_on(given: Any, connect: Connect) -> None:
    heard: list[Any] = []

    async def logged(params: Any) -> None:
        heard.append(params.data)

    async with (
        Toolbox.open(**given(category="memory")) as box,
        connect(box, "legacy", logging_callback=logged) as client,
    ):
        await client.call_tool("mcp_raw_log", {"say": "everything at first"})
        await level(client, "warning")
        await client.call_tool("mcp_raw_log", {"say": "only information"})
        await level(client, "info")
        await client.call_tool("mcp_raw_log", {"say": "information again"})
        await until(lambda: len(heard) == 2)
    assert heard == ["everything at first", "information again"]


async def test_a_box_without_servers_offers_tools_alone(box: Toolbox, connect: Connect, era: str) -> None:
    async with connect(box, era) as client:
        with pytest.raises(MCPError, match="not found"):
            await client.list_resources()
        if era == "legacy":
            assert client.server_capabilities.resources is None
            assert client.server_capabilities.logging is None


async def test_tools_are_served_without_the_gateway(
    given: Any, connect: Connect, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(WINGS, "gateway")
    async with Toolbox.open(**given(category="network_read")) as box:
        server = McpServer(box)
        assert server.gateway is None
        async with connect(server, era) as client:
            assert "mcp_raw_echo" in {tool.name for tool in (await client.list_tools()).tools}
            assert not (await client.call_tool("mcp_raw_echo", {"a": 1})).is_error
            assert client.server_capabilities.resources is None
            listed: Any = await client.call_tool("mcp_raw_resources", {})
            assert "note://1" in listed.content[0].text, "models reach them by a tool"
