"""The way from a provider's message to calls, and from their outputs back to the provider, with the SDKs' own types."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter

from toolcrib import ImageBlock, ToolOutput, ToolOutputs, ToolRegistry, tool
from toolcrib.core.answering import calls_in, to_call

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8


@tool(category="network_read")
async def look(city: str) -> Any:
    """Look at a city."""
    if city == "Nowhere":
        raise ValueError("there is no such city")
    return [f"{city}: sunny", PNG] if city == "Rome" else f"{city}: sunny"


ARGUMENTS = ('{"city": "Paris"}', '{"city": "Rome"}', '{"city": "Nowhere"}')

CHAT = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls",
        "message": {
            "role": "assistant", "content": "I look.",
            "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": text}}
                for n, text in enumerate(ARGUMENTS)
            ],
        },
    }],
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "mcp_call", "id": "mcp_1", "name": "look", "arguments": "{}", "server_label": "theirs"},
        *({"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "look", "arguments": text}
          for n, text in enumerate(ARGUMENTS)),
    ],
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        *({"type": "tool_use", "id": f"c{n}", "name": "look", "input": {"city": city}}
          for n, city in enumerate(("Paris", "Rome", "Nowhere"))),
    ],
}  # fmt: skip
GEMINI = {
    "candidates": [{
        "finishReason": "STOP",
        "content": {"role": "model", "parts": [
            {"text": "I look.", "thoughtSignature": "s"},
            *({"functionCall": {"id": f"c{n}", "name": "look", "args": {"city": city}}}
              for n, city in enumerate(("Paris", "Rome", "Nowhere"))),
        ]},
    }],
}  # fmt: skip


def _part(**given: Any) -> SimpleNamespace:
    """A part as google-genai makes it: every field is there, and those that are not set are None."""
    fields = ("text", "function_call", "function_response", "inline_data", "thought", "thought_signature")
    return SimpleNamespace(**{**dict.fromkeys(fields), **given})


def _genai() -> SimpleNamespace:
    calls = [
        _part(function_call=SimpleNamespace(id=f"c{n}", name="look", args={"city": city}))
        for n, city in enumerate(("Paris", "Rome", "Nowhere"))
    ]
    content = SimpleNamespace(role="model", parts=[_part(text="I look."), *calls])
    return SimpleNamespace(candidates=[SimpleNamespace(content=content, finish_reason="STOP")], text="I look.")


@cache
def _chat() -> Any:
    """The SDKs take a second to load, which only the process that runs these tests should pay."""
    from openai.types.chat import ChatCompletion

    return ChatCompletion.model_validate(CHAT)


@cache
def _response() -> Any:
    from openai.types.responses import Response

    return Response.model_validate(RESPONSE)


@cache
def _message() -> Any:
    from anthropic.types import Message

    return Message.model_validate(MESSAGE)


GENAI = _genai()

PLAIN: list[Any] = [
    CHAT, CHAT["choices"][0], CHAT["choices"][0]["message"], CHAT["choices"][0]["message"]["tool_calls"],
    RESPONSE, RESPONSE["output"], MESSAGE, MESSAGE["content"],
    GEMINI, GEMINI["candidates"][0], GEMINI["candidates"][0]["content"], GEMINI["candidates"][0]["content"]["parts"],
    GENAI, GENAI.candidates[0].content, GENAI.candidates[0].content.parts,
    {"message": {"role": "assistant", "content": "", "tool_calls": CHAT["choices"][0]["message"]["tool_calls"]}},
]  # fmt: skip


OF_SDKS: list[Callable[[], Any]] = [
    _chat, lambda: _chat().choices[0].message, lambda: _chat().choices[0].message.tool_calls,
    _response, lambda: _response().output, _message, lambda: _message().content,
]  # fmt: skip


@pytest.mark.parametrize("made", [*((lambda each=each: each) for each in PLAIN), *OF_SDKS])
async def test_every_message_is_understood_whole_or_in_part(made: Callable[[], Any]) -> None:
    message = made()
    outputs = await ToolRegistry([look]).execute_parallel(message)
    assert [(o.call_id, o.tool_name, o.is_error) for o in outputs] == [
        ("c0", "look", False), ("c1", "look", False), ("c2", "look", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "Hello."},
        {"role": "assistant", "content": "Hello.", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
        {"role": "model", "parts": [{"text": "Hello."}]},
        [],
    ],
)
async def test_a_message_without_calls_has_no_outputs(message: Any) -> None:
    outputs = await ToolRegistry([look]).execute_parallel(message)
    assert outputs == [] and outputs.to_openai() == outputs.to_anthropic() == outputs.to_gemini() == []


async def test_a_message_of_the_sdk_without_calls_has_no_outputs() -> None:
    from openai.types.chat import ChatCompletionMessage

    message = ChatCompletionMessage(role="assistant", content="Hello.")
    assert await ToolRegistry([look]).execute_parallel(message) == []


def test_one_call_is_a_list_of_one_and_nonsense_is_kept_for_its_refusal() -> None:
    assert [to_call(c).name for c in calls_in({"id": "c1", "name": "t", "arguments": {}})] == ["t"]
    assert len(calls_in([3, None, {"name": ""}, {"x": 1}])) == 4
    assert calls_in(3) == [3] and calls_in("Hello.") == ["Hello."]  # not a refusal for each letter


async def test_openai_reads_the_answers() -> None:
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    outputs = await ToolRegistry([look]).execute_parallel(_chat())
    messages = outputs.to_openai()
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(messages)
    assert [m.get("tool_call_id") for m in messages] == ["c0", "c1", "c2", None]
    assert messages[0]["content"] == "Paris: sunny"
    assert messages[3]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    items = (await ToolRegistry([look]).execute_parallel(_response())).to_openai_responses()
    TypeAdapter(list[ResponseInputItemParam]).validate_python(items)
    assert [item["call_id"] for item in items] == ["c0", "c1", "c2"]
    assert [part["type"] for part in items[1]["output"]] == ["input_text", "input_image"]


async def test_anthropic_reads_the_answers() -> None:
    from anthropic.types import MessageParam

    (message,) = (await ToolRegistry([look]).execute_parallel(_message())).to_anthropic()
    TypeAdapter(MessageParam).validate_python(message)
    results = message["content"]
    assert [r["tool_use_id"] for r in results] == ["c0", "c1", "c2"]
    assert [r.get("is_error") for r in results] == [None, None, True]
    assert results[1]["content"][1]["source"]["media_type"] == "image/png"


async def test_gemini_reads_the_answers() -> None:
    (content,) = (await ToolRegistry([look]).execute_parallel(GEMINI)).to_gemini()
    answers = [part["functionResponse"] for part in content["parts"][:3]]
    assert [(a["id"], a["name"], list(a["response"])) for a in answers] == [
        ("c0", "look", ["output"]), ("c1", "look", ["output"]), ("c2", "look", ["error"]),
    ]  # fmt: skip
    assert content["parts"][3]["inlineData"]["mimeType"] == "image/png"
    call = {"functionCall": {"name": "look", "args": {"city": "Paris"}}}
    (content,) = (await ToolRegistry([look]).execute_parallel([call])).to_gemini()
    assert "id" not in content["parts"][0]["functionResponse"]  # Gemini gave none


async def test_every_output_says_which_call_it_answers() -> None:
    shared = ToolOutput("always the same")
    registry = ToolRegistry([look, tool(lambda: shared, name="constant", category="network_read")])
    assert (await registry.execute("look", {"city": "Paris"}, call_id="mine")).call_id == "mine"
    assert (await registry.execute("look", {}, call_id="bad")).call_id == "bad"
    assert (await registry.execute("none", {}, call_id="unknown")).call_id == "unknown"
    first, second = await registry.execute("constant"), await registry.execute("constant")
    assert first.call_id and second.call_id and first.call_id != second.call_id and shared.call_id is None


def test_an_image_can_be_answered_by_hand() -> None:
    outputs = ToolOutputs([ToolOutput("", content=(ImageBlock(PNG, "image/png"),), call_id="c1", tool_name="look")])
    assert [part["type"] for part in outputs.to_anthropic()[0]["content"][0]["content"]] == ["image"]
