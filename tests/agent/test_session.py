"""What a session stores in one step: a reply with what it used; the end of a turn with the last look for messages."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from toolcrib import tool
from toolcrib.agent.events import Outcome
from toolcrib.agent.history import ModelCall, ModelTurn, Text, Thinking, TokenUsage, UserTurn, load, user
from toolcrib.agent.model import ModelError, TextDelta
from toolcrib.agent.session_lock import SessionError
from toolcrib.agent.store import SessionStore
from toolcrib.config.agent_settings import AgentSettings
from toolcrib.record.state import StateFolder

from ..waiting import until
from .fake_provider import Answer, chat_reply, data, provider
from .test_client import model
from .test_holds import Turns, said
from .test_loop import agent, call
from .test_subagents import ByTask

ROUNDS = 200


class Snapshots:
    """Looks at the database by a connection of its own before each statement of the store: what it sees is what a
    process would find if this one were killed there."""

    def __init__(self, store: SessionStore) -> None:
        self.seen: list[tuple[str, int, int]] = []
        self._other = sqlite3.connect(store._where)
        store._connection.set_trace_callback(self._look)

    def _look(self, statement: str) -> None:
        rows = self._other.execute(
            "SELECT s.state, s.usage, t.turn FROM agent_session s LEFT JOIN agent_turn t ON t.session = s.id"
        ).fetchall()
        turns = [load(row[2]) for row in rows if row[2]]
        replies = [turn for turn in turns if isinstance(turn, ModelTurn)]
        usage = next((load_usage(row[1]) for row in rows), TokenUsage())
        self.seen.append((rows[0][0] if rows else "", sum(turn.usage.input for turn in replies), usage.input))


def load_usage(text: str) -> TokenUsage:
    return TokenUsage(**json.loads(text))


async def test_a_reply_is_stored_with_what_it_used() -> None:
    looks = ModelTurn((ModelCall("1", "list_dir", "{}"),), "calls", TokenUsage(7, 1))
    async with agent(model=Turns(looks, said("done", usage=10))) as made:
        session = made.new_session()
        snapshots = Snapshots(made.store)
        await made.run("go", session)
        assert {used for _, used, _ in snapshots.seen} == {0, 7, 17}
        assert all(used == counted for _, used, counted in snapshots.seen)


@pytest.mark.parametrize("kind", ["steer", "queue"])
@pytest.mark.parametrize("place", [1, 2])  # before the loop's look for messages, and between that and the turn's end
async def test_a_message_just_before_the_end_of_a_turn_is_answered_in_it(kind: str, place: int) -> None:
    """It is stored by another connection, as another process would."""
    async with agent(model=Turns(said("one"), said("two"))) as made:
        session = made.new_session()
        other = SessionStore(made.box.state)
        begun, sent = 0, []

        def send(statement: str) -> None:
            nonlocal begun
            last = other.turns(session.id)[-1:]
            begun += bool(statement.startswith("BEGIN") and last and isinstance(last[0], ModelTurn))
            if begun == place and not sent:
                sent.append(other.send(session.id, kind, UserTurn((Text("more"),))))  # type: ignore[arg-type]

        made.store._connection.set_trace_callback(send)
        outcome = await made.run("go", session)
        assert (sent, outcome.text, made.store.get(session.id).state) == ([True], "two", "idle")
        assert other.send(session.id, "steer", UserTurn((Text("more"),))) is False
        other.close()


async def test_a_subagent_is_stored_with_the_call_that_began_it() -> None:
    """A call that is repeated after a kill finds it, so none is left that nobody knows."""
    model = ByTask(go=[[call("spawn", task="look", wait=True)], "done"], look=["seen"])
    async with agent(model=model) as made:
        session = made.new_session()
        seen: list[bool] = []
        other = sqlite3.connect(made.box.state.record_db)

        def look(statement: str) -> None:
            rows = other.execute("SELECT extra FROM agent_session WHERE parent IS NOT NULL").fetchall()
            seen.extend("call" in json.loads(row[0]) for row in rows)

        made.store._connection.set_trace_callback(look)
        await made.run("go", session)
        assert seen
        assert all(seen)


async def test_a_turn_that_fails_does_not_stay_running() -> None:
    async with agent(model=Turns(ModelError("no", "auth"), said("yes"))) as made:
        session = made.new_session()
        assert (await made.run("go", session)).state == "error"
        assert made.store.get(session.id).state == "idle"
        assert (await made.run(None, session)).state == "done"


async def test_cancelling_a_summary_over_a_socket_lets_the_session_go_on() -> None:
    """Over a real socket: the provider sends the beginning of a summary, and then nothing but pings."""
    events = chat_reply()[:3]
    end = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    whole = Answer([*events, end, data("[DONE]")])
    async with (
        provider(whole, whole, Answer(events, pings=True), whole) as server,
        agent(model=model(server, "chat")) as made,
    ):
        session = made.new_session()
        await made.run("go " * 2_000, session)
        await made.run("and then?", session)
        before = list(session.entries)
        running = asyncio.create_task(made.compact(session))
        await until(lambda: len(server.requests) == 3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        again = made.session(session.id)
        assert again.entries == before
        assert (await made.run("more", again)).state == "done"
        assert len(server.requests) == 4


async def test_a_cancelled_summary_leaves_the_history_as_it_was() -> None:
    """What came of the summary is no reply: the person has not seen it, and the model did not say it to anybody."""
    for stage in ("by hand", "in a turn"):
        begun = asyncio.Event()

        class Slow(Turns):
            async def stream(self, request: Any, begun: asyncio.Event = begun) -> Any:
                last = request.history[-1]
                if isinstance(last, UserTurn) and "summary" in last.text:
                    yield TextDelta("Half a summ")
                    begun.set()
                    await asyncio.Event().wait()
                async for event in super().stream(request):
                    yield event

        slow = Slow(said("word " * 900, usage=900), said("after", usage=5), said("again", usage=5))
        async with agent(model=slow) as made:
            session = made.new_session()
            await made.run("go " * 500, session)
            before = list(session.entries)
            made.settings = AgentSettings(context_window=1_000)
            work: Any = made.compact(session) if stage == "by hand" else made.run("more", session)
            running = asyncio.create_task(work)
            await until(begun.is_set, 60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            again = made.session(session.id)
            assert again.entries[: len(before)] == before
            assert [e for e in again.entries[len(before) :] if not isinstance(e, UserTurn)] == []
            assert made.store.get(session.id).state == "idle"
            made.settings = AgentSettings()
            outcome = await made.run(None if stage == "in a turn" else "more", again)
            assert isinstance(outcome, Outcome)
            assert (outcome.state, outcome.text) == ("done", "after")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_no_message_falls_between_the_last_look_and_the_end(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Two connections race, again and again: a message that is said to be read was there at the last look."""
    url = request.getfixturevalue("postgres_url") if engine == "postgres" else ""
    state = StateFolder.for_workspace(tmp_path / "work", tmp_path / "state", url=url)
    runner, sender = SessionStore(state), SessionStore(state)
    session = runner.create(model="m", system="s").id
    both, lost = threading.Barrier(2), 0
    turn = UserTurn((Text("more"),))
    promised: list[bool] = []

    def send() -> None:
        for _ in range(ROUNDS):
            both.wait()
            promised.append(sender.send(session, "steer", turn))
            both.wait()

    sending = threading.Thread(target=send)
    sending.start()
    for number in range(ROUNDS):
        runner.update(session, state="running")
        both.wait()
        ended = runner.end_turn(session)
        both.wait()
        lost += ended and promised[number]
        while runner.take(session, len(runner.turns(session)), ("steer",)) is not None:
            pass
    sending.join()
    assert lost == 0
    runner.update(session, state="running")
    assert (sender.send(session, "steer", turn), runner.end_turn(session)) == (True, False)
    assert runner.take(session, len(runner.turns(session)), ("steer",)) == turn
    assert (runner.end_turn(session), sender.send(session, "steer", turn)) == (True, False)
    runner.close()
    sender.close()


KEY = "ghp_" + "A1b2C3d4" * 4 + "E5f6"


def stored(made: Any) -> str:
    """Return all that the tables of sessions have."""
    tables = ("agent_session", "agent_turn", "agent_message", "agent_result")
    with sqlite3.connect(made.store._where) as other:
        return "\n".join(str(row) for table in tables for row in other.execute(f"SELECT * FROM {table}"))


async def test_no_secret_that_a_model_writes_stays_in_a_session() -> None:
    said = ModelTurn((Thinking(f"is it {KEY}?", [{"signature": "x"}]), Text(f"The key is {KEY}.")), "end")
    calls = ModelTurn(
        (
            Thinking(f"try {KEY}", None),
            ModelCall("1", "note", json.dumps({"text": KEY})),
            ModelCall("2", "todo", json.dumps({"items": [{"text": f"use {KEY}", "status": "doing"}]})),
        ),
        "calls",
    )
    got: list[str] = []

    @tool(category="memory")
    def note(text: str) -> str:
        """Keep a text."""
        got.append(text)
        return "kept"

    async with agent(model=Turns(calls, said, said), tools=[note]) as made:
        session = made.new_session(f"use {KEY}")
        assert (await made.run("go", session)).text == f"The key is {KEY}."
        assert got == [KEY]
        made.store.send(session.id, "steer", user(f"it is {KEY}", source="job"))
        assert KEY not in stored(made)
        assert (await made.run("again", made.session(session.id))).state == "done"
        assert KEY not in stored(made)
        made.store.send(session.id, "steer", user(f"mine is {KEY}"))  # what a person writes goes to the model as it is
        assert KEY in stored(made)


async def test_a_call_that_waits_has_its_secret_until_it_has_run() -> None:
    wait = {"calls": [call("launch", key=KEY)]}
    got: list[str] = []

    @tool(category="destructive")
    def launch(key: str) -> str:
        """Launch."""
        got.append(key)
        return "launched"

    async with agent(wait, {"text": "done"}, tools=[launch]) as made:
        session = made.new_session()
        (waits,) = (await made.run("go", session)).waiting
        assert made.box.approvals.resolve(waits["approval"], True, approver="cli:me")
        assert (await made.run(None, made.session(session.id))).text == "done"
        assert got == [KEY]
        assert KEY not in stored(made)


@pytest.mark.parametrize("damage", ["extra='{'", "extra='[]'", "waiting='x'", "usage='[]'", """usage='{"later":1}'"""])
def test_a_damaged_session_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    store = SessionStore(StateFolder.for_workspace(tmp_path, tmp_path / "state"))
    bad, good = (store.create(model="m", system="", chat=["c", each]).id for each in "12")
    store._run(f"UPDATE agent_session SET {damage} WHERE id = ?", bad)
    assert [row.id for row in store.list()] == [row.id for row in store.chats("c")] == [good]
    assert f"the session {bad} cannot be read" in caplog.text
    with pytest.raises(SessionError, match=f"the session {bad} cannot be read"):
        store.get(bad)


def test_a_damaged_message_is_an_error_of_its_session(tmp_path: Path) -> None:
    store = SessionStore(StateFolder.for_workspace(tmp_path, tmp_path / "state"))
    bad, good = (store.create(model="m", system="").id for _ in range(2))
    store._run("INSERT INTO agent_message (session, kind, turn) VALUES (?, 'steer', '{')", bad)
    store.send(good, "steer", UserTurn((Text("done"),), source="job"))
    assert store.told() == {good}
    for read in (store.messages, lambda session: store.waiting(session, ("steer",))):
        with pytest.raises(SessionError, match=f"the session {bad} cannot be read"):
            read(bad)
