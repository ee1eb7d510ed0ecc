"""Our tools in the Microsoft Agent Framework: the scenario, and its answers in our approvals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
)
from agent_framework import tool as framework_tool

from toolcrib import ImageBlock, ToolContext, ToolOutput, tool
from toolcrib.adapters.agent_framework import QUESTION, AgentFrameworkTools, tool_from_agent_framework
from toolcrib.core.errors import ToolDefinitionError
from toolcrib.testing import FakeApprover, temporary_toolbox
from toolcrib.toolbox import Toolbox

from .scenario import CALLS, DONE, in_two_processes

Calls = list[tuple[str, str, dict[str, Any]]]


class ScriptedChatClient(FunctionInvocationLayer, BaseChatClient):  # pyright: ignore[reportMissingTypeArgument]
    """Makes these calls, one after the other."""

    def __init__(self, calls: Calls = CALLS) -> None:
        super().__init__()
        self.calls = calls
        self.read: list[Content] = []

    async def _inner_get_response(self, *, messages: Any, **more: Any) -> ChatResponse:
        self.read = [c for message in messages for c in message.contents if c.type == "function_result"]
        if len(self.read) == len(self.calls):
            return ChatResponse(messages=[Message("assistant", [DONE])])
        ident, name, arguments = self.calls[len(self.read)]
        call = Content.from_function_call(ident, name, arguments=json.dumps(arguments))
        return ChatResponse(messages=[Message("assistant", [call])])

    @property
    def texts(self) -> list[str]:
        return [str(each.result) for each in self.read]


def agent_of(box: Toolbox, calls: Calls = CALLS, context: ToolContext | None = None) -> tuple[Any, ScriptedChatClient]:
    tools, client = AgentFrameworkTools(box, context), ScriptedChatClient(calls)
    return Agent(client, tools=tools.functions, middleware=tools.middleware), client


async def begin(box: Toolbox, folder: Path) -> None:
    agent, _ = agent_of(box)
    session = AgentSession(session_id="s")
    response = await agent.run("Tidy up.", session=session)
    (request,) = response.user_input_requests
    assert "b.txt" in request.additional_properties[QUESTION]["preview"]
    (folder / "session.json").write_text(json.dumps([session.to_dict(), request.to_dict()]))


async def resume(box: Toolbox, folder: Path) -> list[str]:
    stored, request = json.loads((folder / "session.json").read_text())
    agent, client = agent_of(box)
    yes = Content.from_dict(request).to_function_approval_response(True)
    response = await agent.run(Message("user", [yes]), session=AgentSession.from_dict(stored))
    assert response.text == DONE
    return client.texts


async def test_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_two_processes("agent_framework", resume, tmp_path, monkeypatch)


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    return f"dropped {table}"


DROP: Calls = [("c", "drop", {"table": "a"})]


async def test_a_no_is_in_the_record_and_the_next_call_asks_again() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        agent, client = agent_of(box, [*DROP, ("d", "drop", {"table": "a"})])
        session = AgentSession(session_id="s")
        (request,) = (await agent.run("Drop a.", session=session)).user_input_requests
        no = request.to_function_approval_response(False)
        (again,) = (await agent.run(Message("user", [no]), session=session)).user_input_requests
        assert again.function_call.call_id == "d"
        assert "rejected" in client.texts[0]
        newer, older = box.approvals.recent()
        assert (older["state"], older["approver"]) == ("denied", "agent-framework")
        assert (newer["state"], newer["call_id"], newer["session_id"]) == ("pending", "d", "s")


async def test_a_yes_to_a_request_that_has_ended_asks_again() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        agent, client = agent_of(box, DROP)
        session = AgentSession(session_id="s")
        (request,) = (await agent.run("Drop a.", session=session)).user_input_requests
        box.approvals.expire(box.approvals.pending()[0]["id"])
        yes = request.to_function_approval_response(True)
        (again,) = (await agent.run(Message("user", [yes]), session=session)).user_input_requests
        assert [each["state"] for each in box.approvals.recent()] == ["pending", "expired"]
        await agent.run(Message("user", [again.to_function_approval_response(True)]), session=session)
        assert client.texts == ["dropped a"]


async def test_errors_and_images_are_results() -> None:
    @tool(category="filesystem_read")
    def look(depth: int) -> ToolOutput:
        """Look."""
        return ToolOutput("a picture", content=(ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png"),))

    async with temporary_toolbox(tools=[look], builtin=False) as box:
        agent, client = agent_of(box, [("c", "look", {"depth": "deep"}), ("d", "look", {"depth": 1})])
        await agent.run("Look.")
        wrong, shown = client.read
        assert "depth should be an integer" in str(wrong.result)
        assert [each.type for each in shown.items or ()] == ["text", "data"]


async def test_a_function_of_the_framework_is_ours() -> None:
    @framework_tool
    def divide(a: int, b: int = 2) -> str:
        """Divide."""
        return str(a // b)

    @framework_tool(approval_mode="always_require")
    def look() -> list[Content]:
        """Look."""
        return [Content.from_text("a picture"), Content.from_data(b"\x89PNG\r\n\x1a\n", "image/png")]

    ours = [tool_from_agent_framework(divide, category="memory"), tool_from_agent_framework(look, category="memory")]
    async with temporary_toolbox(tools=ours, builtin=False, approve=(person := FakeApprover("yes"))) as box:
        assert (await box.call("divide", {"a": "7"})).for_llm == "3"
        assert "ZeroDivisionError" in (await box.call("divide", {"a": 7, "b": 0})).for_llm
        assert (await box.call("divide", {"b": 0})).error_kind == "invalid"
        shown = await box.call("look")
        assert shown.for_llm.startswith("a picture") and person.asked == ["look"]
        assert shown.content[-1] == ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png")
    with pytest.raises(ToolDefinitionError, match="declaration"):
        tool_from_agent_framework(FunctionTool(name="elsewhere", input_model={"type": "object", "properties": {}}))
