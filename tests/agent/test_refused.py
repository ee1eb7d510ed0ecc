"""What providers refuse, and what makes a stored session useless if it is sent: each is mended before it is sent."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.agent import client
from toolcrib.agent.history import (
    CallResult,
    Image,
    ModelCall,
    ModelTurn,
    ResultTurn,
    Stop,
    Text,
    Thinking,
    Turn,
    complete,
    dump,
    load,
    user,
)
from toolcrib.agent.model import ModelError, ModelRequest, TextDelta, ToolDefinition, Wire
from toolcrib.agent.wires.chat_completions import ChatWire
from toolcrib.agent.wires.messages import MessagesWire
from toolcrib.agent.wires.provider_errors import error_of
from toolcrib.agent.wires.quirks import quirks_of
from toolcrib.agent.wires.responses import ResponsesWire

from ..waiting import until
from .fake_provider import TEXT, Answer, chat_reply, data, messages_reply, provider, responses_reply, text_reply
from .test_client import ask, model
from .test_loop import agent
from .test_wires import check_chat, check_messages, check_responses, decode


def chat(host: str = "localhost", name: str = "m") -> ChatWire:
    return ChatWire(name, quirks_of(host, name))


def messages(host: str = "api.anthropic.com", name: str = "claude-opus-5-5") -> MessagesWire:
    return MessagesWire(name, quirks_of(host, name))


def responses(host: str = "api.openai.com", name: str = "gpt-5.6") -> ResponsesWire:
    return ResponsesWire(name, quirks_of(host, name))


WIRES: list[Wire] = [chat(), messages(), responses(), chat("api.mistral.ai"), chat("api.deepseek.com")]


def sent(wire: Wire, turns: list[Turn], **more: Any) -> dict[str, Any]:
    """The body that a provider gets."""
    body = wire.encode(ModelRequest("s", complete(turns), **more))
    check = {"messages": check_messages} if isinstance(wire, MessagesWire) else {"messages": check_chat}
    for key, accepted in {**check, "input": check_responses}.items():
        if key in body:
            accepted(body[key])
    return body


def test_thinking_goes_back_only_with_the_system_prompt_and_the_tools_that_it_was_bound_to() -> None:
    wire = messages()
    turn = dataclasses.replace(decode(wire, messages_reply())[1], prefix="one")
    for prefix, kinds in (("one", ["thinking", "text"]), ("two", ["text", "tool_use"])):
        content = sent(wire, [user("q"), turn], prefix=prefix)["messages"][1]["content"]
        assert [block["type"] for block in content][:2] == kinds


@pytest.mark.parametrize(
    ("wires", "reply"),
    [
        ([messages(), messages(name="claude-sonnet-5-5"), messages(host="gateway.example"), chat()], messages_reply),
        ([responses(), responses(name="gpt-5.4"), responses(host="gateway.example"), messages()], responses_reply),
    ],
)
def test_reasoning_goes_back_to_its_model_only(wires: list[Wire], reply: Any) -> None:
    turn = decode(wires[0], reply())[1]
    found = [json.dumps(sent(wire, [user("q"), turn])) for wire in wires]
    assert ["sig==" in text or "xyz" in text for text in found] == [True, False, False, False]


def test_reasoning_of_chat_completions_goes_back_to_its_model_only() -> None:
    delta = {"reasoning_content": "hm", "tool_calls": [{"index": 0, "id": "1", "extra_content": {"google": "SIG"},
             "function": {"name": "a", "arguments": "{}"}}]}  # fmt: skip
    turn = decode(chat(), [data({"choices": [{"delta": delta}]}), data("[DONE]")])[1]
    for wire, own in ((chat(), True), (chat(name="other"), False), (chat(host="elsewhere"), False)):
        text = json.dumps(sent(wire, [user("q"), turn]))
        assert ("hm" in text) is own
        assert ("SIG" in text) is own


@pytest.mark.parametrize("wire", WIRES)
@given(
    call_id=st.text(min_size=1, max_size=80), name=st.text(max_size=90), arguments=st.text(max_size=20), text=st.text()
)
def test_any_id_name_arguments_and_text(wire: Wire, call_id: str, name: str, arguments: str, text: str) -> None:
    turns: list[Turn] = [
        user(text), ModelTurn((Text(text), ModelCall(call_id, name, arguments)), "calls"),
        ResultTurn((CallResult(call_id, name, text),)), ModelTurn((Text(text),)), user(text),
    ]  # fmt: skip
    body = sent(wire, turns)
    json.dumps(body, ensure_ascii=False).encode()
    check_strings(wire, body)


def check_strings(wire: Wire, value: Any) -> None:
    """Ids and names have the form that the provider wants, and no text of Messages is blank."""
    if isinstance(value, list):
        for each in value:
            check_strings(wire, each)
    if not isinstance(value, dict):
        return
    form = "[a-zA-Z0-9]{9}" if getattr(wire, "quirks", None) == quirks_of("api.mistral.ai", "m") else "[!-~]{1,64}"
    form = form if isinstance(wire, ChatWire) else "[a-zA-Z0-9_-]{1,64}"
    for key in ("tool_call_id", "call_id", "tool_use_id", "id"):
        assert key not in value or re.fullmatch(form, value[key]), value
    if "name" in value:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", value["name"])
    if value.get("type") == "text":
        assert value["text"].strip()
    if isinstance(wire, MessagesWire) and "content" in value:
        assert value["content"]
        assert not isinstance(value["content"], str) or value["content"].strip()
    for each in value.values():
        check_strings(wire, each)


def test_no_person_speaks_right_after_a_tool_at_mistral() -> None:
    turns: list[Turn] = [
        user("q"), ModelTurn((ModelCall("1", "a", "{}"),), "calls"), ResultTurn((CallResult("1", "a", "x"),)),
        user("stop that"),
    ]  # fmt: skip
    assert [m["role"] for m in sent(chat(), turns)["messages"]] == ["system", "user", "assistant", "tool", "user"]
    roles = [m["role"] for m in sent(chat("api.mistral.ai"), turns)["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_two_messages_of_a_person_are_one() -> None:
    """Templates of local models want the roles to alternate."""
    turns: list[Turn] = [user("one"), ModelTurn((Thinking("hm"),), "interrupted"), user("two")]
    assert sent(chat(), turns)["messages"][1:] == [{"role": "user", "content": "one\ntwo"}]


@pytest.mark.parametrize("wire", [chat("api.deepseek.com"), MessagesWire("m", quirks_of("api.deepseek.com", "m"))])
def test_a_model_that_sees_no_images_is_informed_of_them(wire: Wire) -> None:
    image = Image(b"png", "image/png")
    turns: list[Turn] = [
        user("", image), ModelTurn((ModelCall("1", "shot", "{}"),), "calls"),
        ResultTurn((CallResult("1", "shot", "", (image,)),)),
    ]  # fmt: skip
    text = json.dumps(sent(wire, turns))
    assert "base64" not in text
    assert text.count("does not see images") == 2


@pytest.mark.parametrize("wire", WIRES[:3])
def test_sampling_parameters_and_forced_calls_are_never_sent(wire: Wire) -> None:
    tools = (ToolDefinition("a", "A.", {"type": "object"}),)
    body = sent(wire, [user("q")], tools=tools, effort="high", max_tokens=9_000)
    assert not body.keys() & {"temperature", "top_p", "top_k", "tool_choice", "previous_response_id", "seed"}


def test_models_of_openai_do_not_reason_with_tools_in_chat_completions() -> None:
    """There it is refused, and they reason unless asked not to; `openai:` speaks Responses."""
    tools = (ToolDefinition("a", "A.", {"type": "object"}),)
    for name, asked, effort in (
        ("gpt-5.6", None, "none"),
        ("gpt-5.4-mini", "high", "none"),
        ("gpt-4.1", "high", "high"),
    ):
        wire = chat("api.openai.com", name)
        assert sent(wire, [user("q")], tools=tools, effort=asked).get("reasoning_effort") == effort
        assert sent(wire, [user("q")], effort=asked).get("reasoning_effort") == asked


@pytest.mark.parametrize(
    ("model_name", "thinking"),
    [
        ("claude-opus-5-5", "adaptive"), ("claude-sonnet-5-5", "adaptive"), ("claude-haiku-5-5", "adaptive"),
        ("claude-opus-4-7", "adaptive"), ("claude-opus-4-1", "enabled"), ("claude-3-5-sonnet-latest", None),
    ],
)  # fmt: skip
def test_a_budget_for_thinking_is_sent_only_to_models_that_take_one(model_name: str, thinking: str | None) -> None:
    body = sent(messages(name=model_name), [user("q")], effort="high", max_tokens=20_000)
    assert body.get("thinking", {}).get("type") == thinking
    assert ("budget_tokens" in body.get("thinking", {})) is (thinking == "enabled")


@pytest.mark.parametrize(
    ("model_name", "thinking"),
    [
        ("claude-sonnet-5-5", {"type": "between_tools"}), ("claude-sonnet-5", {"type": "disabled"}),
        ("claude-opus-5", {"type": "disabled"}), ("claude-haiku-5-5", {"type": "disabled"}),
        ("claude-opus-5-5", {"type": "adaptive"}), ("claude-fable-5-1", {"type": "adaptive"}),
        ("claude-opus-4-8", None), ("claude-sonnet-4-5", None), ("claude-3-5-sonnet-latest", None),
    ],
)  # fmt: skip
def test_no_thinking_is_asked_for_as_the_model_wants_it(model_name: str, thinking: dict[str, str] | None) -> None:
    """Some think unless they are asked not to, each in its own words; some cannot stop, and think as little as they
    can."""
    body = sent(messages(name=model_name), [user("q")], effort="none")
    assert body.get("thinking") == thinking
    assert body.get("output_config") == ({"effort": "low"} if thinking == {"type": "adaptive"} else None)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("pause_turn", "pause"), ("refusal", "refusal"), ("model_context_window_exceeded", "context"),
        ("max_tokens", "length"), ("something_new", "end"),
    ],
)  # fmt: skip
def test_reasons_to_stop_at_anthropic(reason: str, stop: Stop) -> None:
    raw = b"".join(messages_reply()).replace(b'"stop_reason": "tool_use"', b'"stop_reason": "%b"' % reason.encode())
    turn = decode(messages(), [raw])[1]
    assert turn.stop == (stop if stop != "end" else "calls")
    assert [call.cut for call in turn.calls] == [False, stop in ("refusal", "context", "length")]


def reply(finish: str | None, arguments: str) -> list[bytes]:
    call = {"index": 0, "id": "1", "function": {"name": "a", "arguments": arguments}}
    events = [data({"choices": [{"delta": {"tool_calls": [call]}}]})]
    return [*events, *([data({"choices": [{"delta": {}, "finish_reason": finish}]})] if finish else []), data("[DONE]")]


@pytest.mark.parametrize(
    ("finish", "arguments", "cut"),
    [
        ("tool_calls", '{"x": 1}', False), ("length", '{"x": 1}', True), ("MAX_TOKENS", '{"x": 1', True),
        ("model_length", '{"x": 1', True), ("content_filter", '{"x": 1', True), (None, '{"x": 1', True),
        (None, '{"x": 1}', False), ("stop", "{'x': 1}", False),
    ],
)  # fmt: skip
def test_a_call_that_was_cut_off_is_marked_whatever_the_server_names_it(
    finish: str | None, arguments: str, cut: bool
) -> None:
    assert [call.cut for call in decode(chat(), reply(finish, arguments))[1].calls] == [cut]


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_a_reply_that_the_server_could_not_finish_is_asked_for_again(finish: str) -> None:
    with pytest.raises(ModelError) as caught:
        decode(chat(), reply(finish, "{}"))
    assert caught.value.kind == "server"


async def test_a_character_that_the_stream_cut_in_two_is_whole_in_the_reply() -> None:
    """A smiley whose two surrogates come in two events, and one half that stays alone."""

    def delta(escaped: str) -> bytes:
        return b'data: {"choices": [{"delta": {"content": "' + escaped.encode() + b'"}}]}\n\n'

    events = [delta("a\\ud83d"), delta("\\ude00b"), delta("\\udc00"), *chat_reply()[-3:]]
    async with provider(Answer(events)) as server:
        found = await ask(model(server))
    turn = found[-1].turn  # type: ignore[union-attr]
    assert turn.text == "a😀b�"
    assert load(dump(turn)) == turn
    "".join(e.text for e in found if isinstance(e, TextDelta)).encode()


def test_halves_of_characters_can_be_stored_and_sent() -> None:
    turn = ModelTurn((Thinking("\ud800", {"x": ["\udfff"]}), ModelCall("1", "a", '"\\ud800"')), "calls")
    assert "�" in dump(turn)
    assert isinstance(load(dump(turn)), ModelTurn)
    assert load(dump(user("x\udcff"))) == user("x�")


async def test_arguments_and_events_that_are_nested_too_deep() -> None:
    deep = "[" * 100_000
    body = sent(messages(), [user("q"), ModelTurn((ModelCall("1", "a", deep),), "calls")])
    assert body["messages"][1]["content"][0]["input"] == {}
    async with provider(Answer([b'data: {"choices": ' + deep.encode() + b"\n\n", data("[DONE]")])) as server:
        with pytest.raises(ModelError, match="cannot be read"):
            await ask(model(server))


# --- a whole conversation with a server that refuses what the providers refuse


def strict_chat(body: dict[str, Any]) -> None:
    messages = body["messages"]
    check_chat(messages)
    assert messages[0]["role"] == "system", "the system message is the first one"
    roles = [message["role"] for message in messages]
    assert "user, user" not in ", ".join(roles), "roles must alternate"
    assert roles[-1] in ("user", "tool"), "the last message is not one to answer"
    for message in messages:
        if message.get("tool_calls"):
            assert message.get("reasoning_content") == "hm", "reasoning_content must be passed back"


def strict_responses(body: dict[str, Any]) -> None:
    items = body["input"]
    check_responses(items)
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"]), "Item 'rs_1' not found"
    assert "previous_response_id" not in body, "Previous response not found"
    kinds = [item.get("type") or item["role"] for item in items]
    for number, kind in enumerate(kinds):
        if kind == "function_call" and kinds[number - 1] != "function_call":
            found = [k for k in kinds[:number] if k in ("reasoning", "function_call")]
            assert found[-1:] == ["reasoning"], "function_call was provided without its required 'reasoning' item"
    assert all(item["encrypted_content"] == "xyz" and "status" not in item for item in items if "summary" in item)
    said = [item for item in items if item.get("role") == "assistant" and item["content"][0]["text"] == TEXT]
    assert all(item["phase"] == "commentary" for item in said), "the phase is lost"
    assert not any(item.get("call_id", "").startswith("fc_") for item in items), "No tool call found for function call"


def strict_messages(body: dict[str, Any]) -> None:
    messages = body["messages"]
    check_messages(messages)
    assert messages[-1]["role"] == "user", "This model does not support assistant message prefill"
    assert json.dumps(body).count("cache_control") <= 4, "A maximum of 4 blocks with cache_control may be provided"
    assert not body.keys() & {"temperature", "top_p", "top_k", "tool_choice"}, "not supported for this model"
    assert body.get("thinking", {"type": "adaptive"}) == {"type": "adaptive"}, "thinking.type.enabled is not supported"
    for message in messages:
        kinds = [block["type"] for block in message["content"]]
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text"), "blank text"
        if "tool_use" in kinds:
            assert message["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig=="}, kinds


def with_calls(kind: str) -> list[bytes]:
    if kind == "chat":
        return [data({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}), *chat_reply()]
    return messages_reply() if kind == "anthropic" else responses_reply()


STRICT: dict[str, Callable[[dict[str, Any]], None]] = {
    "chat": strict_chat, "responses": strict_responses, "anthropic": strict_messages,
}  # fmt: skip


@pytest.mark.parametrize("kind", STRICT)
async def test_a_whole_conversation_holds_nothing_that_the_provider_refuses(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parallel calls whose ids come twice, a failed call, a reset, messages that steer, and an interruption."""
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    refused: list[str] = []

    def refuses(body: dict[str, Any]) -> str:
        try:
            STRICT[kind](body)
        except AssertionError as error:
            refused.append(str(error))
            return refused[-1] or "invalid_request_error"
        return ""

    calls, text = Answer(with_calls(kind)), text_reply(kind, "word")
    begun = 1 if kind == "chat" else 3  # the events up to the text
    answers = (
        calls, Answer(text, reset_after=begun), Answer(text), calls, Answer(text), Answer(text),
        Answer(text[:begun], pings=True), calls, Answer(text),
    )  # fmt: skip
    async with provider(*answers, refuses=refuses) as server, agent(model=model(server, kind)) as made:
        session = made.new_session()
        assert (await made.run("one", session)).state == "done"
        session.steer("before the next turn")
        session.queue("and after it")
        assert (await made.run("two", session)).state == "done"
        shown: list[object] = []
        running = asyncio.create_task(made.run("three", session, emit=shown.append))
        await until(lambda: any(isinstance(event, TextDelta) for event in shown))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert (await made.run("four", made.session(session.id))).state == "done"
        assert (refused, len(server.requests)) == ([], 9)
        assert len({call.id for entry in session.entries if isinstance(entry, ModelTurn) for call in entry.calls}) >= 4


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "list_dir", "arguments": {}}\n</tool_call>', "I look.\n<tool_call>{}</tool_call>\n",
        "<function=list_dir>{}</function>", '[TOOL_CALLS][{"name": "list_dir"}]', "<|python_tag|>list_dir()",
    ],
)  # fmt: skip
async def test_a_server_that_ignores_the_tools_is_an_error_that_says_so(text: str) -> None:
    async with provider(Answer(text_reply("chat", text))) as server:
        with pytest.raises(
            ModelError, match=r"its server does not read calls\. Start llama\.cpp with --jinja"
        ) as caught:
            await ask(model(server))
    assert (caught.value.kind, len(server.requests)) == ("protocol", 1)


async def test_a_text_about_calls_is_a_text() -> None:
    for text in ("It writes `<tool_call>` before `</tool_call>`, then waits.", "```\n<function=a></function>\n```"):
        async with provider(Answer(text_reply("chat", text))) as server:
            assert (await ask(model(server)))[-1].turn.text == text  # type: ignore[union-attr]


def test_an_error_about_a_schema_says_how_to_find_the_tool() -> None:
    said = "tools.5.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
    error = error_of(400, json.dumps({"error": {"type": "invalid_request_error", "message": said}}), {}, "m at u")
    assert said in str(error) and "`toolcrib lint` names the tools" in str(error)


def test_an_error_about_an_image_says_how_to_take_it_back() -> None:
    error = error_of(400, json.dumps({"error": {"message": "Could not process image"}}), {}, "m at u")
    assert "Could not process image" in str(error) and "`toolcrib sessions rewind`" in str(error)
