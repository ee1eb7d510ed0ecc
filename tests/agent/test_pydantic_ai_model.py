"""A model of pydantic-ai in our loop: what it gets, what comes back, and its failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, ThinkingPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from toolcrib import tool
from toolcrib.agent import AgentSession, ModelError, ModelPlace
from toolcrib.agent.choose import model_of
from toolcrib.agent.history import Image, user
from toolcrib.agent.model import ModelRequest
from toolcrib.agent.pydantic_ai_model import PydanticAiModel
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.core.errors import ConfigError
from toolcrib.core.output import ImageBlock, ToolOutput

from .test_loop import agent

Reply = Callable[[list[ModelMessage], AgentInfo], AsyncIterator[Any]]
PNG = b"\x89PNG\r\n\x1a\n"


def model(reply: Reply, idle: float = 5.0) -> PydanticAiModel:
    return PydanticAiModel(
        "pydantic-ai:made", FunctionModel(stream_function=reply, profile={"supports_thinking": True}), idle
    )


def parts(messages: list[ModelMessage], kind: type[Any]) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


async def test_calls_results_reasoning_and_images_go_both_ways() -> None:
    asked: list[list[ModelMessage]] = []
    infos: list[AgentInfo] = []

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        asked.append(messages)
        infos.append(info)
        if len(asked) > 1:
            yield "It says alpha."
            return
        yield {0: DeltaThinkingPart(content="hm", signature="sig==")}
        yield {1: DeltaToolCall("read_file", '{"path": "a.txt"}', tool_call_id="odd id")}
        yield {2: DeltaToolCall("picture", "{}", tool_call_id="2")}
        yield {3: DeltaToolCall("read_file", '{"path": "none.txt"}', tool_call_id="3")}

    @tool(category="filesystem_read")
    async def picture() -> ToolOutput:
        """Show a picture."""
        return ToolOutput("a picture", content=(ImageBlock(PNG, "image/png"),))

    async with agent(model=model(reply), tools=[picture]) as made:
        outcome = await made.run("what is there?", files=[Image(PNG, "image/png")])
        assert (outcome.state, outcome.text) == ("done", "It says alpha.")
    assert [t.name for t in infos[0].function_tools] == sorted(t.name for t in infos[0].function_tools)
    (thought,) = parts(asked[1], ThinkingPart)
    assert (thought.content, thought.signature) == ("hm", "sig==")
    (said,) = parts(asked[1], UserPromptPart)
    assert said.content[1].data == PNG
    text, seen, failed = parts(asked[1], ToolReturnPart)
    calls = [part for message in asked[1] if isinstance(message, ModelResponse) for part in message.tool_calls]
    assert [call.tool_call_id for call in calls] == [r.tool_call_id for r in (text, seen, failed)]
    assert "alpha" in text.content
    assert seen.content[1].data == PNG
    assert [r.outcome for r in (text, seen, failed)] == ["success", "success", "failed"]


async def test_reasoning_goes_back_to_its_model_only_and_the_settings_go_along() -> None:
    asked: list[list[ModelMessage]] = []
    infos: list[AgentInfo] = []

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        asked.append(messages)
        infos.append(info)
        yield {0: DeltaThinkingPart(content="hm", signature="sig==")}
        yield "ok"

    first = model(reply)
    async with agent(model=first) as made:
        session: AgentSession = made.new_session()
        for name in ("pydantic-ai:made", "pydantic-ai:made", "pydantic-ai:other"):
            first.name = name
            await made.run("go", session)
    assert [len(parts(messages, ThinkingPart)) for messages in asked] == [0, 1, 0]
    async for _ in first.stream(ModelRequest("s", [user("q")], max_tokens=50, effort="none")):
        pass
    assert infos[-1].model_settings == {"max_tokens": 50}
    assert infos[-1].model_request_parameters.thinking is False


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelHTTPError(429, "m", {"error": "slow down"}), "limit"),
        (ModelHTTPError(401, "m", {"error": "no"}), "key"),
        (ModelHTTPError(400, "m", {"error": "prompt is too long"}), "context"),
        (OSError("broken\npipe"), "server"),
    ],
)
async def test_failures_are_of_the_same_kinds_as_those_of_our_own_clients(error: Exception, kind: str) -> None:
    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        raise error
        yield ""

    with pytest.raises(ModelError) as caught:
        async for _ in model(reply).stream(ModelRequest("s", [user("q")])):
            pass
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)


async def test_a_stream_that_goes_silent_is_noticed() -> None:
    ended: list[str] = []

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield "I thi"
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("closed")

    with pytest.raises(ModelError, match=r"sent nothing for 0\.2 s") as caught:
        async for _ in model(reply, idle=0.2).stream(ModelRequest("s", [user("q")])):
            pass
    assert (caught.value.kind, ended) == ("silent", ["closed"])


def test_a_name_that_pydantic_ai_does_not_know_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match="--model pydantic-ai:nope: Unknown model"):
        model_of("pydantic-ai:nope", ModelPlace(GuardSettings(), environment={}))
