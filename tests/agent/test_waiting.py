"""Subagents that wait for an approval: they go on by themselves after it, wherever the answer came from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib import tool
from toolcrib.agent import agent as module
from toolcrib.agent import channel_host, waiting
from toolcrib.agent.events import Outcome
from toolcrib.agent.history import UserTurn
from toolcrib.agent.session import AgentSession
from toolcrib.agent.session_lock import SessionTaken
from toolcrib.agent.waiting import waits_of
from toolcrib.cli.agent import conversation
from toolcrib.cli.agent.conversation import Conversation
from toolcrib.cli.agent.display import AnswerLines
from toolcrib.policy.replies import answer_reply
from toolcrib.testing import FakeApprover

from ..waiting import until
from .test_channel_host import place
from .test_loop import agent, call
from .test_subagents import ByTask

LOOK = [[call("delete_file", path="a.txt")], "I removed it."]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (module, channel_host):
        monkeypatch.setattr(each, "POLL_SECONDS", 0.01)


def reports(session: AgentSession) -> list[str]:
    return [e.text for e in session.entries if isinstance(e, UserTurn) and e.source == "subagent"]


def approve(made: Any) -> None:
    (row,) = made.box.approvals.pending()
    assert answer_reply(made.box.approvals, f"yes {row['id']}", "cli:me")


async def test_it_goes_on_while_its_parent_still_works() -> None:
    go = asyncio.Event()

    @tool(category="memory")
    async def hold() -> str:
        """Wait."""
        await go.wait()
        return "held"

    model = ByTask(go=[[call("spawn", task="look", label="looker")], [call("hold")], "I wait.", "All done."], look=LOOK)
    async with agent(model=model, tools=[hold]) as made:
        session = made.new_session()
        running = asyncio.create_task(made.run("go", session))
        await until(lambda: made.box.approvals.pending())
        approve(made)
        await until(lambda: not (made.box.workspace.root / "a.txt").exists())
        await until(lambda: not made.store.children(session.id)[0].extra.get("background"))
        go.set()
        outcome = await running
        assert (outcome.state, outcome.waiting) == ("done", ())
        said = reports(session)
        assert "waits for an approval" in said[0]
        assert "goes on by itself" in said[0]
        assert "I removed it." in said[-1]


@pytest.mark.parametrize("wait", [True, False])
async def test_a_run_names_what_its_subagent_waits_for_and_the_next_one_goes_on(wait: bool) -> None:
    model = ByTask(
        go=[[call("spawn", task="look", label="looker", wait=wait)], "I wait.", "Still.", "Done."], look=LOOK
    )
    async with agent(model=model) as made:
        session = made.new_session()
        outcome = await made.run("go", session)
        assert outcome.state == "done"
        (waits,) = outcome.waiting
        assert (waits["tool"], waits["subagent"]) == ("delete_file", "looker")
        assert waits_of(made.store, session.id) == outcome.waiting
        again = made.session(session.id)
        assert (await made.run(None, again)).waiting == outcome.waiting  # nothing was answered
        before = len(reports(again))
        assert before == (0 if wait else 1)
        approve(made)
        again = made.session(session.id)
        outcome = await made.run(None, again)
        assert outcome.waiting == ()
        assert not (made.box.workspace.root / "a.txt").exists()
        assert len(reports(again)) == before + 1
        assert "I removed it." in reports(again)[-1]
        assert waits_of(made.store, session.id) == ()


async def test_a_subagent_that_is_answered_in_part_does_not_report_again() -> None:
    both = [[call("delete_file", path="a.txt"), call("delete_file", path="b.txt")], "Both are gone."]
    model = ByTask(go=[[call("spawn", task="look")], "I wait.", "Still.", "Done."], look=both)
    async with agent(model=model, files={"a.txt": "", "b.txt": ""}) as made:
        session = made.new_session()
        await made.run("go", session)
        first, second = made.box.approvals.pending()
        answer_reply(made.box.approvals, f"yes {first['id']}", "cli:me")
        outcome = await made.run(None, session)
        assert [waits["approval"] for waits in outcome.waiting] == [second["id"]]
        assert len(reports(session)) == 1
        answer_reply(made.box.approvals, f"no {second['id']}", "cli:me")
        outcome = await made.run(None, session)
        assert outcome.waiting == ()
        assert len(reports(session)) == 2
        assert [p.name for p in sorted(made.box.workspace.root.iterdir())] == ["b.txt"]


async def test_a_request_that_expired_is_asked_anew_with_the_next_run() -> None:
    model = ByTask(go=[[call("spawn", task="look")], "I wait.", "Still.", "Done."], look=LOOK)
    async with agent(model=model) as made:
        session = made.new_session()
        (waits,) = (await made.run("go", session)).waiting
        made.box.approvals.expire(waits["approval"])
        (anew,) = (await made.run(None, session)).waiting
        assert anew["approval"] != waits["approval"]
        assert len(reports(session)) == 2
        approve(made)
        assert (await made.run(None, session)).waiting == ()
        assert not (made.box.workspace.root / "a.txt").exists()


async def test_in_a_chat_it_is_asked_there_and_the_answer_lets_it_go_on() -> None:
    model = ByTask(
        go=[[call("spawn", task="look", label="looker")], "I wait.", "I still wait.", "All done."], look=LOOK
    )
    async with place(model=model) as made:
        said = await made.says("go")
        assert said[0] == "I still wait."
        assert "delete_file waits for approval" in said[1]
        ident = made.box.approvals.pending()[0]["id"]
        assert f"yes {ident}" in said[1]
        said = await made.says(f"yes {ident}")
        assert said[0].startswith("Approved delete_file")
        assert said[1:] == ["All done."]
        assert not (made.box.workspace.root / "a.txt").exists()


@pytest.mark.parametrize("command", ["/new", "/stop"])
async def test_what_a_subagent_waits_for_ends_with_the_turn_of_its_chat(command: str) -> None:
    model = ByTask(go=[[call("spawn", task="look")], "I wait."], look=LOOK)
    async with place(model=model) as made:
        await made.says("go")
        ident = made.box.approvals.pending()[0]["id"]
        await made.says(command)
        assert "is expired" in (await made.says(f"yes {ident}"))[0]
        assert (made.box.workspace.root / "a.txt").exists()


async def test_in_a_chat_an_answer_from_elsewhere_lets_it_go_on_also_after_a_restart() -> None:
    for restart in (False, True):
        model = ByTask(go=[[call("spawn", task="look")], "I wait.", "I still wait.", "All done."], look=LOOK)
        async with place(model=model) as made:
            await made.says("go")
            if restart:
                made.restart()
            running = asyncio.create_task(made.host.run())
            approve(made)
            await until(lambda made=made: made.channel.texts()[-1] == "All done.")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("wait", [True, False])
async def test_cancelling_the_parent_while_its_subagent_is_asked_about(wait: bool) -> None:
    """The question is over, the call has not run, and the next run asks again."""
    approver = FakeApprover("silence")
    model = ByTask(go=[[call("spawn", task="look", wait=wait)], "I wait.", "Done."], look=LOOK)
    async with agent(model=model, approve=approver) as made:
        session = made.new_session()
        before = asyncio.all_tasks()
        running = asyncio.create_task(made.run("go", session))
        await until(lambda: approver.asked)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        await until(lambda: not [t for t in asyncio.all_tasks() - before if t is not running and not t.done()])
        assert made.box.approvals.pending() == []
        assert (made.box.workspace.root / "a.txt").exists()
        (child,) = made.store.children(session.id)
        assert (child.state, made.store.get(session.id).state) == ("idle", "idle")
        made.box.approval_service.approver = yes = FakeApprover("yes")
        again = made.session(session.id)
        outcome = await made.run(None, again)
        assert (outcome.state, yes.asked) == ("done", ["delete_file"])
        assert not (made.box.workspace.root / "a.txt").exists()
        (child,) = made.store.children(session.id)
        said = [r.text for e in made.store.turns(child.id) for r in getattr(e, "results", ())]
        assert len(said) == 1


async def test_cancelling_the_parent_while_its_subagent_waits_for_another_process() -> None:
    go = asyncio.Event()

    @tool(category="memory")
    async def hold() -> str:
        """Wait."""
        await go.wait()
        return "held"

    model = ByTask(go=[[call("spawn", task="look")], [call("hold")], "I wait.", "Done."], look=LOOK)
    async with agent(model=model, tools=[hold]) as made:
        session = made.new_session()
        running = asyncio.create_task(made.run("go", session))
        await until(lambda: waits_of(made.store, session.id))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        approve(made)
        go.set()
        outcome = await made.run(None, made.session(session.id))
        assert isinstance(outcome, Outcome)
        assert (outcome.state, outcome.waiting) == ("done", ())
        assert not (made.box.workspace.root / "a.txt").exists()


async def test_a_chat_that_goes_on_waits_while_a_job_runs_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.01)
    async with agent(model=ByTask(go=LOOK)) as made:
        session, display = made.new_session(), AnswerLines()
        talk = Conversation(made, session, display._screen, display, made.box.context, lambda text: None)
        await talk.enter("go")
        await talk.wait()
        run, refused = made.run, list[Exception]()

        async def noted(*args: Any, **more: Any) -> Outcome:
            try:
                return await run(*args, **more)
            except SessionTaken as error:
                refused.append(error)
                raise

        looks = list[str]()

        def look(*args: Any) -> Any:
            looks.append(waiting.news_of(*args))
            return looks[-1]

        monkeypatch.setattr(made, "run", noted)
        monkeypatch.setattr(conversation, "news_of", look)
        watch = asyncio.create_task(talk.watch())
        with made.store.running(session.id):
            approve(made)
            await until(lambda: len(looks) > 2)
            assert set(looks) == {""} and not talk.is_running  # the end of its input interrupts nothing
            with monkeypatch.context() as just_before:
                just_before.setattr(made.store, "is_running", lambda _: False)
                await until(lambda: refused)
        await talk.wait()
        assert talk.outcome is not None and (talk.outcome.state, session.answer) == ("done", LOOK[-1])
        watch.cancel()
