"""One request over a real connection: retries, silence, resets, and where it may go."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any, cast

import pytest

from toolcrib.agent import client
from toolcrib.agent.choose import ModelPlace, model_of
from toolcrib.agent.client import HttpModel
from toolcrib.agent.find_model import find_model
from toolcrib.agent.history import ModelCall, user
from toolcrib.agent.model import (
    CallBegun,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReplyEnd,
    TextDelta,
    ThinkingDelta,
    TryFailed,
)
from toolcrib.agent.wires.sse import SseParser
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.core.errors import ConfigError

from ..ports import free_port
from ..waiting import pass_time
from .fake_provider import TEXT, Answer, Provider, chat_reply, data, messages_reply, provider, responses_reply

REQUEST = ModelRequest("be brief", [user("hello")])
REPLIES: dict[str, Callable[[], list[bytes]]] = {
    "chat": chat_reply, "responses": responses_reply, "anthropic": messages_reply,
}  # fmt: skip
SHOWN = TextDelta | ThinkingDelta | CallBegun
OVERLOADED = Answer(status=529, headers={"retry-after-ms": "5"}, body=b'{"error": {"type": "overloaded_error"}}')


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)


def model(server: Provider, kind: str = "chat", idle: float = 5.0) -> HttpModel:
    env = {"ANTHROPIC_BASE_URL": server.base, "OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-ant"}
    place = ModelPlace(GuardSettings(), server.base, idle, env)
    made = model_of(f"{kind}:m", place)
    assert isinstance(made, HttpModel)
    return made


async def ask(asked: HttpModel) -> list[ModelEvent]:
    try:
        return [event async for event in asked.stream(REQUEST)]
    finally:
        await asked.aclose()


@pytest.mark.parametrize("kind", REPLIES)
async def test_a_streamed_reply(kind: str) -> None:
    async with provider(Answer(REPLIES[kind]())) as server:
        events = await ask(model(server, kind))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == TEXT
    assert isinstance(events[-1], ReplyEnd)
    assert len(events[-1].turn.calls) == 2
    head = server.heads[0].lower()
    assert ("authorization: bearer sk-1" in head) == (kind != "anthropic")
    assert ("x-api-key: sk-ant" in head) == (kind == "anthropic")
    assert server.requests[0]["stream"] is True


FAILED = {
    "chat": data({"error": {"message": "Overloaded", "code": 529}}),
    "responses": data({"type": "error", "code": "server_is_overloaded", "message": "Overloaded"}, "error"),
    "anthropic": data({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
}


@pytest.mark.parametrize("how", ["reset", "error"])
@pytest.mark.parametrize("kind", REPLIES)
async def test_a_failure_at_any_event_is_tried_again_or_reported_but_nothing_is_lost_or_doubled(
    kind: str, how: str
) -> None:
    events = REPLIES[kind]()
    for place in range(len(events)):
        failing = Answer([*events[:place], FAILED[kind]]) if how == "error" else Answer(events, reset_after=place)
        async with provider(failing, Answer(events)) as server:
            asked = model(server, kind)
            seen: list[ModelEvent] = []
            try:
                async for event in asked.stream(REQUEST):
                    seen.append(event)
            except ModelError as error:
                assert error.kind == ("overloaded" if how == "error" else "network")
                assert any(isinstance(event, SHOWN) for event in seen), "before anything is shown it is tried again"
                assert not any(isinstance(event, ReplyEnd) for event in seen)
            else:
                ends = [event for event in seen if isinstance(event, ReplyEnd)]
                assert [[call.id for call in end.turn.calls] for end in ends] == [["c0", "c1"]]
                assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == TEXT
            finally:
                await asked.aclose()


@pytest.mark.parametrize(
    ("kind", "setting"), [("chat", "agent.base_url or OPENAI_BASE_URL"), ("ollama", "OLLAMA_HOST")]
)
async def test_a_server_that_does_not_run_is_named_with_what_to_look_at(
    kind: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_pause", lambda *_: 0.0)
    host = f"http://127.0.0.1:{free_port()}"
    asked = model_of(f"{kind}:m", ModelPlace(GuardSettings(), f"{host}/v1", 5.0, {"OLLAMA_HOST": host}))
    assert isinstance(asked, HttpModel)
    with pytest.raises(ModelError, match=rf"cannot be reached: .*see that its server runs.*right \({setting}\)"):
        await ask(asked)
    await asked.aclose()


async def test_the_error_of_a_connection_shows_no_key_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_pause", lambda *_: 0.0)
    asked = model_of(
        "chat:m", ModelPlace(GuardSettings(), f"http://me:pw-1234@127.0.0.1:{free_port()}/v1?key=k-5678", 5)
    )
    with pytest.raises(ModelError) as raised:
        await ask(asked)
    assert "cannot be reached" in str(raised.value)
    assert "pw-1234" not in str(raised.value) and "k-5678" not in str(raised.value)
    await cast(HttpModel, asked).aclose()


def values_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value of an event."""
    yield at
    if isinstance(value, dict | list):
        inside = cast("dict[Any, Any]", value) if isinstance(value, dict) else dict(enumerate(cast("list[Any]", value)))
        for key, inner in inside.items():
            yield from values_in(inner, (*at, key))


def with_value(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = with_value(value[at[0]], at[1:], new)
    return copy


@pytest.mark.parametrize("kind", REPLIES)
async def test_a_value_of_a_wrong_type_is_an_error_or_a_reply_of_texts(kind: str) -> None:
    """A provider may send anything: what is shown and stored afterwards is text."""
    events = [event.decode() for event in REPLIES[kind]()]
    changed: list[list[bytes]] = []
    for number, event in enumerate(events):
        head, found, body = event.partition("data: {")
        for at in values_in(json.loads(f"{{{body}")) if found else ():
            for new in ({"a": 1}, [[5]], 7, True):
                text = json.dumps(with_value(json.loads(f"{{{body}"), at, new))
                changed.append(
                    [e.encode() for e in (*events[:number], f"{head}data: {text}\n\n", *events[number + 1 :])]
                )
    assert len(changed) > 100
    wrong: list[object] = []
    asked = model_of(f"{kind}:m", ModelPlace(GuardSettings(), "http://127.0.0.1:9/v1", 5.0, {"ANTHROPIC_API_KEY": "k"}))
    assert isinstance(asked, HttpModel)
    for chunks in changed:
        decoder, parser = asked._wire.decoder(), SseParser()  # pyright: ignore[reportPrivateUsage]
        texts: list[object] = []
        try:
            for chunk in chunks:
                for found in asked._decoded(parser.feed(chunk), decoder):  # pyright: ignore[reportPrivateUsage]
                    texts += [getattr(event, "text", getattr(event, "name", "")) for event in found]
            for part in asked._finished(parser, decoder).parts:  # pyright: ignore[reportPrivateUsage]
                texts += [part.id, part.name, part.arguments] if isinstance(part, ModelCall) else [part.text]
        except ModelError:
            pass
        wrong += [chunks for text in texts if not isinstance(text, str)]
    assert wrong == []


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_an_error_that_passes_is_tried_again(status: int) -> None:
    refused = Answer(status=status, headers={"retry-after-ms": "5"}, body=b'{"error": {"message": "later"}}')
    async with provider(refused, refused, Answer(chat_reply())) as server:
        events = await ask(model(server))
    assert isinstance(events[-1], ReplyEnd)
    assert len(server.requests) == 3
    assert [type(event) for event in events[:3]] == [TryFailed, TryFailed, TextDelta]
    assert isinstance(events[0], TryFailed)
    assert f"answered {status}: later" in events[0].reason
    assert events[0].pause == 0.005


async def test_it_gives_up_after_four_tries() -> None:
    async with provider(OVERLOADED) as server:
        with pytest.raises(ModelError, match="529") as caught:
            await ask(model(server))
    assert (caught.value.kind, len(server.requests)) == ("overloaded", 4)


async def test_a_pause_that_is_too_long_is_not_waited_for() -> None:
    refused = Answer(status=429, headers={"retry-after": "3600"}, body=b"slow down")
    async with provider(refused) as server:
        with pytest.raises(ModelError, match="slow down; it asks to wait 3600 s") as caught:
            await ask(model(server))
    assert (caught.value.retry_after, len(server.requests)) == (3600, 1)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error": {"message": "bad key"}}', "key"),
        (404, b'{"error": {"message": "no such model", "code": "model_not_found"}}', "missing"),
        (400, b'{"error": {"message": "maximum context length is 8192"}}', "context"),
        (413, b'{"error": {"message": "prompt is too long: 210000 tokens"}}', "context"),
        (400, b'{"error": {"message": "temperature is not supported"}}', "refused"),
        (429, b'{"error": {"message": "x", "code": "insufficient_quota"}}', "key"),
        (400, b'{"error": "model does not support tools"}', "refused"),
        (400, b"\xff not json", "refused"),
        (400, b"[" * 100_000, "refused"),
    ],
)
async def test_an_error_that_stays_is_reported_at_once(status: int, body: bytes, kind: str) -> None:
    async with provider(Answer(status=status, body=body)) as server:
        with pytest.raises(ModelError) as caught:
            await ask(model(server))
    assert (caught.value.kind, len(server.requests)) == (kind, 1)


@pytest.mark.parametrize(("kind", "key"), [("chat", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
async def test_a_refused_key_is_named(kind: str, key: str) -> None:
    async with provider(Answer(status=401, body=b'{"error": {"message": "bad key"}}')) as server:
        with pytest.raises(ModelError, match=f"answered 401: bad key. Check {key}, and that its account may use"):
            await ask(model(server, kind))


async def test_an_error_that_repeats_the_key_shows_no_half_of_it() -> None:
    body = json.dumps({"error": {"message": f"no such key: {'x' * 482} sk-ant"}}).encode()
    async with provider(Answer(status=401, body=body)) as server:
        with pytest.raises(ModelError) as caught:
            await ask(model(server, "anthropic"))
    assert "xxx" in str(caught.value) and "sk-" not in str(caught.value)


async def test_pings_do_not_hide_a_silence() -> None:
    async with provider(Answer(chat_reply()[:2], pings=True)) as server:
        start = time.monotonic()
        asked = model(server, idle=0.3)
        with pytest.raises(ModelError, match="sent nothing") as caught:
            async for _ in asked.stream(REQUEST):
                pass
        await asked.aclose()
    assert caught.value.kind == "silent"
    assert time.monotonic() - start < 10


async def test_an_error_that_never_ends_is_reported() -> None:
    async with provider(Answer(status=400, headers={"content-type": "text/plain"}, pings=True)) as server:
        async with asyncio.timeout(10):
            with pytest.raises(ModelError, match="answered 400: : ping"):
                await ask(model(server, idle=0.3))


@pytest.mark.parametrize("head", [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"H"])
async def test_a_head_that_never_ends_is_a_silence(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.2)
    async with provider(Answer(head=head)) as server:
        async with asyncio.timeout(10):
            with pytest.raises(ModelError, match=r"did not begin its answer within 0\.8 s") as caught:
                await ask(model(server, idle=0.3))
    assert caught.value.kind == "silent"


async def test_the_time_of_a_slow_reader_is_no_silence() -> None:
    async with provider(Answer(chat_reply())) as server:
        asked = model(server, idle=100)
        async for _ in asked.stream(REQUEST):
            pass_time(200)
            await asyncio.sleep(0.01)
        await asked.aclose()


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [({"content-type": "text/html"}, b"<html>login", "check the base URL")],
)
async def test_an_answer_that_is_no_stream(headers: dict[str, str], body: bytes, message: str) -> None:
    async with provider(Answer(headers=headers, body=body)) as server:
        with pytest.raises(ModelError, match=message):
            await ask(model(server))


async def test_a_server_that_does_not_stream() -> None:
    body = b'data: {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    async with provider(Answer(headers={"content-type": "application/json"}, body=body)) as server:
        events = await ask(model(server))
    assert isinstance(events[-1], ReplyEnd)
    assert events[-1].turn.text == "hi"


async def test_unreadable_events_are_one_clear_error() -> None:
    for event in (b"data: {\n\n", b'data: {"choices": [3]}\n\n', b'data: {"choices": [{"delta": {"content": 5}}]}\n\n'):
        async with provider(Answer([event, data("[DONE]")])) as server:
            with pytest.raises(ModelError, match="cannot be read") as caught:
                await ask(model(server))
        assert caught.value.kind == "protocol"


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    async with provider(Answer(chat_reply())) as other:
        moved = Answer(status=302, headers={"location": f"{other.base}/chat/completions"}, body=b"")
        async with provider(moved) as server:
            with pytest.raises(ModelError):
                await ask(model(server))
        assert other.requests == []


async def test_only_the_host_that_the_person_set_may_be_private() -> None:
    place = ModelPlace(GuardSettings(), "http://127.0.0.1:9/v1", 1.0, {"ANTHROPIC_API_KEY": "k"})
    asked = model_of("anthropic:m", place)
    assert isinstance(asked, HttpModel)
    asked._url = "http://127.0.0.1:9/v1/messages"
    with pytest.raises(ModelError, match="cannot be reached"):
        await ask(asked)


@pytest.mark.parametrize(
    ("name", "env", "words"),
    [
        ("nonsense", {}, "anthropic:NAME"),
        ("anthropic:", {}, "anthropic:NAME"),
        ("anthropic:m", {}, "ANTHROPIC_API_KEY"),
        ("openai:m", {}, "OPENAI_API_KEY"),
        ("chat:m", {}, "agent.base_url"),
        ("chat:m", {"OPENAI_BASE_URL": "localhost:8080"}, "should be like http"),
        ("scripted:/does/not/exist", {}, "No such file"),
    ],
)
def test_a_name_that_stands_for_no_model_says_what_to_do(name: str, env: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        model_of(name, ModelPlace(GuardSettings(), environment=env))


async def found(env: dict[str, str], base: str | None = None) -> tuple[str, Sequence[str]]:
    said: list[str] = []
    made = await find_model(ModelPlace(GuardSettings(), base, environment=env), said.append)
    return made.name, said


async def test_the_first_model_found_is_used_and_named() -> None:
    name, said = await found({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"})
    assert name.startswith("anthropic:")
    assert "ANTHROPIC_API_KEY" in said[0]
    name, said = await found({"OPENAI_API_KEY": "k"})
    assert name.startswith("openai:")


@pytest.mark.parametrize("what", ["text", "calls"])
async def test_a_reply_is_bounded(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never ends its reply does not fill the memory, and not the run with calls."""
    monkeypatch.setattr(client, "MAX_REPLY", 100_000)
    monkeypatch.setattr(client, "MAX_CALLS", 20)
    call = {"type": "function", "function": {"name": "read_file", "arguments": "{}"}}

    def delta(number: int) -> bytes:
        fields = {"content": "x" * 1_000}
        if what == "calls":
            fields = {"tool_calls": [{"index": number, "id": f"c{number}", **call}]}
        return data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})

    async with provider(Answer([delta(number) for number in range(200)])) as server:
        with pytest.raises(ModelError, match="in one reply"):
            await ask(model(server))


@contextlib.contextmanager
def other_work() -> Generator[list[int]]:
    """Work beside a block; yields how often it had a turn, as the only number of a list."""
    turns = [0]

    async def other() -> None:
        while True:
            await asyncio.sleep(0)
            turns[0] += 1

    work = asyncio.create_task(other())
    try:
        yield turns
    finally:
        work.cancel()


async def test_a_reply_that_unpacks_to_much_does_not_hold_up_other_work() -> None:
    events = chat_reply()
    delta = data({"choices": [{"index": 0, "delta": {"content": "x" * 100}, "finish_reason": None}]})
    packed = gzip.compress(delta * 20_000 + b"".join(events))
    async with provider(Answer(headers={"content-encoding": "gzip"}, body=packed)) as server:
        with other_work() as turns:
            text = "".join(each.text for each in await ask(model(server)) if isinstance(each, TextDelta))
    assert len(text) > 2_000_000
    assert turns[0] > 300


async def test_lines_without_events_do_not_hold_up_other_work() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield (b"x" * 31 + b"\n") * 65_536  # 2 MiB at once, as a compressed reply may unpack to

    asked = model_of("chat:m", ModelPlace(GuardSettings(), "http://127.0.0.1:9/v1", 5.0, {}))
    with other_work() as turns, pytest.raises(ModelError):
        async for _ in cast("Any", asked)._events(chunks(), cast("Any", asked)._wire.decoder()):
            pass
    assert turns[0] > 10
