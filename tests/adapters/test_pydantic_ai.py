"""Our tools in pydantic-ai: the scenario, and its answers in our approvals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    Tool,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolcrib import ImageBlock, ToolContext, ToolOutput, tool
from toolcrib.adapters.pydantic_ai import PydanticAiToolset, tool_from_pydantic_ai
from toolcrib.testing import temporary_toolbox
from toolcrib.toolbox import Toolbox

from .scenario import CALLS, DONE, in_two_processes

Calls = list[tuple[str, str, dict[str, Any]]]


def model_of(calls: Calls = CALLS) -> FunctionModel:
    """A model that makes these calls, one after the other."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(m, ModelResponse) for m in messages)
        if done == len(calls):
            return ModelResponse(parts=[TextPart(DONE)])
        ident, name, arguments = calls[done]
        assert name in {each.name for each in info.function_tools}
        return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id=ident)])

    return FunctionModel(reply)


def agent_of(box: Toolbox, calls: Calls = CALLS, context: ToolContext | None = None) -> Agent[Any, Any]:
    toolset = PydanticAiToolset(box, context)
    return Agent(model_of(calls), toolsets=[toolset], output_type=[str, DeferredToolRequests])


def texts(messages: list[ModelMessage]) -> list[str]:
    """What the model read of its calls."""
    return [str(p.content) for m in messages for p in m.parts if isinstance(p, ToolReturnPart | RetryPromptPart)]


async def begin(box: Toolbox, folder: Path) -> None:
    result = await agent_of(box).run("Tidy up.")
    assert isinstance(result.output, DeferredToolRequests)
    assert [each.tool_name for each in result.output.approvals] == ["delete_file"]
    assert "b.txt" in result.output.metadata["call_4"]["preview"]
    (folder / "messages.json").write_bytes(result.all_messages_json())


async def resume(box: Toolbox, folder: Path) -> list[str]:
    history = ModelMessagesTypeAdapter.validate_json((folder / "messages.json").read_bytes())
    result = await agent_of(box).run(
        message_history=history, deferred_tool_results=DeferredToolResults(approvals={"call_4": True})
    )
    assert result.output == DONE
    return texts(result.all_messages())


async def test_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_two_processes("pydantic_ai", resume, tmp_path, monkeypatch)


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    return f"dropped {table}"


async def ask(box: Toolbox, calls: Calls) -> Any:
    result = await agent_of(box, calls).run("Drop a.")
    assert isinstance(result.output, DeferredToolRequests)
    return result


async def go_on(box: Toolbox, calls: Calls, before: Any, answer: Any) -> Any:
    results = DeferredToolResults(approvals={"c": answer})
    return await agent_of(box, calls).run(message_history=before.all_messages(), deferred_tool_results=results)


DROP: Calls = [("c", "drop", {"table": "a"})]


async def test_a_no_is_in_the_record_and_the_next_call_asks_again() -> None:
    calls = [*DROP, ("d", "drop", {"table": "a"})]
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        after = await go_on(box, calls, await ask(box, calls), ToolDenied("not today"))
        assert isinstance(after.output, DeferredToolRequests)
        assert texts(after.all_messages()) == ["not today"]
        newer, older = box.approvals.recent()
        assert (older["state"], older["answer"], older["approver"]) == ("denied", "not today", "pydantic-ai")
        assert (newer["state"], newer["call_id"]) == ("pending", "d")


async def test_other_arguments_of_the_person_run_and_use_up_the_same_request() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        after = await go_on(box, DROP, await ask(box, DROP), ToolApproved(override_args={"table": "b"}))
        assert texts(after.all_messages()) == ["dropped b"]
        (request,) = box.approvals.recent()
        assert (request["state"], request["edited"]) == ("used", '{"table": "b"}')


async def test_a_yes_to_a_request_that_has_ended_asks_again() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        paused = await ask(box, DROP)
        box.approvals.expire(box.approvals.pending()[0]["id"])
        after = await go_on(box, DROP, paused, True)
        assert isinstance(after.output, DeferredToolRequests)
        assert [each["state"] for each in box.approvals.recent()] == ["pending", "expired"]
        assert texts((await go_on(box, DROP, after, True)).all_messages()) == ["dropped a"]


async def test_a_repeated_call_is_answered_by_the_request_that_it_showed() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        shown = await ask(box, [("first", "drop", {"table": "a"})])
        session = ToolContext(channel="pydantic-ai", session_id=shown.all_messages()[-1].conversation_id)
        assert (await box.call("drop", {"table": "a"}, session)).error_kind == "pending"
        first = box.approvals.pending()
        paused = await agent_of(box, DROP, session).run("Drop a.")
        assert paused.output.metadata["c"]["approval_id"] == first[0]["id"]
        results = DeferredToolResults(approvals={"c": True})
        after = await agent_of(box, DROP, session).run(
            message_history=paused.all_messages(), deferred_tool_results=results
        )
        assert texts(after.all_messages()) == ["dropped a"]


async def test_what_can_be_repaired_is_a_retry_and_a_refusal_is_none() -> None:
    calls: Calls = [("c", "drop", {"tables": 1}), ("d", "read_file", {"path": "/etc/shadow"})]
    async with temporary_toolbox(tools=[drop]) as box:
        messages = (await agent_of(box, calls).run("Go.")).all_messages()
        wrong, refused = [p for m in messages for p in m.parts if isinstance(p, ToolReturnPart | RetryPromptPart)]
        assert "missing required table" in str(wrong.content)
        assert isinstance(wrong, RetryPromptPart) or wrong.outcome == "retried"
        assert isinstance(refused, ToolReturnPart)
        assert refused.outcome == "success"


async def test_images_reach_the_model() -> None:
    @tool(category="filesystem_read")
    def look() -> ToolOutput:
        """Look."""
        return ToolOutput("a picture", content=(ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png"),))

    async with temporary_toolbox(tools=[look], builtin=False) as box:
        messages = (await agent_of(box, [("c", "look", {})]).run("Look.")).all_messages()
        shown = [p.content for m in messages for p in m.parts if isinstance(p, UserPromptPart)][-1]
        assert [each.media_type for each in shown if isinstance(each, BinaryContent)] == ["image/png"]


async def test_a_tool_of_pydantic_ai_is_ours() -> None:
    async def divide(ctx: RunContext[int], a: int) -> dict[str, int]:
        """Divide by what the host gave."""
        if ctx.deps == 0:
            raise ModelRetry("not by zero")
        return {"result": a // ctx.deps}

    async with temporary_toolbox(
        tools=[
            tool_from_pydantic_ai(Tool(divide), category="memory"),
            tool_from_pydantic_ai(Tool(divide, name="asks", requires_approval=True), category="filesystem_read"),
        ],
        builtin=False,
    ) as box:
        assert (await box.call("divide", {"a": 7}, ToolContext(deps=2))).data == {"result": 3}
        failed = await box.call("divide", {"a": 7}, ToolContext(deps=0))
        assert (failed.error_kind, failed.for_llm.split("\n")[0]) == ("tool", "not by zero")
        assert (await box.call("divide", {"a": "x"}, ToolContext(deps=1))).error_kind == "invalid"
        asked = await box.call("asks", {"a": 7})
        assert (asked.error_kind, "requires approval in pydantic-ai" in asked.for_llm) == ("pending", True)
