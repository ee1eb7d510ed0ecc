"""Our tools in the OpenAI Agents SDK: the scenario, and its answers in our approvals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolOutputImage,
    ToolOutputText,
    Usage,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from toolcrib import ImageBlock, ToolContext, ToolOutput, tool
from toolcrib.adapters.openai_agents import openai_agents_tools, question, tool_from_openai_agents
from toolcrib.core.errors import ToolDefinitionError
from toolcrib.testing import FakeApprover, temporary_toolbox
from toolcrib.toolbox import Toolbox

from .scenario import CALLS, DONE, in_two_processes

Calls = list[tuple[str, str, dict[str, Any]]]
CONFIG = RunConfig(tracing_disabled=True)


class ScriptedAgentsModel(Model):
    """Makes these calls, one after the other."""

    def __init__(self, calls: Calls = CALLS) -> None:
        self.calls = calls

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:  # noqa: A002
        items = [] if isinstance(input, str) else input
        done = sum(item.get("type") == "function_call_output" for item in items)
        if done == len(self.calls):
            text = ResponseOutputText(annotations=[], text=DONE, type="output_text")
            reply: Any = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            ident, name, arguments = self.calls[done]
            reply = ResponseFunctionToolCall(
                arguments=json.dumps(arguments), call_id=ident, name=name, type="function_call"
            )
        return ModelResponse(output=[reply], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def agent_of(box: Toolbox, calls: Calls = CALLS, context: ToolContext | None = None) -> Agent[Any]:
    return Agent("assistant", tools=openai_agents_tools(box, context), model=ScriptedAgentsModel(calls))


def texts(result: Any) -> list[str]:
    items = result.to_input_list()
    return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]


async def begin(box: Toolbox, folder: Path) -> None:
    result = await Runner.run(agent_of(box), "Tidy up.", run_config=CONFIG)
    (item,) = result.interruptions
    shown = await question(box, item.raw_item.call_id)
    assert shown is not None
    assert "b.txt" in shown["preview"]
    (folder / "state.json").write_text(result.to_state().to_string())


async def resume(box: Toolbox, folder: Path) -> list[str]:
    agent = agent_of(box)
    state = await RunState.from_string(agent, (folder / "state.json").read_text())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state, run_config=CONFIG)
    assert result.final_output == DONE
    return texts(result)


async def test_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_two_processes("openai_agents", resume, tmp_path, monkeypatch)


RAN: list[str] = []


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    RAN.append(table)
    return f"dropped {table}"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


DROP: Calls = [("c", "drop", {"table": "a"})]


async def test_a_no_is_in_the_record_and_the_next_call_asks_again() -> None:
    calls = [*DROP, ("d", "drop", {"table": "a"})]
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        agent = agent_of(box, calls)
        result = await Runner.run(agent, "Drop a.", run_config=CONFIG)
        state = result.to_state()
        state.reject(result.interruptions[0], rejection_message="not today")
        after = await Runner.run(agent, state, run_config=CONFIG)
        assert texts(after) == ["not today"]
        assert [item.raw_item.call_id for item in after.interruptions] == ["d"]
        newer, older = box.approvals.recent()
        assert (older["state"], older["answer"], older["approver"]) == ("denied", "not today", "openai-agents")
        assert (newer["state"], newer["call_id"]) == ("pending", "d")
    assert RAN == []


async def test_a_yes_to_all_calls_of_a_tool_is_a_yes_to_the_one_that_was_shown() -> None:
    calls = [*DROP, ("d", "drop", {"table": "b"}), ("e", "drop", {"table": "b"})]
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        agent = agent_of(box, calls)
        result = await Runner.run(agent, "Drop all.", run_config=CONFIG)
        state = result.to_state()
        state.approve(result.interruptions[0], always_approve=True)
        after = await Runner.run(agent, state, run_config=CONFIG)
        assert texts(after)[0] == "dropped a"
        assert all("needs approval" in text for text in texts(after)[1:])
    assert RAN == ["a"]


async def test_an_answer_from_elsewhere_is_used() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        agent = agent_of(box, DROP)
        result = await Runner.run(agent, "Drop a.", run_config=CONFIG)
        box.approvals.resolve(box.approvals.pending()[0]["id"], True, approver="somebody")
        state = result.to_state()
        state.approve(result.interruptions[0])  # the run goes on, and the answer that came first counts
        assert texts(await Runner.run(agent, state, run_config=CONFIG)) == ["dropped a"]
        assert box.approvals.recent()[0]["approver"] == "somebody"
    assert RAN == ["a"]


async def test_a_toolbox_that_asks_by_itself_interrupts_nothing() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False, approve=FakeApprover("yes")) as box:
        assert texts(await Runner.run(agent_of(box, DROP), "Drop a.", run_config=CONFIG)) == ["dropped a"]


async def test_a_tool_of_the_sdk_is_ours() -> None:
    @function_tool
    def divide(run: RunContextWrapper[Any], a: int, b: int) -> Any:
        """Divide.

        Args:
            a: What is divided.
        """
        assert run.context == "deps" or run.context is None
        return [ToolOutputText(text=str(a // b)), ToolOutputImage(image_url="data:image/png;base64,iVBORw0KGgo=")]

    @function_tool(needs_approval=True, failure_error_function=None)
    def asks() -> str:
        """Ask."""
        raise ValueError("why")

    ours = [tool_from_openai_agents(divide, category="memory"), tool_from_openai_agents(asks, category="memory")]
    async with temporary_toolbox(tools=ours, builtin=False, approve=(person := FakeApprover("yes"))) as box:
        done = await box.call("divide", {"a": "7", "b": 2}, ToolContext(deps="deps"))
        assert done.for_llm.startswith("3") and done.content[-1] == ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png")
        assert (await box.call("divide", {"a": 7, "b": 0})).error_kind == "tool"
        assert (await box.call("divide", {"a": 7})).error_kind == "invalid"
        assert "ValueError: why" in (await box.call("asks")).for_llm and person.asked == ["asks"]
    guarded = replace(asks, tool_input_guardrails=[object()])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ToolDefinitionError, match="guardrails"):
        tool_from_openai_agents(guarded)


async def test_errors_and_images_are_results() -> None:
    @tool(category="filesystem_read")
    def look() -> ToolOutput:
        """Look."""
        return ToolOutput("a picture", content=(ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png"),))

    calls: Calls = [("c", "look", {"x": 1}), ("d", "look", {})]
    async with temporary_toolbox(tools=[look], builtin=False) as box:
        wrong, shown = texts(await Runner.run(agent_of(box, calls), "Look.", run_config=CONFIG))
        assert "Invalid arguments for look" in wrong
        assert "a picture" in shown
        assert "data:image/png;base64,iVBORw0KGgo=" in shown
