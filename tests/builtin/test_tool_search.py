from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.call import ToolCall
from toolcrib.core.context import ToolContext
from toolcrib.core.interfaces import Hook
from toolcrib.core.tool import Tool, ToolOrigin
from toolcrib.toolbox import Toolbox


class Thing(Tool):
    category: Any = "memory"
    categorized = True

    def __init__(self, n: int) -> None:
        colour = ("red", "green", "blue")[n % 3]
        self.name, self.source = f"mcp_paint_{n}", "mcp:paint"
        self.origin = ToolOrigin("mcp", "paint", f"{n}")
        self.description = f"Paint fence number {n} {colour}."
        self.parameters = {"type": "object", "properties": {"coats": {"type": "integer"}}, "required": ["coats"]}

    async def execute(self, coats: int) -> str:
        return f"{self.name}: {coats}"


class Erase(Thing):
    category = "destructive"


@pytest.fixture
async def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Toolbox]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    erase = Erase(99)
    erase.description = "Burn the fence down."
    async with Toolbox.open(workspace=tmp_path / "work", tools=[*map(Thing, range(60)), erase]) as box:
        yield box


def shown(box: Toolbox, session: str | None = None) -> list[str]:
    return [body["name"] for body in box.definitions("flat", session_id=session)]


async def test_searching_shows_a_session_what_it_found(box: Toolbox) -> None:
    before = shown(box)
    assert {"search_tools", "call_tool", "read_file"} <= set(before)
    assert not any(name.startswith("mcp_") for name in before)
    told = str(
        await box.call("search_tools", {"query": "paint fence 7 green", "limit": 1}, ToolContext(session_id="s"))
    )
    assert told.startswith("mcp_paint_7: Paint fence number 7 green.")
    assert '"required":["coats"]' in told
    assert [name for name in shown(box, "s") if name not in before] == ["mcp_paint_7"]
    assert shown(box, "t") == before


async def test_the_description_says_what_is_behind_it(box: Toolbox) -> None:
    assert "61 more tools are not listed: paint (61)" in box.registry.require("search_tools").description


async def test_nothing_found_is_said(box: Toolbox) -> None:
    output = await box.call("search_tools", {"query": "zeppelin"})
    assert not output.is_error
    assert "No tool fits 'zeppelin'" in str(output)


async def test_what_a_rule_hides_is_never_found(box: Toolbox) -> None:
    box.rules.add("mcp_paint_7", "deny", "session")
    told = str(await box.call("search_tools", {"query": "paint fence 7 green", "limit": 20}))
    assert "mcp_paint_7:" not in told
    assert "60 more tools" in box.registry.require("search_tools").description
    output = await box.call("call_tool", {"name": "mcp_paint_7", "arguments": {"coats": 1}})
    assert output.error_kind == "denied"


async def test_call_tool_is_the_call_it_names(box: Toolbox) -> None:
    assert str(await box.call("call_tool", {"name": "mcp_paint_7", "arguments": {"coats": 2}})) == "mcp_paint_7: 2"
    assert (
        str(await box.call("call_tool", '{"name": "mcp_paint_7", "arguments": "{\\"coats\\": 3}"}')) == "mcp_paint_7: 3"
    )
    outputs = await box.call_many(
        [{"id": "1", "name": "call_tool", "arguments": {"name": "mcp_paint_8", "arguments": {"coats": 1}}}]
    )
    assert str(outputs[0]) == "mcp_paint_8: 1"
    box.audit.flush()
    assert {row["tool"] for row in box.audit.query()} == {"mcp_paint_7", "mcp_paint_8"}


async def test_call_tool_is_judged_as_what_it_calls(box: Toolbox) -> None:
    output = await box.call("call_tool", {"name": "mcp_paint_99", "arguments": {"coats": 1}})
    assert output.error_kind == "pending"
    check = await box.check("call_tool", {"name": "exec", "arguments": {"command": "rm -rf /"}})
    assert (check.verdict, check.category) == ("deny", "shell")
    check = await box.check("call_tool", {"name": "mcp_paint_1", "arguments": {"coats": 1}})
    assert (check.verdict, check.category) == ("allow", "memory")


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"name": "nope"}, "not_found", "Tool not found: 'nope'"),
        ({"name": "mcp_paint_7", "arguments": {"coat": 1}}, "invalid", "did you mean coats"),
        ({"name": "mcp_paint_7", "arguments": [1]}, "invalid", "arguments"),
        ({"nme": "mcp_paint_7"}, "invalid", "did you mean name"),
        ({"name": "call_tool", "arguments": {"name": "mcp_paint_7"}}, "invalid", "not call_tool"),
        ({"name": ""}, "invalid", "name"),
        ("{", "invalid", "call_tool"),
        ([], "invalid", "call_tool"),
    ],
)
async def test_what_call_tool_cannot_call(box: Toolbox, arguments: Any, kind: str, words: str) -> None:
    output = await box.call("call_tool", arguments)
    assert output.error_kind == kind
    assert words in str(output)
    check = await box.check("call_tool", arguments)
    assert check.verdict == "deny"


async def test_few_tools_need_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    async with Toolbox.open(workspace=tmp_path / "work", tools=[Thing(1)]) as box:
        assert "search_tools" not in box.registry
        assert "mcp_paint_1" in shown(box)


async def test_a_rule_may_deny_call_tool_itself(box: Toolbox) -> None:
    box.rules.add("call_tool", "deny", "session")
    assert "call_tool" not in shown(box)
    output = await box.call("call_tool", {"name": "mcp_paint_7", "arguments": {"coats": 1}})
    assert output.error_kind == "denied"
    assert (await box.check("call_tool", {"name": "mcp_paint_7", "arguments": {"coats": 1}})).verdict == "deny"


async def test_hooks_of_a_batch_see_what_is_meant(box: Toolbox) -> None:
    seen: list[str] = []

    class Watch(Hook):
        async def before_execute_tools(self, calls: Sequence[ToolCall]) -> None:
            seen.extend(call.name for call in calls)

    box.registry.add_hook(Watch())
    call = {"id": "1", "name": "call_tool", "arguments": {"name": "mcp_paint_8", "arguments": {"coats": 1}}}
    assert str((await box.call_many([call]))[0]) == "mcp_paint_8: 1"
    assert seen == ["mcp_paint_8"]
    (body,) = [body for body in box.definitions("mcp") if body["name"] == "call_tool"]
    assert body["annotations"] == {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
