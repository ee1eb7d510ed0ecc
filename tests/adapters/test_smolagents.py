"""Our tools in smolagents: the scenario, which it cannot pause, and agents that write code."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from smolagents import CodeAgent, ToolCallingAgent
from smolagents import Tool as SmolTool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model

from toolcrib import Tool, ToolContext, tool
from toolcrib.adapters.smolagents import smolagents_tools, tool_from_smolagents
from toolcrib.testing import FakeApprover, temporary_toolbox
from toolcrib.toolbox import Toolbox

from .scenario import CALLS, DONE, in_two_processes


class ScriptedSmolModel(Model):
    """Makes these calls, or writes these pieces of code, one after the other."""

    def __init__(self, steps: list[Any]) -> None:
        super().__init__()
        self.steps, self.read = list(steps), list[str]()

    def generate(self, messages: Any, **more: Any) -> ChatMessage:
        self.read = [json.dumps(each.dict(), default=str) for each in messages]
        step = self.steps.pop(0)
        if isinstance(step, str):
            return ChatMessage(MessageRole.ASSISTANT, step)
        ident, name, arguments = step
        call = ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), ident, "function")
        return ChatMessage(MessageRole.ASSISTANT, None, [call])


def end(text: str) -> tuple[str, str, dict[str, Any]]:
    return "end", "final_answer", {"answer": text}


def agent_of(box: Toolbox, steps: list[Any], context: ToolContext | None = None) -> Any:
    return ToolCallingAgent(smolagents_tools(box, context), ScriptedSmolModel(steps), verbosity_level=-1)


async def run(agent: Any, task: str = "Tidy up.", **more: Any) -> Any:
    return await asyncio.to_thread(agent.run, task, **more)


def observations(agent: Any) -> list[str]:
    return [
        str(step.error or step.observations) for step in agent.memory.steps if hasattr(step, "observations")
    ]  # an error is its observation


async def begin(box: Toolbox, folder: Path) -> None:
    """The model ends its answer with what it read: a person is needed."""
    agent = agent_of(box, [*CALLS[:4], end("It waits for approval.")])
    assert await run(agent) == "It waits for approval."
    (folder / "read.json").write_text(json.dumps(observations(agent)[:3]))
    assert "needs approval" in observations(agent)[3]


async def resume(box: Toolbox, folder: Path) -> list[str]:
    box.approvals.resolve(box.approvals.pending()[0]["id"], True, approver="smolagents")
    agent = agent_of(box, [*CALLS[3:], end(DONE)])
    assert await run(agent, "It is approved.") == DONE
    return [*json.loads((folder / "read.json").read_text()), *observations(agent)]


async def test_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_two_processes("smolagents", resume, tmp_path, monkeypatch, own_ids=True)


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    return f"dropped {table}"


async def test_a_person_at_the_toolbox_is_asked() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False, approve=FakeApprover("yes", "no")) as box:
        calls = [("c", "drop", {"table": "a"}), ("d", "drop", {"table": "b"}), end(DONE)]
        agent = agent_of(box, calls)
        assert await run(agent) == DONE
        yes, no = observations(agent)[:2]
        assert yes == "dropped a"
        assert "denied by user approval" in no


async def test_code_of_an_agent_calls_the_tools_by_place_and_by_name() -> None:
    code = "<code>\nfinal_answer(read_file('a.txt') + read_file(path='b.txt'))\n</code>"
    async with temporary_toolbox({"a.txt": "one\n", "b.txt": "two\n"}) as box:
        agent = CodeAgent(smolagents_tools(box), ScriptedSmolModel([code]), verbosity_level=-1)
        answer = await run(agent)
        assert "1| one" in answer
        assert "1| two" in answer


async def test_names_and_schemas_that_smolagents_does_not_know() -> None:
    schema = {
        "type": "object",
        "properties": {"any": {}, "several": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        "required": ["any"],
    }
    odd = Tool.from_schema("get-all", "Get all.", schema, lambda args: str(args), category="filesystem_read")
    async with temporary_toolbox(tools=[odd], builtin=False) as box:
        (made,) = smolagents_tools(box)
        assert made.name == "get_all"
        assert made.inputs["several"]["nullable"]
        assert made(any=1) == "{'any': 1}"


async def test_a_tool_of_smolagents_is_ours() -> None:
    class Divide(SmolTool):  # pyright: ignore
        name = "divide"
        description = "Divide."
        inputs: ClassVar[Any] = {
            "a": {"type": "integer", "description": "A."},
            "b": {"type": "any", "description": "B.", "nullable": True},
        }
        output_type = "integer"

        def forward(self, a: int, b: Any = 2) -> int:
            return a // b

    ours = tool_from_smolagents(Divide(), category="memory")
    async with temporary_toolbox(tools=[ours], builtin=False) as box:
        assert (await box.call("divide", {"a": "7"})).for_llm == "3"
        assert (await box.call("divide", {"a": 7, "b": 0})).error_kind == "exception"
        assert (await box.call("divide", {"b": 0})).error_kind == "invalid"
        assert (await box.call("divide", {"a": 7, "c": 0})).error_kind == "invalid"
