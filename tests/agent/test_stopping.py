"""A person stops a turn from another process: here by a store of its own, as a second process has."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib import tool
from toolcrib.agent import RunLimits, stopping
from toolcrib.agent.events import AgentEvent, TurnPaused
from toolcrib.agent.history import ModelTurn, ResultTurn, user
from toolcrib.agent.model import ModelEvent, ModelRequest, TextDelta
from toolcrib.agent.session import AgentSession
from toolcrib.agent.session_tables import STEPS
from toolcrib.agent.store import SessionStore
from toolcrib.core.errors import ToolcribError
from toolcrib.record.state import StateFolder

from ..waiting import pass_time, until
from .test_loop import agent, call
from .test_subagents import ByTask


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "LOOK_SECONDS", 0.01)


class Hanging:
    """A model that begins a reply, and never ends it."""

    name = "scripted:hanging"

    def __init__(self) -> None:
        self.ended = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        try:
            yield TextDelta("I thi")
            await asyncio.sleep(600)
        finally:
            self.ended = True

    async def aclose(self) -> None: ...


@pytest.mark.usefixtures("record")
async def test_a_request_to_the_model_is_cancelled() -> None:
    model = Hanging()
    async with agent(model=model) as made, asyncio.timeout(60):
        session = made.new_session()
        seen: list[AgentEvent] = []
        running = asyncio.create_task(made.run("go", session, emit=seen.append))
        with closing(SessionStore(made.box.state)) as other:
            await until(lambda: any(isinstance(event, TextDelta) for event in seen))
            assert other.ask_to_stop(session.id, "cancel", "cli:ann")
            outcome = await running
            assert (outcome.state, outcome.text, outcome.reason) == (
                "interrupted",
                "I thi",
                "cli:ann cancelled the turn",
            )
            assert seen[-1] is outcome
            assert model.ended
            assert other.get(session.id).state == "idle"
            assert not other.ask_to_stop(session.id, "cancel", "cli:ann")  # no turn runs any more
        made.models[0] = ByTask(other=["on it goes"])
        assert (await made.run(None, session)).text == "on it goes"  # the old wish does not count for it


@pytest.mark.usefixtures("record")
async def test_a_call_is_cancelled_and_the_model_learns_that_it_was_cut_off() -> None:
    steps = [{"calls": [call("exec", command="touch begun; sleep 600")]}, {"text": "I see.", "after": "interrupted"}]
    async with agent(*steps, mode="autonomous") as made, asyncio.timeout(60):
        session = made.new_session()
        running = asyncio.create_task(made.run("go", session))
        with closing(SessionStore(made.box.state)) as other:
            await until((Path(made.box.workspace.root) / "begun").exists)  # a call that has not begun runs later
            assert other.ask_to_stop(session.id, "cancel", "cli:ann")
        assert (await running).state == "interrupted"
        assert (await made.run(None, session)).text == "I see."


async def test_cancelling_the_task_itself_is_still_a_cancellation() -> None:
    async with agent(model=Hanging()) as made:
        session = made.new_session()
        seen: list[AgentEvent] = []
        running = asyncio.create_task(made.run("go", session, emit=seen.append))
        await until(lambda: any(isinstance(event, TextDelta) for event in seen))
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()


@pytest.mark.usefixtures("record", "passing_time")
async def test_a_pause_is_before_the_next_step_and_its_time_does_not_count() -> None:
    began = asyncio.Event()

    @tool(category="memory")
    async def work(number: int) -> str:
        """Work."""
        if number == 1:
            with closing(SessionStore(made.box.state)) as other:
                assert other.ask_to_stop(session.id, "pause", "console:ann")
        began.set()
        return f"worked {number}"

    steps = [{"calls": [call("work", number=1)]}, {"text": "all done", "after": "hurry"}]
    async with agent(*steps, tools=[work]) as made, asyncio.timeout(1_000):
        session = made.new_session()
        seen: list[AgentEvent] = []
        running = asyncio.create_task(made.run("go", session, emit=seen.append, limits=RunLimits(seconds=100)))
        await until(lambda: any(isinstance(event, TurnPaused) for event in seen))
        with closing(SessionStore(made.box.state)) as other:
            row = other.get(session.id)
            assert (other.state_of(row), row.stop, row.stopped_by) == ("paused", "pause", "console:ann")
            assert isinstance(session.last, ResultTurn)  # the step that ran has ended
            pass_time(500)
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert isinstance(session.last, ResultTurn)
            assert other.send(session.id, "steer", user("hurry"))
            assert other.ask_to_stop(session.id, "", "console:bob")
            outcome = await running
        assert (outcome.state, outcome.text) == ("done", "all done")
        assert [event for event in seen if isinstance(event, TurnPaused)] == [TurnPaused(session.id, "console:ann")]


async def test_a_record_that_cannot_be_read_pauses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool(category="memory")
    async def work() -> str:
        """Work."""
        return "worked"

    def unreachable(self: AgentSession) -> str | None:
        raise ToolcribError("the record cannot be reached")

    monkeypatch.setattr(AgentSession, "paused_by", unreachable)
    async with agent({"calls": [call("work")]}, {"text": "all done", "after": "worked"}, tools=[work]) as made:
        assert (await made.run("go")).text == "all done"


async def test_a_paused_turn_runs_no_call_and_can_be_cancelled() -> None:
    ran: list[int] = []

    @tool(category="memory")
    async def work(number: int) -> str:
        """Work."""
        ran.append(number)
        return "worked"

    class Asks(ByTask):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            with closing(SessionStore(made.box.state)) as other:
                assert other.ask_to_stop(session.id, "pause", "cli:ann")
            async for event in super().stream(request):
                yield event

    async with agent(model=Asks(go=[[call("work", number=1)], "done"]), tools=[work]) as made, asyncio.timeout(60):
        session = made.new_session()
        seen: list[AgentEvent] = []
        running = asyncio.create_task(made.run("go", session, emit=seen.append))
        await until(lambda: any(isinstance(event, TurnPaused) for event in seen))
        assert isinstance(session.last, ModelTurn)
        assert session.ask_to_stop("cancel", "cli:bob")
        assert (await running).reason == "cli:bob cancelled the turn"
        assert ran == []


async def test_subagents_pause_with_the_session_that_began_them_and_one_can_be_cancelled_alone() -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    model = ByTask(
        go=[[call("spawn", task="look", label="looker")], "I wait.", "I know."],
        look=[[call("exec", command="true")], [call("exec", command="true")], "seen"],
    )

    async def gate(request: ModelRequest) -> None:
        begun.set()
        await go.wait()

    class Gated(ByTask):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            if getattr(request.history[0], "text", "").startswith("look"):
                await gate(request)
            async for event in super().stream(request):
                yield event

    gated = Gated(**model.answers)
    async with agent(model=gated, mode="autonomous") as made, asyncio.timeout(60):
        session = made.new_session()
        running = asyncio.create_task(made.run("go", session))
        await begun.wait()
        child = made.store.children(session.id)[0]
        assert session.ask_to_stop("pause", "cli:ann")
        go.set()  # its request ends; the call that it asks for does not begin
        await until(lambda: any(isinstance(turn, ModelTurn) for turn in made.store.turns(child.id)))
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not any(isinstance(turn, ResultTurn) for turn in made.store.turns(child.id))
        assert made.store.ask_to_stop(child.id, "cancel", "cli:bob")
        assert session.ask_to_stop("", "cli:ann")
        assert (await running).state == "done"
        texts = [getattr(turn, "text", "") for turn in session.entries]
        assert any("The subagent 'looker' was cancelled." in text and "cli:bob" in text for text in texts), texts


async def test_a_session_whose_process_ended_has_no_turn_to_stop() -> None:
    async with agent({"text": "hello"}) as made:
        session = made.new_session()
        assert not session.ask_to_stop("pause", "cli:ann")
        made.store.update(session.id, state="running")  # as a process leaves it that is killed
        assert not session.ask_to_stop("cancel", "cli:ann")
        assert made.store.state_of(made.store.get(session.id)) == "interrupted"


@pytest.fixture
def older(tmp_path: Path) -> Iterator[StateFolder]:
    """A state folder whose sessions were stored before they could be stopped."""
    state = StateFolder(tmp_path)
    with closing(SessionStore(state)) as store:
        store.create(model="m", system="", title="of before")
    with closing(sqlite3.connect(state.record_db)) as connection:
        for column in ("stop", "stopped_by"):
            connection.execute(f"ALTER TABLE agent_session DROP COLUMN {column}")
        connection.execute("UPDATE part SET version = ? WHERE name = 'sessions'", [len(STEPS) - 1])
        connection.commit()
    yield state


def test_sessions_that_were_stored_before(older: StateFolder) -> None:
    with closing(SessionStore(older)) as store:
        row = store.get("last")
        assert (row.title, row.stop, row.stopped_by) == ("of before", "", "")
