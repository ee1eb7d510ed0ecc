"""Schedules from the tool to the chat: the agent makes one, a worker runs it, and the chat that asked hears of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from toolcrib import tool
from toolcrib.agent import Agent
from toolcrib.agent.bus import MessageNotSent, OutboundMessage
from toolcrib.agent.scripted import ScriptedModel
from toolcrib.boundary.own_files import lock_file
from toolcrib.cli.jobs.hosted_jobs import hosted_jobs
from toolcrib.config.channel_settings import ChannelSettings
from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput
from toolcrib.jobs.host import TICKING, JobHost
from toolcrib.jobs.schedules import Schedule, ScheduledRun
from toolcrib.jobs.ticker import Ticker
from toolcrib.policy.requests import Decision, answer
from toolcrib.testing import temporary_toolbox
from toolcrib.toolbox import Toolbox

CHAT = ToolContext(channel="team", chat_id="42", session_id="s1")
ran: list[str] = []
sent: list[OutboundMessage] = []
fails: list[MessageNotSent] = []


@tool(category="destructive")
def launch(what: str) -> str:
    """Launch something."""
    ran.append(what)
    return f"launched {what}"


@tool(category="memory", read_only=True)
def look(what: str) -> str:
    """Look at something."""
    return f"{what} is fine"


@dataclass
class Host:
    """A toolbox whose jobs are hosted, with a clock of its own for schedules."""

    box: Toolbox
    jobs: JobHost
    agent: Agent

    async def cron(self, **arguments: Any) -> ToolOutput:
        output = await self.box.call("cron", {"action": "add", **arguments}, CHAT)
        assert not output.is_error, output.for_llm
        return output

    async def tick(self, name: str) -> ScheduledRun:
        """Let the schedule be due, and wait until its run has ended."""
        engine = await self.jobs.engine()
        due = self.jobs.schedules.get(name).due
        assert due is not None
        ticker = Ticker(self.jobs.schedules, self.jobs.engine, lambda: due)
        await ticker.look()
        run = self.jobs.schedules.get(name).runs[0]
        await engine.result(run.job, 30)
        await ticker.settle_some()
        return self.schedule(name).runs[0]

    def schedule(self, name: str) -> Schedule:
        return self.jobs.schedules.get(name)


class Chat:
    """A channel that keeps what is sent."""

    async def send(self, message: OutboundMessage) -> None:
        if fails:
            raise fails.pop()
        sent.append(message)

    async def listen(self, deliver: Any) -> None: ...

    async def aclose(self) -> None: ...


@asynccontextmanager
async def hosted(monkeypatch: Any, *replies: dict[str, Any], schedules: bool = False) -> AsyncIterator[Host]:
    ran.clear()
    sent.clear()
    monkeypatch.setattr("toolcrib.agent.channels.channels_of", lambda box, store: {"team": Chat()})
    async with temporary_toolbox(tools=[launch, look]) as box:
        box.settings = replace(
            box.settings,
            jobs=replace(box.settings.jobs, engine="memory"),
            channels={"team": ChannelSettings(type="terminal")},
        )
        async with await Agent.open(box, ScriptedModel(replies)) as agent:

            async def opened() -> Agent:
                return agent

            async with hosted_jobs(box, opened, schedules=schedules) as jobs:
                yield Host(box, jobs, agent)


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def test_a_message_is_answered_in_the_chat_that_asked_for_it(monkeypatch: Any) -> None:
    replies = (
        {"calls": [call("cron", action="add", message="me again", every_seconds=60), call("look", what="it")]},
        {"text": "All is fine.", "after": "it is fine"},
    )
    async with hosted(monkeypatch, *replies) as host:
        await host.cron(message="Look whether all is fine", every_seconds=3_600, name="watch")
        run = await host.tick("watch")
        assert (run.state, run.text) == ("done", "All is fine.")
        assert [(m.channel, m.chat_id, m.content) for m in sent] == [("team", "42", "All is fine.")]
        assert [each.name for each in host.jobs.schedules.list()] == ["watch"]  # a scheduled run makes no schedules
        (session,) = [row for row in host.agent.sessions() if row.title.startswith("Look")]
        said = [str(entry) for entry in host.agent.session(session.id).entries]
        assert any("a scheduled run makes no schedules" in each for each in said)


async def test_each_run_has_a_session_of_its_own(monkeypatch: Any) -> None:
    async with hosted(monkeypatch, {"text": "one"}, {"text": "one"}) as host:
        await host.cron(message="Count", every_seconds=60, name="count")
        first, second = await host.tick("count"), await host.tick("count")
        assert first.job != second.job
        assert len([row for row in host.agent.sessions() if row.title == "Count"]) == 2


async def test_a_call_is_judged_again_when_it_is_made(monkeypatch: Any) -> None:
    async with hosted(monkeypatch) as host:
        asked = await host.box.call(
            "cron",
            {"action": "add", "name": "up", "tool": "launch", "arguments": {"what": "it"}, "every_seconds": 60},
            CHAT,
        )
        assert asked.error_kind == "pending"
        assert answer(host.box.approvals, asked.meta["approval_id"], Decision(True, approver="me")).kept
        await host.cron(name="up", tool="launch", arguments={"what": "it"}, every_seconds=60)
        ticking = asyncio.create_task(host.tick("up"))
        engine = await host.jobs.engine()
        async with asyncio.timeout(60):
            while not (parked := await engine.jobs(states=("parked",))):
                await asyncio.sleep(0.01)
        assert not ran
        request = parked[0].waits_for[0].removeprefix("approval:")
        assert answer(host.box.approvals, request, Decision(True, approver="me")).kept
        assert (await ticking).state == "done"
        assert ran == ["it"]
        assert "launched it" in sent[-1].content


async def test_an_outcome_comes_to_its_chat_at_least_once(monkeypatch: Any) -> None:
    monkeypatch.setattr("toolcrib.jobs.host.SWEEP_SECONDS", 0.02)
    async with hosted(monkeypatch) as host:
        await host.cron(name="look", tool="look", arguments={"what": "it"}, every_seconds=3_600)
        fails.extend(MessageNotSent("the network is away") for _ in range(3))
        run = await host.tick("look")
        async with asyncio.timeout(60):
            while host.jobs.waits.begun():
                await asyncio.sleep(0.01)
        assert [message.content for message in sent] == ["it is fine"] and not fails
        host.jobs.waits.begin(run.job)  # as after a kill between the message and the note that it was sent
        async with asyncio.timeout(60):
            while host.jobs.waits.begun():
                await asyncio.sleep(0.01)
        assert len(sent) == 1


async def test_a_channel_that_never_takes_an_outcome_is_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr("toolcrib.jobs.host.SWEEP_SECONDS", 0.02)
    monkeypatch.setattr("toolcrib.cli.jobs.agent_work.SEND_TRIES", 3)
    async with hosted(monkeypatch) as host:
        await host.cron(name="look", tool="look", arguments={"what": "it"}, every_seconds=3_600)
        fails.extend(MessageNotSent("there is no such chat") for _ in range(10))
        await host.tick("look")
        async with asyncio.timeout(60):
            while host.jobs.waits.begun():
                await asyncio.sleep(0.01)
        assert len(fails) == 7 and not sent
        fails.clear()


async def test_the_ticker_of_the_host_runs_a_schedule(monkeypatch: Any) -> None:
    async with hosted(monkeypatch, schedules=True) as host:
        await host.cron(name="look", tool="look", arguments={"what": "it"}, every_seconds=3_600)
        await host.box.call("cron", {"action": "run", "job_id": "look"}, CHAT)
        async with asyncio.timeout(60):
            while not sent:
                await asyncio.sleep(0.02)
        assert "it is fine" in sent[0].content
        assert host.jobs.schedules.has_worker(time.time())


async def test_of_two_processes_with_jobs_in_memory_one_runs_the_schedules(monkeypatch: Any) -> None:
    monkeypatch.setattr("toolcrib.jobs.host.SWEEP_SECONDS", 0.02)
    async with hosted(monkeypatch) as host:
        path = host.box.state.path / TICKING
        others = lock_file(path)
        host.jobs.tick()
        await asyncio.sleep(1.2)
        assert not host.jobs.schedules.has_worker(time.time())
        os.close(others)
        async with asyncio.timeout(60):
            while not host.jobs.schedules.has_worker(time.time()):
                await asyncio.sleep(0.05)
        assert lock_file(path, wait=False) is None
