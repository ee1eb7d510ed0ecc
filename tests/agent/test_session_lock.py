"""One process at a time runs a session, in a file and on Postgres; one that may not any more writes nothing."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from toolcrib import tool
from toolcrib.agent import Agent
from toolcrib.agent.bus import InboundMessage, MessageBus
from toolcrib.agent.channel_host import ChannelHost
from toolcrib.agent.history import user
from toolcrib.agent.scripted import ScriptedModel
from toolcrib.agent.session import AgentSession
from toolcrib.agent.session_lease import LeaseOver
from toolcrib.agent.session_lock import SessionError
from toolcrib.agent.store import SessionStore
from toolcrib.cli.agent import conversation
from toolcrib.cli.agent.chat_commands import command_of
from toolcrib.cli.agent.conversation import Conversation
from toolcrib.cli.agent.display import AnswerLines
from toolcrib.cli.agent.run import opened_session, stored_model
from toolcrib.config import load_settings
from toolcrib.policy.requests import ApprovalRequest, Decision, answer
from toolcrib.record.state import StateFolder
from toolcrib.toolbox import Toolbox

from .test_channel_host import ANN, FakeChannel
from .test_loop import call
from .test_subagents import ByTask


def stores(tmp_path: Path, record: str) -> tuple[SessionStore, SessionStore]:
    state = StateFolder.for_workspace(tmp_path / "work", tmp_path / "state", url=record)
    return SessionStore(state), SessionStore(state)


def test_one_store_at_a_time_runs_a_session(tmp_path: Path, record: str) -> None:
    one, two = stores(tmp_path, record)
    row = one.create(model="m", system="s")
    with one.running(row.id):
        one.append(row.id, 0, user("mine"))
        for each in (one, two):
            with pytest.raises(SessionError, match="runs already"), each.running(row.id):
                pass
        two.send(row.id, "steer", user("a message"))
        two.store_result(f"{row.id}.0.question", _result())
    with two.running(row.id):
        two.append(row.id, 1, user("then mine"))
    assert len(one.turns(row.id)) == 2
    one.close()
    two.close()


def test_who_looks_whether_a_session_runs_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = stores(tmp_path, "")
    row = one.create(model="m", system="s")
    looks, found, lock = threading.Barrier(3), list[bool](), fcntl.flock

    def look() -> None:
        found.append(two.is_running(row.id))

    def locked(fd: int, kind: int) -> None:
        lock(fd, kind)
        if threading.current_thread() in lookers and kind != fcntl.LOCK_UN:
            looks.wait(60)
            time.sleep(0.1)

    monkeypatch.setattr(fcntl, "flock", locked)
    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    looks.wait(60)
    with one.running(row.id):
        pass
    for looker in lookers:
        looker.join()
    assert found == [False, False]
    one.close()
    two.close()


def test_who_waits_for_somebody_that_looks_has_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait so would be in each other's way."""
    store, _ = stores(tmp_path, "")
    row, waits = store.create(model="m", system="s"), list[float]()
    with store.running(row.id):
        pass
    [file] = [each for each in (tmp_path / "state").rglob("*") if each.name == row.id]

    def pause(seconds: float) -> None:
        waits.append(seconds)
        fcntl.flock(looking, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(looking, fcntl.LOCK_UN)

    with file.open("r+b") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", pause)
        with store.running(row.id):
            assert len(waits) == 1
    store.close()


def test_a_session_that_somebody_wrote_into_the_database_names_no_file(tmp_path: Path, postgres_url: str) -> None:
    """At the end of a chat empty sessions are removed, also those that others stored."""
    one, _ = stores(tmp_path, postgres_url)
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    row = one.create(model="m", system="s")
    one._run("UPDATE agent_session SET id = ? WHERE id = ?", str(mine), row.id)
    found = one.list()[0]
    with one.running(found.id):
        one.remove(found.id)
    assert mine.read_text() == "mine"
    assert one.list() == []
    one.close()


def _result() -> Any:
    from toolcrib.agent.history import CallResult

    return CallResult("question", "ask_user", "yes")


def test_a_session_that_another_process_took_over_is_not_written(tmp_path: Path, postgres_url: str) -> None:
    one, two = stores(tmp_path, postgres_url)
    row = one.create(model="m", system="s")
    with one.running(row.id):
        one.append(row.id, 0, user("mine"))
        one._connection.execute("UPDATE lease SET until = 1")  # as if it was stopped for longer than its lease
        with two.running(row.id):
            for write in (
                lambda: one.append(row.id, 1, user("late")),
                lambda: one.store_result(f"{row.id}.0.x", _result()),
                lambda: one.update(row.id, state="idle"),
                lambda: one.cut(row.id, 0),
                lambda: one.set_extra(row.id, "todo", []),
                lambda: one.take(row.id, 1, ("steer",)),
                lambda: one.end_turn(row.id),
            ):
                with pytest.raises(LeaseOver):
                    write()
            assert len(two.turns(row.id)) == 1
            assert two.result(f"{row.id}.0.x") is None
            two.append(row.id, 1, user("theirs"))
    one.close()
    two.close()


async def test_a_process_that_was_stopped_makes_no_call_of_a_session_that_another_one_runs(
    tmp_path: Path, postgres_url: str
) -> None:
    """It goes on between the reply and its call, as a machine that slept does."""
    ran: list[str] = []

    @tool(category="destructive")
    async def launch() -> str:
        """Launch it."""
        ran.append("launched")
        return "launched"

    async def approve(request: ApprovalRequest) -> Decision:
        agent.store._connection.execute("UPDATE lease SET until = 1")
        return Decision(True)

    config = tmp_path / "c.toml"
    config.write_text(f"[record]\nurl = {postgres_url!r}\n")
    (tmp_path / "work").mkdir()
    opening = Toolbox.open(tmp_path / "work", config=config, tools=[launch], approve=approve)
    async with opening as box, await Agent.open(box, ByTask(go=[[call("launch")], "done"])) as agent:
        with pytest.raises(LeaseOver):
            await agent.run("go")
        (intent,) = box.audit.query(tool="launch", kind="intent")  # so that the other process does not make it, either
    assert intent["verdict"] == "allow" and not ran


def test_sessions_are_those_of_a_workspace(tmp_path: Path, postgres_url: str) -> None:
    here = SessionStore(StateFolder.for_workspace(tmp_path / "a", tmp_path / "state", url=postgres_url))
    there = SessionStore(StateFolder.for_workspace(tmp_path / "b", tmp_path / "state", url=postgres_url))
    one, two = here.create(model="m", system="NUL \0"), there.create(model="m", system="s")
    assert [row.id for row in here.list()] == [one.id]
    assert there.get("last").id == two.id
    assert here.get(one.id).system == "NUL \ufffd"
    for begins in (one.id, one.id[:4]):  # ids are times: they can be guessed
        assert here.get(begins).id == one.id
    with pytest.raises(SessionError, match="there is no session"):
        there.get(one.id)
    with psycopg.connect(postgres_url, autocommit=True) as other:  # of a later version, or a clock that is wrong
        other.execute("INSERT INTO toolcrib.agent_message (session, kind, turn) VALUES (%s, 'steer', '{}')", [two.id])
        other.execute("UPDATE toolcrib.agent_session SET updated = 9e9 WHERE id = %s", [two.id])
    assert here.told() == frozenset()
    here.update(one.id, title="t")
    assert here.get(one.id).updated < 9e9
    assert here.is_first("key", 2e9)
    assert not here.is_first("key", 2e9)
    assert there.is_first("key", 2e9)
    here.close()
    there.close()


WAITS = b"""SELECT 1 FROM pg_locks WHERE NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""  # not in that of another test


@asynccontextmanager
async def writes_wait(url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Let nobody add a turn within this block. Yields a function that waits until somebody tries."""
    async with await psycopg.AsyncConnection.connect(url) as holder:
        await holder.execute("LOCK TABLE toolcrib.agent_turn IN SHARE MODE")

        async def tried() -> None:  # it comes to its end only if the loop runs while a write waits
            async with asyncio.timeout(60), await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher:
                while not await (await watcher.execute(WAITS)).fetchone():
                    await asyncio.sleep(0.01)

        yield tried


async def test_a_write_that_waits_does_not_hold_up_the_event_loop(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_RECORD__URL", postgres_url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    async with (
        Toolbox.open(tmp_path / "work", builtin=False) as box,
        await Agent.open(box, ScriptedModel([{"text": "first"}, {"text": "second"}])) as agent,
    ):
        session = agent.new_session()
        async with writes_wait(postgres_url) as tried:
            running = asyncio.create_task(agent.run("go", session))
            await tried()
            assert not running.done()
        assert (await running).text == "first"

        async with writes_wait(postgres_url) as tried:
            running = asyncio.create_task(agent.run("go on", session))
            await tried()
            running.cancel()
            await asyncio.sleep(0)
            assert not running.done()  # it is still the one that writes to the session
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(agent.store.turns(session.id)) == len(session.entries) == 3
        assert (await agent.run(None, session)).text == "second"


@pytest.fixture
def far_store(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """`with far_store():` fails if sessions, on Postgres, are used in the event loop's own thread."""
    monkeypatch.setenv("TOOLCRIB_RECORD__URL", postgres_url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    run, loop_thread, in_loop = SessionStore._run, threading.get_ident(), list[str]()

    def watched(self: SessionStore, sql: str, *values: Any) -> list[Any]:
        if threading.get_ident() == loop_thread:
            in_loop.append("".join(traceback.format_stack(limit=8)))
        return run(self, sql, *values)

    @contextmanager
    def watch() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "_run", watched)
            yield
        assert not in_loop, in_loop[0]

    return watch


async def test_a_run_with_subagents_and_a_plan_uses_a_far_store_in_threads(
    tmp_path: Path, far_store: Callable[[], Any]
) -> None:
    plan = call("todo", items=[{"text": "look", "status": "doing"}])
    spawns = call("spawn", task="look here"), call("spawn", task="look there", wait=True)
    model = ByTask(go=[[plan, *spawns], "I wait.", "All is said."], look=["I looked."])
    async with Toolbox.open(tmp_path / "work") as box, await Agent.open(box, model) as agent:
        with far_store():
            outcome = await agent.run("go")
        (session,) = [row for row in agent.sessions() if row.parent is None]
        reports = [turn.text for turn in agent.store.turns(session.id) if getattr(turn, "source", "") == "subagent"]
    assert (outcome.state, session.extra["todo"][0]["text"]) == ("done", "look")
    assert ["is done" in text for text in reports] == [True]


async def test_a_conversation_uses_a_far_store_in_threads(
    tmp_path: Path, far_store: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "POLL_SECONDS", 0.01)
    replies = [
        {"text": "one"},
        {"calls": [call("delete_file", path="a.txt")]},
        {"text": "gone", "after": "Deleted"},
        {"calls": [call("ask_user", question="Which?")]},
        {"text": "so be it", "after": "red"},
    ]
    (tmp_path / "work/a.txt").write_text("alpha")
    async with Toolbox.open(tmp_path / "work") as box, await Agent.open(box, ScriptedModel(replies)) as agent:
        with far_store():
            session, shown, ended = await opened_session(agent, None), AnswerLines(), asyncio.Event()
            talk = Conversation(agent, session, shown._screen, shown, box.context, command_of, ended.set)
            await talk.use(session)
            watch = asyncio.create_task(talk.watch())

            async def enter(line: str) -> None:
                ended.clear()
                await talk.enter(line)
                await talk.wait()

            await enter("first")
            await enter("remove it")
            (request,) = box.approvals.pending()
            ended.clear()
            answer(box.approvals, request["id"], Decision(True, approver="ann"))
            await asyncio.wait_for(ended.wait(), 60)
            assert session.answer == "gone"
            await enter("ask me")
            await enter("red")
            assert session.answer == "so be it"
            monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
            for line in ("/cost", "/plan", "/sessions", "/fork", f"/resume {session.id}", "/rewind 0", "/undo", "/new"):
                await enter(line)
            assert (await stored_model(box, session.id)) == "scripted:replies"
            watch.cancel()


async def test_channels_use_a_far_store_in_threads(tmp_path: Path, far_store: Callable[[], Any]) -> None:
    replies = [{"calls": [call("ask_user", question="Which?")]}, {"text": "so be it", "after": "red"}]
    async with Toolbox.open(tmp_path / "work") as box:
        box.settings = replace(box.settings, channels={"chat": ANN})
        channel = FakeChannel()
        async with await Agent.open(box, ScriptedModel(replies), bus=MessageBus({"chat": channel})) as agent:
            for said in ("paint", "red", "/stop", "/new"):
                host = ChannelHost(agent)
                with far_store():
                    await host._load()
                    await host.handle(InboundMessage("chat", "ann", "c1", said, metadata={"message_id": said}))
                    await host.idle()
            assert channel.texts() == ["Which?", "so be it", "Stopped.", "A new session begins."]


async def test_a_session_that_waits_goes_on_another_machine(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @tool(category="shell")
    async def deploy(version: str) -> str:
        """Deploy."""
        ran.append(version)
        return f"deployed {version}"

    async def machine(name: str) -> Toolbox:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name / "state"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name / "config"))
        os.makedirs(tmp_path / "work", exist_ok=True)
        settings = load_settings(workspace=str(tmp_path / "work"), flags={"record.url": postgres_url})
        return await Toolbox.open(settings=settings, builtin=False, tools=[deploy])

    replies = [{"calls": [call("deploy", version="1")]}, {"text": "done", "after": "deployed"}]
    one = await machine("one")
    first = await Agent.open(one, ScriptedModel(replies))
    session = first.new_session()
    outcome = await first.run("go", session)
    assert outcome.state == "waiting"
    await first.aclose()
    await one.aclose()

    two = await machine("two")
    second = await Agent.open(two, ScriptedModel(replies))
    assert answer(two.approvals, two.approvals.pending()[0]["id"], Decision(True, approver="ann")).kept
    going_on: AgentSession = second.session(session.id)
    assert (await second.run(None, going_on)).text == "done"
    assert ran == ["1"]
    await second.aclose()
    await two.aclose()
