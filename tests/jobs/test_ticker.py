"""The ticker, with a simulated clock: nothing is lost and nothing runs twice, whenever a worker dies."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.jobs.engine import Job, JobError, JobOutcome, JobRun, JobStatus
from toolcrib.jobs.memory import MemoryEngine
from toolcrib.jobs.schedule import At, Every
from toolcrib.jobs.schedules import Schedule, ScheduleOptions, Schedules
from toolcrib.jobs.ticker import FIRST_PAUSE, MAX_PAUSE, ON_TIME, Ticker
from toolcrib.jobs.zones import ScheduleError
from toolcrib.record.connection import Where

NOW = 1_800_000_000
JOB = Job("call", {"tool": "echo", "arguments": {}})


class Killed(BaseException):
    """The process ends here."""


class DyingEngine(MemoryEngine):
    """Ends the process before or after the next submission, if it is told to."""

    dies = ""

    async def submit(self, job: Job) -> str:
        if self.dies == "before":
            raise Killed
        job_id = await super().submit(job)
        if self.dies == "after":
            raise Killed
        return job_id


class World:
    """A clock, an engine and the schedules of a record. Jobs end as `outcome` says."""

    def __init__(self, path: Where) -> None:
        self.now = float(NOW)
        self.schedules, self.engine = Schedules(path), DyingEngine()
        self.ticker = Ticker(self.schedules, self.opened, lambda: self.now)
        self.outcome = JobOutcome("done", {"text": "fine"})
        self.finish = asyncio.Event()
        self.finish.set()

    async def opened(self) -> MemoryEngine:
        return self.engine

    async def work(self) -> None:
        async def run(job: Job, run: JobRun) -> JobOutcome:
            await self.finish.wait()
            return self.outcome

        await self.engine.work(run)

    async def at(self, moment: float) -> None:
        self.now = moment
        await self.ticker.look()

    async def jobs(self) -> list[str]:
        return sorted(status.job.id for status in await self.engine.jobs(limit=10_000))

    async def settled(self) -> None:
        for status in await self.engine.jobs(limit=10_000):
            await self.engine.result(status.job.id, 5)
        await self.ticker.settle_some()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    return tmp_path / "record.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def world(where: Where) -> Iterator[World]:
    found = World(where)
    yield found
    found.schedules.close()


def job_id(name: str, due: int) -> str:
    from datetime import UTC, datetime

    return f"sched-{name}-{datetime.fromtimestamp(due, UTC):%Y%m%d-%H%M%S}"


async def test_a_schedule_runs_when_it_is_due(world: World) -> None:
    world.schedules.add("a", Every(60, NOW), JOB, now=NOW)
    await world.at(NOW + 59.9)
    assert await world.jobs() == []
    await world.at(NOW + 60)
    await world.at(NOW + 61)
    assert await world.jobs() == [job_id("a", NOW + 60)]
    status = await world.engine.status(job_id("a", NOW + 60))
    assert status.job.body == {"tool": "echo", "arguments": {}, "schedule": "a"}
    assert world.schedules.get("a").due == NOW + 120


async def test_the_outcome_is_kept(world: World) -> None:
    world.schedules.add("a", Every(60, NOW), JOB, now=NOW)
    await world.work()
    await world.at(NOW + 60)
    await world.settled()
    world.outcome = JobOutcome("failed", reason="no\nnetwork")
    await world.at(NOW + 120)
    await world.settled()
    runs = world.schedules.get("a").runs
    assert [(run.due, run.state, run.text) for run in runs] == [
        (NOW + 120, "failed", "no network"),
        (NOW + 60, "done", "fine"),
    ]
    await world.engine.aclose()


async def test_a_worker_dies_when_it_deletes_a_schedule(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.schedules.add("once", At(NOW + 60, "UTC"), JOB, now=NOW)
    await world.work()
    await world.at(NOW + 60)

    def dies(schedule: Schedule) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(world.schedules, "delete", dies)
        await world.settled()
    await world.settled()
    assert world.schedules.list() == []


async def test_a_schedule_for_one_time_is_deleted_after_its_run(world: World) -> None:
    world.schedules.add("once", At(NOW + 60, "UTC"), JOB, now=NOW)
    world.schedules.add("kept", At(NOW + 60, "UTC"), JOB, ScheduleOptions(delete_after_run=False), now=NOW)
    await world.at(NOW + 60)
    assert len(world.schedules.list()) == 2  # its job has not ended
    await world.work()
    await world.settled()
    assert [(each.name, each.due, each.runs[0].state) for each in world.schedules.list()] == [("kept", None, "done")]
    await world.at(NOW + 999)
    assert len(await world.jobs()) == 2
    await world.engine.aclose()


@pytest.mark.parametrize(("on_miss", "submitted"), [("run_once", 1), ("skip", 0)])
async def test_missed_runs(world: World, on_miss: Any, submitted: int) -> None:
    world.schedules.add("a", Every(60, NOW), JOB, ScheduleOptions(on_miss), now=NOW)
    await world.at(NOW + 3_661 + ON_TIME)  # no worker was there for an hour
    assert len(await world.jobs()) == submitted
    found = world.schedules.get("a")
    assert found.due == NOW + 3_780
    assert found.runs[0].state == ("queued" if submitted else "missed")


async def test_overlap(world: World) -> None:
    world.schedules.add("skips", Every(60, NOW), JOB, now=NOW)
    world.schedules.add("allows", Every(60, NOW), JOB, ScheduleOptions(overlap="allow"), now=NOW)
    world.finish.clear()
    await world.work()
    for minute in range(1, 4):
        await world.at(NOW + 60 * minute)
    assert await world.jobs() == [
        *(job_id("allows", NOW + 60 * minute) for minute in range(1, 4)),
        job_id("skips", NOW + 60),
    ]
    left_out = world.schedules.get("skips").runs[0]
    assert (left_out.state, left_out.times) == ("overlap", 2)
    assert left_out.text == f"{job_id('skips', NOW + 60)} had not ended"
    world.finish.set()
    await world.settled()
    await world.at(NOW + 240)
    assert job_id("skips", NOW + 240) in await world.jobs()
    await world.engine.aclose()


async def test_runs_that_overlap_are_bounded(world: World) -> None:
    world.schedules.add("a", Every(60, NOW), JOB, ScheduleOptions(overlap="allow"), now=NOW)
    for minute in range(1, 60):
        await world.at(NOW + 60 * minute)
    assert len(await world.jobs()) == 20


async def test_the_only_run_is_not_left_out_for_an_earlier_one(world: World) -> None:
    world.schedules.add("a", At(NOW + 60, "UTC"), JOB, now=NOW)
    world.schedules.run("a", now=NOW + 1)
    await world.at(NOW + 1)
    await world.at(NOW + 60)
    assert len(await world.jobs()) == 2


async def test_failures_make_the_pause_longer(world: World) -> None:
    world.schedules.add("a", Every(10, NOW), JOB, now=NOW)
    world.outcome = JobOutcome("failed", reason="no")
    await world.work()
    pauses: list[int] = []
    for _ in range(10):
        due = world.schedules.get("a").due
        assert due is not None
        await world.at(due)
        (status,) = await world.engine.jobs(limit=1)
        await world.engine.result(status.job.id, 5)
        ended(status.job.id, world)
        await world.ticker.settle_some()
        pauses.append((world.schedules.get("a").due or 0) - due)
    assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
    assert pauses[-1] == MAX_PAUSE
    world.outcome = JobOutcome("done")
    due = world.schedules.get("a").due or 0
    await world.at(due)
    await world.settled()
    assert world.schedules.get("a").due == due + 10
    await world.engine.aclose()


def ended(job: str, world: World) -> None:
    """Let a job have ended on the simulated clock."""
    from dataclasses import replace

    kept = world.engine._jobs[job]  # pyright: ignore[reportPrivateUsage]
    kept.status = replace(kept.status, ended=world.now)


async def test_run_at_once_leaves_its_times_alone(world: World) -> None:
    world.schedules.add("a", Every(3_600, NOW), JOB, now=NOW)
    world.schedules.pause("a")
    world.schedules.run("a", now=NOW + 7)
    await world.at(NOW + 7)
    await world.at(NOW + 8)
    (job,) = await world.jobs()
    assert job.startswith("sched-a-asked:")
    found = world.schedules.get("a")
    assert (found.asked, found.due, found.state) == (None, NOW + 3_600, "paused")
    await world.at(NOW + 3_600)
    assert len(await world.jobs()) == 1


async def test_a_run_is_not_over_because_its_job_cannot_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.schedules.add("a", Every(60, NOW), JOB, now=NOW)
    await world.at(NOW + 60)

    async def fails(job_id: str) -> JobStatus:
        raise JobError("the jobs cannot be used: the server is restarted")

    monkeypatch.setattr(world.engine, "status", fails)
    with pytest.raises(JobError):
        await world.ticker.settle_some()
    await world.at(NOW + 120)  # the run before it has not ended
    assert [(run.due, run.state) for run in world.schedules.get("a").runs] == [(NOW + 60, "queued")]


async def test_a_job_that_is_no_longer_stored(world: World) -> None:
    world.schedules.add("a", Every(60, NOW), JOB, now=NOW)
    await world.at(NOW + 60)
    world.engine._jobs.clear()  # pyright: ignore[reportPrivateUsage]
    await world.ticker.settle_some()
    assert [(run.state, run.text) for run in world.schedules.get("a").runs] == [
        ("unknown", "its job is no longer stored")
    ]


@pytest.mark.parametrize("on_miss", ["run_once", "skip"])
async def test_a_worker_that_dies_after_it_submitted(world: World, on_miss: Any) -> None:
    world.schedules.add("a", Every(600, NOW), JOB, ScheduleOptions(on_miss), now=NOW)
    world.engine.dies = "after"
    with pytest.raises(Killed):
        await world.at(NOW + 600)
    assert world.schedules.get("a").due == NOW + 600  # it did not move on
    world.engine.dies = ""
    await world.at(NOW + 600 + 2 * ON_TIME)
    assert await world.jobs() == [job_id("a", NOW + 600)]
    found = world.schedules.get("a")
    assert (found.due, [run.job for run in found.open_runs]) == (NOW + 1_200, [job_id("a", NOW + 600)])


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 50), st.sampled_from(["look", "before", "after", "settle", "both"])), max_size=40
    ),
    seconds=st.integers(1, 40),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_or_doubled_whenever_workers_die(
    tmp_path: Path, steps: list[tuple[int, str]], seconds: int
) -> None:
    """Overlap is allowed, so each look after a due moment has exactly one job for the moments since the last one."""
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "record.db"

    async def play() -> None:
        world = World(path)
        other = Ticker(world.schedules, world.opened, lambda: world.now)
        world.schedules.add("a", Every(seconds, NOW), JOB, ScheduleOptions(overlap="allow"), now=NOW)
        await world.work()
        expected = set[str]()
        for step, what in steps:
            world.now += step
            due = world.schedules.get("a").due or 0
            if what not in ("settle", "before") and due <= world.now:
                expected.add(job_id("a", due))
            world.engine.dies = what
            try:
                if what == "settle":
                    await world.ticker.settle_some()
                elif what == "both":
                    await asyncio.gather(world.ticker.look(), other.look())
                else:
                    await world.ticker.look()
            except Killed:
                assert world.schedules.get("a").due == due  # so that the next look submits the same job
                continue
            assert what == "settle" or (world.schedules.get("a").due or 0) > world.now
            for status in await world.engine.jobs(limit=10_000):
                await world.engine.result(status.job.id, 5)
        assert set(await world.jobs()) == expected
        await world.engine.aclose()
        world.schedules.close()

    asyncio.run(play())


class Counting:
    """An engine that several threads submit to; it counts how often each id came."""

    def __init__(self) -> None:
        self.lock, self.ids = threading.Lock(), list[str]()

    async def submit(self, job: Job) -> str:
        with self.lock:
            self.ids.append(job.id)
        return job.id

    async def status(self, job_id: str) -> JobStatus:
        return JobStatus(JOB, "done", NOW)


def test_several_workers_on_one_database(where: Where) -> None:
    engine = Counting()
    first = Schedules(where)
    for name in "abcdefgh":
        first.add(name, Every(30, NOW), JOB, now=NOW)
    barrier = threading.Barrier(3)

    def work() -> None:
        schedules = Schedules(where)

        async def opened() -> Any:
            return engine

        async def looks() -> None:
            for moment in range(NOW + 1, NOW + 200, 10):
                barrier.wait()
                await Ticker(schedules, opened, lambda: moment).look()  # noqa: B023

        asyncio.run(looks())
        schedules.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {job_id(name, due) for name in "abcdefgh" for due in range(NOW + 30, NOW + 190, 30)}
    assert set(engine.ids) == expected
    for each in first.list():
        assert each.due == NOW + 210
        assert sorted(run.job for run in each.runs) == sorted(job for job in expected if f"-{each.name}-" in job)
    first.close()


async def test_the_ticker_goes_on_after_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from toolcrib.jobs import ticker as module

    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    world.schedules.add("a", Every(60, NOW), JOB, now=NOW)
    world.now = NOW + 60
    submit, failed = world.engine.submit, asyncio.Event()

    async def fails_once(job: Job) -> str:
        if failed.is_set():
            return await submit(job)
        failed.set()
        raise OSError("the database is gone")

    monkeypatch.setattr(world.engine, "submit", fails_once)
    running = asyncio.create_task(world.ticker.run())
    async with asyncio.timeout(60):
        while not await world.jobs():
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert "the schedules could not be run" in caplog.text


async def test_a_run_that_waits_for_a_person_says_so(world: World) -> None:
    await world.work()
    world.outcome = JobOutcome("parked", reason="it asks", waits_for=("approval:a",))
    world.schedules.add("a", Every(60, NOW), JOB, now=NOW)
    await world.at(NOW + 60)
    async with asyncio.timeout(60):
        while (await world.engine.status(job_id("a", NOW + 60))).state != "parked":
            await asyncio.sleep(0.005)
    await world.ticker.settle_some()
    run = world.schedules.get("a").runs[0]
    assert (run.state, run.text, run.ended, run.is_open) == ("parked", "it asks", None, True)
    await world.at(NOW + 120)
    assert [each.state for each in world.schedules.get("a").runs] == ["overlap", "parked"]
    world.outcome = JobOutcome("done", {"text": "fine"})
    await world.engine.signal(run.job, "approval:a")
    await world.settled()
    assert (world.schedules.get("a").runs[1].state, world.schedules.get("a").runs[1].text) == ("done", "fine")
    await world.engine.aclose()


async def test_a_moment_that_came_while_it_was_added_counts(world: World) -> None:
    world.schedules.add("soon", At(NOW, "UTC"), JOB, now=NOW + 2)
    await world.at(NOW + 2)
    assert await world.jobs() == [job_id("soon", NOW)]
    with pytest.raises(ScheduleError, match="never comes"):
        world.schedules.add("late", At(NOW, "UTC"), JOB, now=NOW + 100)
