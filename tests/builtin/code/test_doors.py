"""Scripts through the doors of others: MCP clients that ask their user, and the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from toolcrib import Toolbox
from toolcrib.agent import Agent
from toolcrib.serve.mcp import McpServer
from toolcrib.testing import ScriptedModel

pytest.importorskip("pydantic_monty")

CODE = """
import asyncio
text = await read_file(path="a.txt")
await asyncio.gather(delete_file(path="a.txt"), delete_file(path="b.txt"))
"gone"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "work" / name).write_text(f"text of {name}\n")
    (tmp_path / "c.toml").write_text("[tools]\ncode = true\n")
    return tmp_path


def opened(folder: Path) -> Any:
    return Toolbox.open(folder / "work", config=folder / "c.toml")


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_client_asks_its_user_about_each_call(folder: Path, era: str) -> None:
    asked: list[str] = []
    steps: list[str | None] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message)

    async with opened(folder) as box:
        async with Client(McpServer(box).sdk, mode=era, elicitation_callback=answer) as client:
            result: Any = await client.call_tool("run_code", {"code": CODE}, progress_callback=progressed)
        rows = box.audit.query(tool="delete_file", outcome="ok")
    assert [block.text for block in result.content] == ["gone"]
    assert ["a.txt" in asked[0], "b.txt" in asked[1], len(asked)] == [True, True, 2]
    assert len(rows) == 2 and not list((folder / "work").iterdir())
    assert any("read_file" in (step or "") for step in steps), steps


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_no_at_a_client_is_for_the_script(folder: Path, era: str) -> None:
    code = "import asyncio\nasync def gone(path):\n    try:\n        await delete_file(path)\n"
    code += "    except PermissionError as e:\n        return str(e)\n"
    code += "await asyncio.gather(gone('a.txt'), gone('b.txt'))"

    async def answer(context: Any, params: Any) -> ElicitResult:
        content = {"decision": "deny", "reason": "keep it"} if "a.txt" in params.message else {"decision": "approve"}
        return ElicitResult(action="accept", content=content)

    async with opened(folder) as box:
        async with Client(McpServer(box).sdk, mode=era, elicitation_callback=answer) as client:
            result: Any = await client.call_tool("run_code", {"code": code})
        waited = box.audit.query(tool="run_code", outcome="pending")
    (text,) = [block.text for block in result.content]
    assert "keep it" in text and text.endswith("null]") and not result.is_error, text
    assert [each.name for each in (folder / "work").iterdir()] == ["a.txt"]
    assert len(waited) == (era != "legacy")  # both forms come together


async def test_the_agent_waits_with_its_script_and_goes_on(folder: Path) -> None:
    replies = [
        {"calls": [{"name": "run_code", "arguments": {"code": CODE}}]},
        {"text": "Both are gone.", "after": "gone"},
    ]
    async with opened(folder) as box, await Agent.open(box, ScriptedModel(replies)) as made:
        session = made.new_session()
        outcome = await made.run("delete both", session)
        assert outcome.state != "done" and (folder / "work" / "a.txt").exists()
        assert [waits["approval"] for waits in outcome.waiting] == [row["id"] for row in box.approvals.pending()]
    async with opened(folder) as box, await Agent.open(box, ScriptedModel(replies)) as made:
        for row in box.approvals.pending():
            assert box.approvals.resolve(row["id"], True, approver="me")
        outcome = await made.run(None, made.session(session.id))
        assert (outcome.state, outcome.text) == ("done", "Both are gone.")
        assert not list((folder / "work").iterdir())
        assert len(box.audit.query(tool="delete_file", outcome="ok")) == 2
