"""The decoders and encoders of the three languages: streams in all pieces, and what real servers do, over a socket."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.agent.history import (
    CallResult,
    Image,
    ModelCall,
    ModelTurn,
    ResultTurn,
    Text,
    Thinking,
    Turn,
    UserTurn,
    complete,
    dump,
    load,
    user,
)  # fmt: skip
from toolcrib.agent.model import (
    CallBegun,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReplyEnd,
    TextDelta,
    ToolDefinition,
    Wire,
)
from toolcrib.agent.wires.chat_completions import ChatWire
from toolcrib.agent.wires.messages import MessagesWire
from toolcrib.agent.wires.quirks import quirks_of
from toolcrib.agent.wires.responses import ResponsesWire
from toolcrib.agent.wires.sse import SseParser

from .fake_provider import CALLS, TEXT, Answer, chat_reply, data, messages_reply, provider, responses_reply
from .test_client import ask, model

CHAT = ChatWire("m", quirks_of("127.0.0.1", "m"))
MESSAGES = MessagesWire("claude-opus-5", quirks_of("api.anthropic.com", "claude-opus-5"))
RESPONSES = ResponsesWire("gpt", quirks_of("api.openai.com", "gpt"))
REPLIES = [(CHAT, chat_reply), (MESSAGES, messages_reply), (RESPONSES, responses_reply)]
KINDS: dict[Wire, str] = {CHAT: "chat", MESSAGES: "anthropic", RESPONSES: "responses"}
TOOLS = (ToolDefinition("read_file", "Read.", {"type": "object"}), ToolDefinition("z", "Z.", {"type": "object"}))


def decode(wire: Wire, chunks: Sequence[bytes]) -> tuple[list[ModelEvent], ModelTurn]:
    parser, decoder = SseParser(), wire.decoder()
    events: list[ModelEvent] = []
    for chunk in chunks:
        for kind, text in parser.feed(chunk):
            events += decoder.take(kind, text)
    for kind, text in parser.close():
        try:
            events += decoder.take(kind, text)
        except ValueError:
            break
    return events, decoder.finish()


def cut_at(raw: bytes, places: Sequence[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize(("wire", "reply"), REPLIES)
@given(places=st.lists(st.integers(0, 10_000), max_size=30))
@settings(max_examples=60, deadline=None)
def test_a_stream_in_any_pieces_is_the_same_reply(wire: Wire, reply: Any, places: list[int]) -> None:
    raw = b"".join(reply())
    for ends in (raw, raw.replace(b"\n", b"\r\n"), raw.replace(b"\n", b"\r")):
        events, turn = decode(wire, cut_at(ends, places))
        assert turn.text == TEXT
        assert [(c.id, c.name, c.object) for c in turn.calls] == [
            (f"c{i}", name, arguments) for i, (name, arguments) in enumerate(CALLS)
        ]
        assert not any(call.cut for call in turn.calls)
        assert (turn.stop, turn.usage.input, turn.usage.output) == ("calls", 10, 5)
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == TEXT
        assert [e.name for e in events if isinstance(e, CallBegun)] == [name for name, _ in CALLS]


@pytest.mark.parametrize(("wire", "reply"), REPLIES)
def test_every_byte_boundary(wire: Wire, reply: Any) -> None:
    raw = b"".join(reply())
    whole = decode(wire, [raw])[1]
    assert decode(wire, [raw[i : i + 1] for i in range(len(raw))])[1] == whole


@pytest.mark.parametrize(("wire", "reply"), REPLIES)
def test_a_stream_that_ends_early_is_no_reply(wire: Wire, reply: Any) -> None:
    """Cut off at any byte: an error, or, only after its end was said, the whole reply."""
    raw = b"".join(reply())
    whole = decode(wire, [raw])[1]
    for end in range(0, len(raw), 7):
        try:
            turn = decode(wire, [raw[:end]])[1]
        except ModelError as error:
            assert error.kind == "network"
        else:
            assert turn.parts == whole.parts


@pytest.mark.parametrize("wire", [CHAT, MESSAGES, RESPONSES])
@given(noise=st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_noise_is_an_error_or_a_reply_and_nothing_else(wire: Wire, noise: bytes) -> None:
    try:
        decode(wire, [b"data: ", noise, b"\n\n"])
    except (ModelError, ValueError, KeyError, TypeError, AttributeError):  # the client makes one error of the others
        pass


async def answered(kind: str, events: Sequence[bytes]) -> ModelTurn:
    """The reply that our client makes of what a server sends."""
    async with provider(Answer(events)) as server:
        last = (await ask(model(server, kind)))[-1]
    assert isinstance(last, ReplyEnd)
    return last.turn


async def chat(*choices: dict[str, Any], finish: str | None = "tool_calls", done: bool = True) -> ModelTurn:
    events = [data({"choices": [{"index": 0, "delta": delta}]}) for delta in choices]
    events += [data({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})] if finish else []
    return await answered("chat", [*events, *([data("[DONE]")] if done else [])])


def piece(**fields: Any) -> dict[str, Any]:
    return {"tool_calls": [fields]}


def fn(name: str | None = None, arguments: Any = "") -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


TWO = [("a", {"x": 1}), ("a", {"x": 2})]


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # index always 0 for parallel calls (Ollama)
        ([piece(index=0, id="1", function=fn("a", '{"x": 1}')),
          piece(index=0, id="2", function=fn("a", '{"x": 2}'))], TWO),
        # no index at all
        ([piece(id="1", function=fn("a", '{"x"')), piece(function=fn(None, ": 1}")),
          piece(id="2", function=fn("a", '{"x": 2}'))], TWO),
        # index null, ids empty, the name begins a new call
        ([piece(index=None, id="", function=fn("a", '{"x": 1}')),
          piece(index=None, id="", function=fn("a", '{"x": 2}'))], TWO),
        # the id repeated with every piece, the name too
        ([piece(index=0, id="1", function=fn("a", '{"x"')), piece(index=0, id="1", function=fn("a", ": 1}")),
          piece(index=1, id="2", function=fn("a", '{"x"')), piece(index=1, id="2", function=fn("a", ": 2}"))], TWO),
        # one id for all calls
        ([piece(index=0, id="1", function=fn("a", '{"x": 1}')),
          piece(index=1, id="1", function=fn("a", '{"x": 2}'))], TWO),
        # the index drifts without an id (Nebius, Cerebras)
        ([piece(index=0, id="1", function=fn("a", '{"x"')), piece(index=1, function=fn(None, ": 1}")),
          piece(index=2, id="2", function=fn("a", '{"x"')), piece(index=3, function=fn(None, ": 2}"))], TWO),
        # arguments as an object, or null
        ([piece(index=0, id="1", function=fn("a", {"x": 1})), piece(index=1, id="2", function=fn("b", None))],
         [("a", {"x": 1}), ("b", {})]),
        # interleaved
        ([piece(index=0, id="1", function=fn("a")), piece(index=1, id="2", function=fn("a")),
          piece(index=0, function=fn(None, '{"x": 1}')), piece(index=1, function=fn(None, '{"x": 2}'))], TWO),
        # the id comes after the name
        ([piece(index=0, function=fn("a")), piece(index=0, id="1", function=fn(None, '{"x": 1}'))], [("a", {"x": 1})]),
    ],
)  # fmt: skip
async def test_parallel_calls_are_told_apart(pieces: list[dict[str, Any]], calls: list[tuple[str, Any]]) -> None:
    turn = await chat(*pieces)
    assert [(call.name, call.object) for call in turn.calls] == calls
    assert len({call.id for call in turn.calls}) == len(calls)
    assert all(call.id for call in turn.calls)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([piece(id=str(number), function=fn(None, "x")) for number in range(1_001)], "more than 1,000 calls"),
        ([piece(id="1", function=fn("a", '"' + "x" * 9_000 + "}"))] * 300, "too many pieces"),
    ],
)
def test_a_server_cannot_have_its_pieces_looked_at_again_and_again(pieces: list[dict[str, Any]], said: str) -> None:
    decoder = CHAT.decoder()
    with pytest.raises(ModelError, match=said):
        for delta in pieces:
            decoder.take("", json.dumps({"choices": [{"delta": delta}]}))


async def test_a_finish_reason_of_stop_with_calls() -> None:
    assert (await chat(piece(index=0, id="1", function=fn("a", "{}")), finish="stop")).stop == "calls"


async def test_no_finish_reason_but_done() -> None:
    assert (await chat({"content": "hi"}, finish=None)).text == "hi"


async def test_no_done_but_a_finish_reason() -> None:
    assert (await chat({"content": "hi"}, finish="stop", done=False)).stop == "end"


async def test_an_error_within_a_stream_that_began_well() -> None:
    events = [
        data({"choices": [{"delta": {"content": "hi"}}]}),
        data({"error": {"message": "overloaded", "code": 503}}),
    ]
    with pytest.raises(ModelError, match="overloaded") as caught:
        await answered("chat", events)
    assert caught.value.kind == "overloaded"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_goes_back_in_its_field(field: str) -> None:
    turn = await chat({field: "because "}, {field: "so"}, piece(index=0, id="1", function=fn("a", "{}")))
    message = CHAT.encode(ModelRequest("s", complete([user("q"), turn])))["messages"][2]
    assert message[field] == "because so"


async def test_reasoning_details_go_back_as_they_came() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "a", "signature": None},
               {"type": "reasoning.text", "index": 0, "text": "b", "signature": "sig"}]  # fmt: skip
    turn = await chat(
        *({"reasoning_details": [each]} for each in details), piece(index=0, id="1", function=fn("a", "{}"))
    )
    message = CHAT.encode(ModelRequest("s", complete([user("q"), turn])))["messages"][2]
    assert message["reasoning_details"] == [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"}]


def test_deepseek_gets_an_empty_reasoning_field() -> None:
    wire = ChatWire("deepseek-v4", quirks_of("api.deepseek.com", "deepseek-v4"))
    turn = ModelTurn((ModelCall("1", "a", "{}"),), "calls")
    assert wire.encode(ModelRequest("s", complete([turn])))["messages"][1]["reasoning_content"] == ""


async def test_thought_signatures_go_back() -> None:
    turn = await chat({"tool_calls": [{"index": 0, "id": "1", "function": fn("a", "{}"),
                                 "extra_content": {"google": {"thought_signature": "S"}}}]})  # fmt: skip
    call = CHAT.encode(ModelRequest("s", complete([turn])))["messages"][1]["tool_calls"][0]
    assert call["extra_content"] == {"google": {"thought_signature": "S"}}


@pytest.mark.parametrize(("wire", "reply"), REPLIES)
async def test_a_call_cut_by_the_length_limit_is_marked(wire: Wire, reply: Any) -> None:
    raw = b"".join(reply())
    if wire is CHAT:
        cut = raw.replace(b'"finish_reason": "tool_calls"', b'"finish_reason": "length"')
    elif wire is MESSAGES:
        cut = raw.replace(b'"stop_reason": "tool_use"', b'"stop_reason": "max_tokens"')
    else:
        ending = b'"response.completed", "response": {"incomplete_details": {"reason": "max_output_tokens"}, '
        cut = raw.replace(b'"response.completed", "response": {', ending)
    turn = await answered(KINDS[wire], [cut])
    assert turn.stop == "length"
    assert [call.cut for call in turn.calls] == [False, True]


def test_thinking_blocks_go_back_unchanged_and_in_place() -> None:
    turn = decode(MESSAGES, messages_reply())[1]
    content = MESSAGES.encode(ModelRequest("s", complete([user("q"), turn]), TOOLS))["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": "hm", "signature": "sig=="}
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]


def test_thinking_of_another_model_is_left_out() -> None:
    turn = decode(MESSAGES, messages_reply())[1]
    other = MessagesWire("claude-sonnet-5", quirks_of("api.anthropic.com", "claude-sonnet-5"))
    content = other.encode(ModelRequest("s", complete([user("q"), turn])))["messages"][1]["content"]
    assert [block["type"] for block in content] == ["text", "tool_use", "tool_use"]


def test_reasoning_items_go_back_before_their_calls() -> None:
    turn = decode(RESPONSES, responses_reply())[1]
    body = RESPONSES.encode(ModelRequest("s", complete([user("q"), turn]), TOOLS))
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    kinds = [item.get("type") or item["role"] for item in body["input"]]
    assert kinds == ["user", "reasoning", "assistant", "function_call", "function_call",
                     "function_call_output", "function_call_output"]  # fmt: skip
    assert body["input"][1]["encrypted_content"] == "xyz"
    assert body["input"][2]["phase"] == "commentary"
    assert body["input"][3]["call_id"] == "c0"


HISTORY: list[Turn] = [
    user("q", Image(b"png", "image/png")),
    ModelTurn(
        (Text("I look"), ModelCall("1", "a", '{"x": 1}'), ModelCall("2", "b", "not json"), Thinking("late")), "calls"
    ),
    ResultTurn((CallResult("1", "a", "one", (Image(b"jpg", "image/jpeg"),)),)),
    user("and then?"),
    ModelTurn((Thinking("only"),), "interrupted"),
    ModelTurn((Text("half an ans"),), "interrupted"),
    user("go on"),
]


@pytest.mark.parametrize("wire", [CHAT, MESSAGES, RESPONSES])
def test_any_history_is_one_that_providers_accept(wire: Wire) -> None:
    for end in range(1, len(HISTORY) + 1):
        turns = complete(HISTORY[:end])
        body = wire.encode(ModelRequest("s", turns, TOOLS))
        json.dumps(body)
        if wire is MESSAGES:
            check_messages(body["messages"])
        elif wire is CHAT:
            check_chat(body["messages"])
        else:
            check_responses(body["input"])


def check_messages(messages: list[dict[str, Any]]) -> None:
    assert [m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"] * (
        len(messages) % 2
    )
    for before, message in itertools.pairwise(messages):
        asked = [b["id"] for b in before["content"] if b["type"] == "tool_use"]
        given = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert asked == given
        kinds = [block["type"] for block in message["content"]]
        assert kinds[: len(given)] == ["tool_result"] * len(given), "results come first"
    assert not any(b["type"] == "tool_use" for b in messages[-1]["content"])


def check_chat(messages: list[dict[str, Any]]) -> None:
    assert [m["role"] for m in messages].count("system") == 1
    for number, message in enumerate(messages):
        asked = [call["id"] for call in message.get("tool_calls", ())]
        after = messages[number + 1 : number + 1 + len(asked)]
        assert [m.get("tool_call_id") for m in after] == asked
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def check_responses(items: list[dict[str, Any]]) -> None:
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert asked == [item["call_id"] for item in items if item.get("type") == "function_call_output"]


def test_cache_marks_are_four_at_most() -> None:
    body = MESSAGES.encode(ModelRequest("s", complete(HISTORY), TOOLS))
    assert json.dumps(body).count("cache_control") == 4
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" not in body["tools"][0]


def test_effort_by_model() -> None:
    request = ModelRequest("s", [user("q")], effort="low")
    assert MESSAGES.encode(request)["thinking"] == {"type": "adaptive"}
    old = MessagesWire("claude-sonnet-4-0", quirks_of("api.anthropic.com", "claude-sonnet-4-0")).encode(request)
    assert old["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert "thinking" not in MESSAGES.encode(ModelRequest("s", [user("q")]))
    assert RESPONSES.encode(request)["reasoning"]["effort"] == "low"


@given(st.recursive(st.text(max_size=5), lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3)))
def test_turns_survive_storing(value: Any) -> None:
    arguments = json.dumps(value)
    turn = ModelTurn(
        (Text("ü\x00"), Thinking("t", {"a": value}), ModelCall("1", "n", arguments, raw={"r": value})), "calls"
    )
    assert load(dump(turn)) == turn
    seen = UserTurn((Text("x"), Image(b"\xff\x00", "image/png")))
    assert load(dump(seen)) == seen
