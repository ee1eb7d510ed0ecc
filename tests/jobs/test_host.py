"""What a toolbox gets for its jobs."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from toolcrib import tool
from toolcrib.jobs import host as hosts
from toolcrib.jobs.bodies import CallBody, MessageBody
from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, pack
from toolcrib.jobs.host import JobHost
from toolcrib.jobs.placing import placement
from toolcrib.jobs.schedules import GONE_SECONDS, Schedules
from toolcrib.jobs.waits import Waits
from toolcrib.testing import temporary_toolbox
from toolcrib.toolbox import Toolbox

from ..waiting import until
from .worker_process import Worker, lines


@pytest.mark.parametrize("disabled", [(), ("job", "schedule_task")])
async def test_disabled_tools_are_not_offered(disabled: tuple[str, ...]) -> None:
    async with temporary_toolbox({"toolcrib.toml": f"[tools]\ndisabled = {list(disabled)}\n"}) as box:
        host = JobHost(box)
        host.offer()
        offered = {name for name in ("job", "cron", "schedule_task") if box.registry.find(name) is not None}
        assert offered == {"job", "cron", "schedule_task"}.difference(disabled)
        await host.aclose()
        assert box.registry.find("cron") is None


async def test_a_worker_that_is_silent_has_ended() -> None:
    async with temporary_toolbox() as box:
        schedules = Schedules(box.state.record)
        assert not schedules.has_worker(1000)
        schedules.seen(1000)
        assert schedules.has_worker(1000 + GONE_SECONDS - 1)
        assert not schedules.has_worker(1000 + GONE_SECONDS)
        schedules.close()


@tool(category="destructive")
def launch(what: str) -> str:
    """Launch something."""
    return f"launched {what}"


Open = Callable[[str], AbstractAsyncContextManager[JobHost]]


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """A host of jobs with settings."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(hosts, "SWEEP_SECONDS", 0.05)

    @asynccontextmanager
    async def opened(settings: str) -> AsyncIterator[JobHost]:
        work, config = tmp_path / "work", tmp_path / "config.toml"
        work.mkdir()
        config.write_text(f"[jobs]\n{settings}\n")
        async with Toolbox.open(work, config=config, tools=[launch]) as box:

            async def has_read(session: str) -> bool:
                return session == "reader"

            host = JobHost(box, has_read=has_read)
            try:
                yield host
            finally:
                await host.aclose()

    return opened


def call(host: JobHost, name: str) -> Job:
    body = CallBody(tool=name, arguments={"what": "it"} if name == "launch" else {})
    return Job("call", body.to_json(), **placement(host.box))


async def test_the_jobs_of_a_worker_that_was_killed_run_here(
    hosted: Open, tmp_path: Path, jobs_file: str, nursery: subprocess.Popen[str]
) -> None:
    other = Worker(nursery, jobs_file, tmp_path / "log")
    try:
        await until(lambda: lines(tmp_path / "log"))
        async with hosted(f'url = "{jobs_file}"') as host:
            said: list[str] = []
            host.say = said.append
            engine = await host.engine()
            assert "another worker" in host.elsewhere
            wanted = f"waits for toolcrib worker --config {tmp_path / 'config.toml'}"
            assert [text.endswith(wanted) for text in said] == [True]
            job = await engine.submit(call(host, "list_dir"))
            other.kill()
            assert (await engine.result(job, 60)).state == "done"
            assert host.elsewhere == ""
    finally:
        other.kill()


async def test_who_has_the_usual_settings_waits_for_no_other_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    said: list[str] = []
    strict = tmp_path / "my strict.toml"
    strict.touch()
    engine = DurableEngine(f"sqlite:///{tmp_path}/jobs.db")
    assert await engine.workers() == {}  # the one that held the place has just ended
    for config in (None, strict):
        async with Toolbox.open(tmp_path, config=config) as box:
            await JobHost(box, say=said.append)._say_who_waits(engine)
    await engine.aclose()
    assert [text.partition(" waits for ")[2] for text in said] == [f"toolcrib worker --config '{strict}'"]


async def test_what_is_started_under_a_file_of_settings_runs_nowhere_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    files = [tmp_path / "my strict.toml", tmp_path / "work" / "other" / "my strict.toml", tmp_path / "toolcrib.toml"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('[rules]\nask = ["Bash(date *)"]\n')
    (tmp_path / "link.toml").symlink_to(files[0])
    takes: dict[tuple[str, str], bool] = {}
    names = ["", "my strict.toml", "link.toml", "work/other/my strict.toml", "toolcrib.toml"]
    for made in names:
        async with Toolbox.open(tmp_path, config=made and tmp_path / made) as box:
            job = Job("call", CallBody(tool="echo").to_json(), **placement(box))
            pack(job)
        for has in names:
            async with Toolbox.open(tmp_path, config=has and tmp_path / has) as box:
                takes[made, has] = JobHost(box).serves.has(job)
    project = {"", "toolcrib.toml"}  # what is read without being named adds nothing
    same = [project, {"my strict.toml", "link.toml"}, {"work/other/my strict.toml"}]
    assert takes == {
        (made, has): made in project or any({made, has} <= each for each in same) for made in names for has in names
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('engine = "memory"', "Jobs end with this process, because they are only in memory: 1 parked."),
        ('engine = "dbos"', "Jobs have not ended: 1 parked. A call that runs is cut off; the others go on in the next"),
    ],
)
async def test_it_is_said_which_jobs_have_not_ended(hosted: Open, settings: str, said: str) -> None:
    async with hosted(settings) as host:
        assert await host.left() == ""
        engine = await host.engine()
        done, parks = call(host, "list_dir"), call(host, "launch")
        for job in (done, parks):
            await engine.submit(job)
        await engine.result(done.id, 60)
        async with asyncio.timeout(60):
            while (await engine.status(parks.id)).state != "parked":
                await asyncio.sleep(0.01)
        assert (await host.left()).startswith(said)
        await engine.cancel(parks.id)
        assert await host.left() == ""


@pytest.mark.parametrize("settings", ['engine = "memory"', 'engine = "dbos"'])
async def test_the_jobs_of_another_place_with_the_same_record_are_left_alone(hosted: Open, settings: str) -> None:
    """Two chats with their jobs in memory, or two machines with theirs in a file: who knew nothing of a job took its
    answer for one of a job that was deleted, and the job waited for ever."""
    async with hosted(settings) as host:
        other = Waits(host.box.state.record, "elsewhere")
        engine = await host.engine()
        parks = call(host, "launch")
        other.begin("job-x")
        await engine.submit(parks)
        async with asyncio.timeout(60):
            while not (waits_for := (await engine.status(parks.id)).waits_for):
                await asyncio.sleep(0.01)
        other.add("job-x", waits_for)
        assert host.box.approvals.resolve(waits_for[0].removeprefix("approval:"), True, approver="me")
        assert (await engine.result(parks.id, 60)).state == "done"
        await until(lambda: not host.waits.of_job(parks.id) and not host.waits.begun())
        assert (other.ready(), other.begun()) == ([(waits_for[0], "job-x")], ["job-x"])
        other.close()


@pytest.mark.parametrize("settings", ['engine = "memory"', 'engine = "dbos"'])
async def test_a_report_that_no_session_has_read_is_said(hosted: Open, settings: str) -> None:
    """What only wakes a session that has read its reports does not wait for a worker."""
    async with hosted(settings) as host:
        engine = await host.engine()
        wakes = {
            session: Job("message", MessageBody("", session=session).to_json(), not_before=2e9, **placement(host.box))
            for session in ("reader", "other")
        }
        for job in wakes.values():
            await engine.submit(job)
        said = "The session other has a report that it has not read: go on with `toolcrib run --session other`."
        assert await host.left() == await host.left() == said
        states = {session: (await engine.status(job.id)).state for session, job in wakes.items()}
        assert states == {"reader": "cancelled", "other": "queued"}
