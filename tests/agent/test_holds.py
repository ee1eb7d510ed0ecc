"""What an attacker, a crash or a second process may do to a session, and what it then still holds to."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from toolcrib import tool
from toolcrib.agent import Agent, RunLimits, client, session_rows
from toolcrib.agent.client import HttpModel
from toolcrib.agent.history import ModelCall, ModelTurn, ResultTurn, Stop, Text, TokenUsage, user
from toolcrib.agent.model import ModelError, ModelEvent, ModelRequest, ReplyEnd, TextDelta, UsageSeen
from toolcrib.agent.scripted import ScriptedModel
from toolcrib.agent.session import AgentSession
from toolcrib.agent.session_lock import SessionError
from toolcrib.agent.store import SessionStore
from toolcrib.config.agent_settings import AgentSettings
from toolcrib.core.call import ToolCall
from toolcrib.core.events import CallFinished
from toolcrib.core.output import ToolOutput
from toolcrib.record.connection import RecordError
from toolcrib.record.state import StateFolder
from toolcrib.testing import FakeApprover, temporary_toolbox

from ..waiting import pass_time
from .fake_provider import Answer, chat_reply, data, messages_reply, provider
from .test_client import ask, model
from .test_loop import agent, call
from .test_subagents import ByTask


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)


def texts(session: AgentSession) -> list[str]:
    return [r.text for entry in session.entries if isinstance(entry, ResultTurn) for r in entry.results]


class Turns:
    """A model that gives whole turns, or raises errors, in order."""

    name = "scripted:turns"

    def __init__(self, *turns: ModelTurn | BaseException | UsageSeen) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        while True:
            turn = self.turns.pop(0)
            if isinstance(turn, BaseException):
                raise turn
            if isinstance(turn, UsageSeen):
                yield turn
                continue
            yield TextDelta(turn.text)
            yield ReplyEnd(turn)
            return

    async def aclose(self) -> None: ...


def said(text: str, stop: Stop = "end", usage: int = 10) -> ModelTurn:
    return ModelTurn((Text(text),) if text else (), stop, TokenUsage(usage, 1))


# --- one process at a time, and the truth about calls


@pytest.mark.usefixtures("record")
async def test_a_second_run_of_a_session_changes_nothing_in_the_first() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool(category="memory")
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "waited"

    async with agent({"calls": [call("wait")]}, {"text": "done", "after": "waited"}, tools=[wait]) as made:
        session = made.new_session()
        first = asyncio.create_task(made.run("go", session))
        await begun.wait()
        other = made.session(session.id)
        with pytest.raises(SessionError, match="runs already, here or in another process"):
            await made.run("and this", other)
        go.set()
        assert (await first).text == "done"
        assert texts(made.session(session.id)) == ["waited"]


@pytest.mark.usefixtures("record")
async def test_a_new_message_after_an_interruption_does_not_say_that_a_call_never_ran() -> None:
    begun = asyncio.Event()

    @tool(category="filesystem_write")
    async def effect() -> str:
        """Have an effect."""
        begun.set()
        await asyncio.sleep(60)
        return "never"

    async with agent({"calls": [call("effect")]}, {"text": "ok"}, tools=[effect], approve=FakeApprover("yes")) as made:
        session = made.new_session()
        running = asyncio.create_task(made.run("go", session))
        await begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await made.run("go on", made.session(session.id))
        assert "began to run, and was interrupted" in texts(made.session(session.id))[0]


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize("late", [False, True])
async def test_a_lost_turn_of_results_is_reported_and_its_effect_is_not_repeated(late: bool) -> None:
    """`late`: a worker whose network was cut stores after all others that the call had asked."""
    ran: list[int] = []

    @tool(category="filesystem_write")
    async def effect() -> str:
        """Have an effect."""
        ran.append(1)
        return "done it"

    async with agent({"calls": [call("effect")]}, {"text": "ok"}, tools=[effect], approve=FakeApprover("yes")) as made:
        session, events = made.new_session(), list[CallFinished]()
        made.box.registry.events.subscribe(
            lambda event: events.append(event) if isinstance(event, CallFinished) else None
        )
        await made.run("go", session)
        made.store.cut(session.id, 2)
        again = made.session(session.id)
        if late:
            made.box.registry.events.emit(replace(events[-1], output=ToolOutput.error("it asks", "pending")))
            made.box.audit.flush()
        assert (await made.run(None, again)).state == "done"
        assert "its output was lost" in texts(again)[0]
        assert ran == [1]


@pytest.mark.usefixtures("record")
async def test_a_repeated_spawn_goes_on_with_the_same_subagent() -> None:
    replies = ByTask(go=["x"], look=["seen"])
    async with agent(model=replies) as made:
        session = made.new_session()
        for _ in range(2):
            spawn = ToolCall(f"{session.id}.1.c", "spawn", '{"task": "look", "wait": true}')
            (out,) = await made.box.call_many([spawn], replace(made.box.context, session_id=session.id))
            assert "seen" in out.for_llm
        assert len(made.store.children(session.id)) == len(replies.requests) == 1


@pytest.mark.usefixtures("record")
async def test_subagents_are_counted_from_the_last_message_of_a_person_on() -> None:
    async with agent({"text": "ok"}) as made:
        session = made.new_session()

        def begun(how_many: int) -> list[int]:
            rows = [made.store.create(model="m", system="", parent=session.id) for _ in range(how_many)]
            return [made.store.number_in_run(row) for row in rows]

        assert begun(1) == [1]
        session.say("go")
        assert begun(2) == [1, 2]
        session.append(user("[The job is done.]", source="job"))
        assert begun(2) == [3, 4]
        session.say("go on")
        assert begun(1) == [1]


# --- the record


async def test_a_full_disk_is_one_clear_error_and_the_session_goes_on_when_there_is_room() -> None:
    async with agent({"calls": [call("read_file", path="a.txt")]}, {"text": "x" * 200_000}, {"text": "done"}) as made:
        session = made.new_session()
        connection = made.store._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 4}")
        with pytest.raises(RecordError, match="make room"):
            await made.run("go", session)
        connection.execute("PRAGMA max_page_count=1000000")
        assert (await made.run(None, made.session(session.id))).state == "done"


def test_a_record_that_another_process_locks_is_one_clear_error(tmp_path: Any) -> None:
    store = SessionStore(StateFolder.for_workspace(tmp_path / "work", tmp_path / "state"))
    row = store.create(model="m", system="s")
    store._connection.execute("PRAGMA busy_timeout=20")
    other = sqlite3.connect(store._where, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RecordError, match="locked by another process"):
        store.append(row.id, 0, user("x"))
    other.execute("ROLLBACK")
    other.close()
    store.append(row.id, 0, user("x"))
    store.close()


def test_ids_that_are_taken_and_a_clock_that_is_set_back(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, record: str
) -> None:
    store = SessionStore(StateFolder.for_workspace(tmp_path / "work", tmp_path / "state", url=record))
    ids = iter(["a", "a", "b", "b", "c"])
    monkeypatch.setattr(session_rows, "new_id", lambda: next(ids))
    clock = iter(range(1_000_000, 0, -1))
    monkeypatch.setattr(session_rows.time, "time", lambda: float(next(clock)))
    for name in ("a", "b", "c"):
        assert store.create(model="m", system="s").id == name
        assert store.get("last").id == name
    store.update("a", title="used again")
    assert [row.id for row in store.list()] == ["a", "c", "b"]
    store.close()


def test_many_threads_use_one_store(tmp_path: Any, record: str) -> None:
    store = SessionStore(StateFolder.for_workspace(tmp_path / "work", tmp_path / "state", url=record))
    parent = store.create(model="m", system="s").id
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for n in range(8):
                row = store.create(model="m", system="s", parent=parent)
                store.append(row.id, 0, user(f"hello {n}"))
                store.set_extra(row.id, "background", {"label": "x"})
                store.report(row.id, user("report"))
                assert len(store.turns(row.id)) == 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(store.children(parent)) == 64
    taken = 0
    while store.take(parent, taken, ("steer",)) is not None:
        taken += 1
    assert taken == 64
    store.close()


# --- what is paid for is counted


async def test_replies_that_were_dropped_are_counted() -> None:
    lost = TokenUsage(100, 7)
    turns = Turns(UsageSeen(lost), ModelError("no", "refused"))
    async with agent(model=turns) as made:
        made.models.append(Turns(said("yes")))
        session = made.new_session()
        outcome = await made.run("go", session)
        assert (outcome.usage.input, outcome.usage.output) == (110, 8)
        assert made.store.get(session.id).usage == outcome.usage


@pytest.mark.usefixtures("passing_time")
async def test_a_reply_that_was_cancelled_is_counted() -> None:
    class Hanging(Turns):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            yield UsageSeen(TokenUsage(50, 0))
            pass_time(101)
            await asyncio.sleep(60)

    async with agent(model=Hanging()) as made:
        session = made.new_session()
        outcome = await made.run("go", session, limits=RunLimits(seconds=100))
        assert (outcome.state, outcome.usage.input) == ("limit", 50)
        assert made.store.get(session.id).usage.input == 50


async def test_what_the_provider_reported_for_a_try_that_failed_is_in_the_reply() -> None:
    overloaded = data({"type": "error", "error": {"type": "overloaded_error", "message": "later"}}, "error")
    events = messages_reply()
    async with provider(Answer([events[0], overloaded]), Answer(events)) as server:
        end = (await ask(model(server, "anthropic")))[-1]
    assert isinstance(end, ReplyEnd)
    assert (end.lost.input, end.turn.usage.input) == (10, 10)


async def test_a_summary_is_counted() -> None:
    turns = Turns(said("word " * 900), said("a summary", usage=500))
    async with agent(model=turns) as made:
        session = made.new_session()
        await made.run("go " * 500, session)
        assert await made.compact(session)
        assert made.store.get(session.id).usage.input == 510


async def test_a_limit_in_dollars_without_a_price_stops_the_run() -> None:
    turns = Turns(said("", "calls"), said("never"))
    turns.name = "chat:unknown-model"
    turns.turns[0] = ModelTurn((ModelCall("1", "list_dir", "{}"),), "calls", TokenUsage(1, 1))
    async with agent(model=turns) as made:
        outcome = await made.run("go", limits=RunLimits(cost=1.0))
        assert (outcome.state, outcome.requests) == ("limit", 1)
        assert "known price" in outcome.reason


@pytest.mark.usefixtures("passing_time")
async def test_the_seconds_of_the_parent_end_its_subagent() -> None:
    slow = ByTask(go=[[call("spawn", task="look", wait=True)], "d"], look=[[call("list_dir")]])
    slow.passes, slow.seconds = 30, 0.001
    async with agent(model=slow) as made:
        session = made.new_session()
        outcome = await made.run("go", session, limits=RunLimits(seconds=100))
        assert (outcome.state, "agent.max_seconds" in outcome.reason) == ("limit", True)
        assert "stopped at a limit" in texts(session)[0]


# --- what a model may do


async def test_a_window_that_the_model_calls_full_is_made_shorter_and_the_reply_goes_on() -> None:
    turns = Turns(said("one " * 500, "context"), said("a summary"), said("two"))
    async with agent(model=turns) as made:
        made.settings = AgentSettings(context_window=100_000)
        outcome = await made.run("go " * 500)
        assert (outcome.state, outcome.text) == ("done", "two")


async def test_a_full_window_that_cannot_be_made_shorter_is_an_error() -> None:
    async with agent(model=Turns(said("", "context"), said(""))) as made:
        outcome = await made.run("go")
        assert (outcome.state, "does not fit" in outcome.reason) == ("error", True)


async def test_a_reply_that_is_all_reasoning_is_not_asked_for_again_and_again() -> None:
    async with agent(model=Turns(said("", "length"))) as made:
        outcome = await made.run("go")
        assert (outcome.state, outcome.requests) == ("error", 1)
        assert "agent.max_output_tokens" in outcome.reason


async def test_ids_of_calls_that_repeat_or_are_odd_are_replaced() -> None:
    def asks(*ids: str) -> ModelTurn:
        return ModelTurn(tuple(ModelCall(i, "read_file", '{"path": "a.txt"}') for i in ids), "calls")

    async with agent(model=Turns(asks("1", "1", ""), asks("1", "a b", "x" * 999), said("done"))) as made:
        session = made.new_session()
        assert (await made.run("go", session)).state == "done"
        found = [c.id for e in session.entries if isinstance(e, ModelTurn) for c in e.calls]
        assert len(set(found)) == 6
        assert found[0] == "1"
        assert all(id_.isascii() and " " not in id_ and 0 < len(id_) < 130 for id_ in found)


async def test_replies_know_the_system_prompt_and_the_tools_that_they_were_bound_to() -> None:
    turns = Turns(*[said(str(n)) for n in range(3)])
    async with agent(model=turns) as made:
        session = made.new_session()
        await made.run("a", session)
        await made.run("b", session)
        made._tools = tuple(made.parts().tools[1:])  # as in a process with another tool
        await made.run("c", session)
        prefixes = [e.prefix for e in session.entries if isinstance(e, ModelTurn)]
        assert prefixes[0] == prefixes[1] != prefixes[2]
        assert [request.prefix for request in turns.requests] == prefixes


async def test_a_model_that_failed_is_not_asked_before_each_reply() -> None:
    first = Turns(*[ModelError("down", "server")] * 9)
    second = Turns(ModelTurn((ModelCall("1", "list_dir", "{}"),), "calls"), said("done"))
    async with agent(model=first) as made:
        made.models.append(second)
        assert (await made.run("go")).text == "done"
        assert len(first.requests) == 1


async def test_another_model_for_a_stored_session_is_stored() -> None:
    async with temporary_toolbox({}) as box:
        async with await Agent.open(box, ScriptedModel([{"text": "a"}], "scripted:one")) as made:
            session = made.new_session()
            await made.run("go", session)
        async with await Agent.open(box, ScriptedModel([{"text": "a"}, {"text": "b"}], "scripted:two")) as made:
            again = made.session(session.id)
            assert (await made.run("go on", again)).text == "b"
            assert made.store.get(session.id).model == "scripted:two"


@pytest.mark.usefixtures("record")
async def test_results_with_halves_of_characters_are_stored() -> None:
    @tool(category="memory")
    async def odd() -> str:
        """Return a file's name that is no UTF-8."""
        return "name-\udcff.txt"

    async with agent({"calls": [call("odd")]}, {"text": "ok", "after": "name-"}, tools=[odd]) as made:
        session = made.new_session()
        assert (await made.run("go \udcff", session)).text == "ok"
        assert "name-" in texts(made.session(session.id))[0]


# --- secrets and hostile providers


KEY = "sk-very-secret-key"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, body=b'{"error": {"message": "bad key: Bearer sk-very-secret-key \\u001b[2J\\nlog line"}}'),
        Answer([data({"error": {"message": "bad key sk-very-secret-key \x1b[2J\nlog line " + "x" * 99_999}})]),
    ],
)
async def test_an_error_of_a_provider_is_bounded_on_one_line_and_without_the_key(answer: Answer) -> None:
    async with provider(answer) as server:
        made = model(server)
        made._headers["authorization"] = f"Bearer {KEY}"
        with pytest.raises(ModelError) as caught:
            await ask(made)
    text = str(caught.value)
    assert "bad key" in text
    assert KEY not in text
    assert text.isprintable()
    assert len(text) < 900


async def test_a_password_in_the_base_url_is_not_in_errors() -> None:
    async with provider(Answer(status=500, body=b"no")) as server:
        made = model(server)
        assert isinstance(made, HttpModel)
        made._url = made._url.replace("http://", f"http://user:{KEY}@")
        with pytest.raises(ModelError) as caught:
            await ask(made)
    assert KEY not in str(caught.value)


async def test_a_reply_of_many_megabytes_in_small_pieces_is_read_in_linear_time() -> None:
    piece = data({"choices": [{"delta": {"content": "x" * 100}}]})
    many: Sequence[bytes] = [piece * 200] * 100
    async with provider(Answer([*many, *chat_reply()[-3:]])) as server:
        end = (await ask(model(server)))[-1]
    assert isinstance(end, ReplyEnd)
    assert len(end.turn.text) == 2_000_000


async def test_a_turn_that_cannot_be_read_is_one_clear_error() -> None:
    """Another version, or another program, may have written it: the person reads which session, and what to do."""
    async with agent({"text": "x"}) as made:
        session = made.new_session()
        await made.run("go", session)
        made.store._run("UPDATE agent_turn SET turn = replace(turn, '\"end\"', '\"odd\"')")
        with pytest.raises(SessionError, match=f"{session.id} cannot be read: .* remove {session.id}") as caught:
            made.session(session.id)
        assert "\n" not in str(caught.value)
