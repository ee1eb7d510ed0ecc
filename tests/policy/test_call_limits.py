"""How many calls a run may make."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from toolcrib import Toolbox, ToolContext, ToolRegistry, tool
from toolcrib.config import load_settings
from toolcrib.core.tool import FunctionTool
from toolcrib.policy.call_limits import CallLimits

ran: list[str] = []


@tool(category="memory")
async def think(about: str) -> str:
    """Think."""
    ran.append(about)
    return about


@tool(category="memory")
async def recall() -> str:
    """Recall."""
    return "nothing"


def opened(tmp_path: Path, limits: dict[str, Any]) -> Any:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    config = tmp_path / "toolcrib.json"
    config.write_text(json.dumps({"limits": limits}))
    ran.clear()
    return Toolbox.open(settings=load_settings(workspace, config=config), tools=[think, recall])


async def test_a_run_ends_at_its_limit_and_a_message_begins_another(tmp_path: Path) -> None:
    async with opened(tmp_path, {"calls": 2}) as box:
        ctx, other = ToolContext(session_id="a"), ToolContext(session_id="b")
        outs = [await box.call("think", {"about": str(n)}, ctx) for n in range(3)]
        assert [out.error_kind for out in outs] == [None, None, "denied"]
        assert "limits.calls" in outs[2].for_llm
        assert ran == ["0", "1"]
        assert not (await box.call("think", {"about": "b"}, other)).is_error
        box.new_turn("a")
        assert not (await box.call("think", {"about": "3"}, ctx)).is_error


async def test_a_limit_by_tool(tmp_path: Path) -> None:
    async with opened(tmp_path, {"per_tool": {"thi*": 1}}) as box:
        assert not (await box.call("think", {"about": "x"})).is_error
        assert (await box.call("think", {"about": "y"})).error_kind == "denied"
        assert not (await box.call("recall")).is_error
        assert not box.policy.clears(think)
        assert box.policy.clears(recall)


def test_a_limit_by_another_name_of_the_tool() -> None:
    named = FunctionTool(lambda args: None, name="exec", category="memory", names=("shell",))
    limits = CallLimits(per_tool={"shell": 1})
    assert limits.touches(named)
    assert limits.count(named, ToolContext()) is None
    assert "per_tool.shell" in (limits.count(named, ToolContext()) or "")


async def test_concurrent_calls_do_not_slip_through(tmp_path: Path) -> None:
    async with opened(tmp_path, {"calls": 5}) as box:
        outs = await asyncio.gather(*(box.call("think", {"about": str(n)}) for n in range(20)))
        assert sum(not out.is_error for out in outs) == 5
        assert len(ran) == 5


def test_no_limit_touches_nothing() -> None:
    assert not CallLimits().touches(think)


def test_a_tool_counts_under_every_name_it_has_or_had() -> None:
    named = FunctionTool(lambda: "", name="exec", names=("shell",), category="memory")
    renamed = ToolRegistry([named]).view(prefix="my_").require("my_exec")
    for pattern in ("exec", "shell", "my_*"):
        limits = CallLimits(per_tool={pattern: 1})
        assert limits.touches(renamed), pattern
        assert limits.count(renamed, ToolContext()) is None
        assert limits.count(renamed, ToolContext()) is not None, pattern


def test_a_run_goes_on_in_another_process_and_ends_with_the_next_message() -> None:
    asked, worker = CallLimits(3), CallLimits(3)
    ctx = ToolContext(session_id="s")
    assert [asked.count(think, ctx) for _ in range(2)] == [None, None]
    carried = json.loads(json.dumps(asked.carried("s")))
    worker.carry_on("s", carried)
    assert worker.count(think, ctx) is None
    worker.carry_on("s", carried)  # a second job of the same run
    assert "limits.calls" in str(worker.count(think, ctx))
    asked.reset("s")
    assert asked.count(think, ctx) is None
    worker.carry_on("s", asked.carried("s"))
    assert worker.count(think, ctx) is None
    asked.carry_on("s", carried)  # a job of an earlier run
    assert [asked.count(think, ctx) for _ in range(2)] == [None, None]
    asked.carry_on("s", carried)
    assert asked.count(think, ctx) is not None


def test_a_hostile_run_of_a_job_is_no_error() -> None:
    limits, ctx = CallLimits(2), ToolContext(session_id="s")
    for carried in {}, {"": "x", "\0": []}, {"\0": float("nan"), "": None}, {"a": {}}:
        limits.carry_on("s", carried)
        limits.count(think, ctx)
    assert limits.count(think, ctx) is not None
