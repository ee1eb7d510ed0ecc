"""Jobs and schedules: what runs in the background, and what a person does with it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing, nullcontext
from typing import Any

import pytest

from toolcrib.core.errors import ToolError, UnknownName
from toolcrib.jobs.engine import Job, JobOutcome, JobRun, JobStatus
from toolcrib.jobs.host import jobs_file
from toolcrib.jobs.opening import open_engine
from toolcrib.jobs.placing import schedules_of
from toolcrib.jobs.schedule import Every
from toolcrib.jobs.schedules import Schedule, ScheduledRun
from toolcrib.serve.console.acts import SentForm
from toolcrib.serve.console.jobs import JobList, OneJob, job_page, jobs_page, send_by_worker, session_of
from toolcrib.serve.console.page import Frame
from toolcrib.serve.console.schedules import ScheduleList, schedules_page

from .conftest import Open, Room
from .test_hostile import ALLOWED, CONTROL, HOSTILE, OUTSIDE, Tags


async def with_engine(room: Room, *jobs: Job, fail: bool = False) -> dict[str, JobStatus]:
    """Submit jobs, and run them to their end if they should fail."""
    engine = open_engine(str(jobs_file(room.box.state.path)))

    async def run(job: Job, run: JobRun) -> JobOutcome:
        await run.emit("output", f"looked at {job.id}\n")
        return JobOutcome("failed", reason="there was no rocket")

    try:
        for job in jobs:
            await engine.submit(job)
        if fail:
            await engine.work(run)
            for job in jobs:
                await engine.result(job.id, 60)
        return {status.job.id: status for status in await engine.jobs()}
    finally:
        await engine.aclose()


def acted(console: Open, view: str, **given: str) -> str:
    return console.ask("POST", view, {"form": console.form(), **given}).text


def test_a_job_is_cancelled_and_one_that_failed_runs_again(room: Room, console: Open) -> None:
    waits = Job("call", {"tool": "launch", "arguments": {"what": "<b>"}}, id="waits", not_before=time.time() + 600)
    asyncio.run(with_engine(room, Job("call", {"tool": "launch"}, id="failed"), fail=True))
    asyncio.run(with_engine(room, waits))
    console.enter()
    text = console.ask("GET", "jobs").text
    assert "No worker runs now" in text
    assert "no worker takes it" in text
    assert "there was no rocket" in text
    assert "looked at failed" in console.ask("GET", "job?id=failed").text
    text = console.ask("GET", "job?id=waits").text
    assert "&lt;b&gt;" in text
    assert "waits is cancelled" in acted(console, "job", id="waits", act="cancel")
    assert "has ended already" in acted(console, "job", id="waits", act="cancel")
    assert "It runs again as job-" in acted(console, "job", id="failed", act="again")
    found = asyncio.run(with_engine(room))
    assert found["waits"].state == "cancelled"
    assert len(found) == 3
    dids = [json.loads(row["arguments"] or "")["did"] for row in room.box.audit.query(kind="person")]
    assert dids == ["run again", "cancel", "cancel"]
    got = console.ask("GET", "job?id=none")
    assert (got.status, "no job none" in got.text) == (404, True)


def test_a_worker_goes_on_with_a_session(room: Room, console: Open) -> None:
    from toolcrib.agent.store import SessionStore

    with closing(SessionStore(room.box.state)) as store:
        session = store.create(model="scripted:x", system="")
    console.enter()
    assert "Submitted as job-" in acted(console, "session", id=session.id, act="work", text="go on")
    [status] = asyncio.run(with_engine(room)).values()
    assert (status.job.kind, status.job.body["text"], status.job.body["session"]) == ("message", "go on", session.id)
    assert status.job.workspace == str(room.box.workspace.root)


def test_where_no_worker_ever_was_a_message_says_how_to_start_one(room: Room) -> None:
    def jobs() -> Any:
        raise UnknownName("there are no jobs here")

    form = SentForm({"id": "s", "text": "go on"}, "me", lambda: room.box.state.record)
    sent = send_by_worker(form, jobs, "dbos", lambda: nullcontext(room.box))
    with pytest.raises(ToolError, match=r"Start one: toolcrib worker\. Then send it again"):
        asyncio.run(sent)


def test_a_job_that_is_a_session_is_paused_there(room: Room, console: Open) -> None:
    from toolcrib.agent.store import SessionStore

    with closing(SessionStore(room.box.state)) as store:
        old = store.create(model="scripted:x", system="")
        new = store.create(model="scripted:x", system="", job="asks")
    state = room.box.state
    for job, session in (
        (Job("message", {"text": "x", "session": old.id}), old.id),
        (Job("message", {"text": "x"}, id="asks"), new.id),
        (Job("subagent", {"text": "x", "session": old.id, "subagent": new.id}), new.id),
        (Job("message", {"text": "x"}, id="not-begun"), ""),
        (Job("call", {"tool": "launch", "session": old.id}), ""),
    ):
        assert session_of(state, job) == session
        made = job_page(OneJob(JobStatus(job, "running", 1.0), {}, "", session), Frame("jobs", "secret"))
        assert ("A call cannot be paused" in made) == (not session)
        assert (f'To pause it, pause <a href="session?id={session}">' in made) == bool(session)


def test_with_the_engine_in_memory_no_page_says_to_start_a_worker(room: Room, schedule: Schedule) -> None:
    frame = Frame("jobs", "secret")
    needs = "needs jobs.engine = &quot;dbos&quot;", "With jobs.engine = &quot;dbos&quot;: toolcrib worker"
    assert needs[0] in schedules_page(ScheduleList([schedule], False), "memory", frame)
    assert needs[1] in jobs_page(JobList([], {}), "memory", frame)


@pytest.fixture
def schedule(room: Room) -> Schedule:
    with closing(schedules_of(room.box)) as schedules:
        return schedules.add("stars", Every(3_600, 0), Job("message", {"text": "count the stars"}))


def test_a_schedule_is_run_paused_and_resumed(room: Room, page: Any, schedule: Schedule) -> None:
    page.get_by_role("link", name="Schedules").click()
    article = page.locator("article").filter(has_text="stars")
    text = article.inner_text()
    for part in ("count the stars", "every", "It has not run yet", "a person"):
        assert part in text
    with closing(schedules_of(room.box)) as schedules:
        article.get_by_role("button", name="Run now").click()
        page.get_by_text("stars runs as soon as a worker looks for it").wait_for()
        asked = schedules.get("stars")
        assert asked.asked is not None
        article.get_by_role("button", name="Pause").click()
        article.get_by_role("button", name="Resume").wait_for()
        assert schedules.get("stars").state == "paused"
        article.get_by_role("button", name="Resume").click()
        article.get_by_role("button", name="Pause").wait_for()
        assert schedules.get("stars").state == "active"
        now = schedules.get("stars")
        run = ScheduledRun(1_700_000_000, "failed", "sched-stars-1", text="no telescope")
        assert schedules.move(now, now.with_run(run))
    article.get_by_text("Latest runs (1)").click()  # it appeared by itself
    assert "no telescope" in article.inner_text()
    dids = [json.loads(row["arguments"] or "")["did"] for row in room.box.audit.query(kind="person")]
    assert dids == ["resume the schedule", "pause the schedule", "run the schedule"]


def test_who_may_only_look_changes_no_schedule_and_no_job(room: Room, console: Open, schedule: Schedule) -> None:
    console.enter(read_only=True)
    assert 'method="post"' not in console.ask("GET", "schedules").text
    for name in ("schedule", "job"):
        assert console.ask("POST", name, {"name": "stars", "id": "x", "act": "run"}).status == 403
    with closing(schedules_of(room.box)) as schedules:
        assert schedules.get("stars").asked is None


def test_acts_that_are_not_there(console: Open, schedule: Schedule) -> None:
    console.enter()
    assert "names no act" in acted(console, "schedule", name="stars", act="remove")
    assert "no schedule" in acted(console, "schedule", name="none", act="run")


def test_hostile_texts() -> None:
    for text in HOSTILE:
        frame = Frame("jobs", "secret")
        job = Job("call", {"tool": text, "arguments": {text: text}, "session": text, "schedule": text}, id=text)
        pages = []
        for state in ("failed", "parked", "running"):
            status = JobStatus(job, state, 1.0, 2.0, 3.0, 1, text, {"text": text}, text, (text, f"approval:{text}"))  # type: ignore[arg-type]
            pages += [jobs_page(JobList([status], {}, text), "dbos", frame), job_page(OneJob(status, {}, text), frame)]
        run = ScheduledRun(1, "failed", text, text=text)
        found = Schedule(text, Every(60, 0), job, due=5, runs=(run,))
        pages.append(schedules_page(ScheduleList([found], False), "dbos", frame))
        for made in pages:
            found_tags = Tags(made)
            assert found_tags.tags <= ALLOWED | OUTSIDE, text
            assert not {name for name in found_tags.attributes if name.startswith("on") or name == "style"}, text
            assert CONTROL.search(made) is None, text
