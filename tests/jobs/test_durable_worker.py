"""Workers that die, are stopped or lose their database: nothing is lost, and nothing with effects runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from toolcrib.jobs import durable_worker
from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import FINAL, Job, JobError, JobOutcome, JobRun, JobStatus, LeaseLost, Limits, Served
from toolcrib.record.connection import RecordError

from ..postgres import Cluster
from .conftest import CutNetwork
from .worker_process import Worker, lines

DEADLINE = 90


@pytest.fixture
def start(tmp_path: Path, nursery: subprocess.Popen[str]) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def begin(url: str, name: str = "log", **options: Any) -> Worker:
        workers.append(Worker(nursery, url, tmp_path / name, **options))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.send(signal.SIGCONT)
        worker.kill()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("jobs_file" if request.param == "sqlite" else "jobs_postgres")


@pytest.fixture
async def engine(url: str) -> AsyncIterator[DurableEngine]:
    engine = DurableEngine(url)
    yield engine
    await engine.aclose()


async def until(check: Callable[[], bool], seconds: float = DEADLINE) -> None:
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.02)


def saw(log: Path, what: str, job: str = "-") -> Callable[[], bool]:
    return lambda: any(line[:2] == (what, job) for line in lines(log))


async def test_a_killed_worker_loses_nothing(
    engine: DurableEngine, url: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    first = start(url, lease=2.0, most=2)
    await engine.submit(Job("work", {"seconds": 60}, id="effects"))
    await engine.submit(Job("work", {"seconds": 0.5}, id="again", repeatable=True))
    for hold in ("hold-1", "hold-2"):
        await engine.submit(Job("work", {"seconds": 60}, id=hold, queue="narrow"))
    for job in ("effects", "again", "hold-1", "hold-2"):
        await until(saw(log, "begin", job))
    await engine.submit(Job("park", {"seconds": 0}, id="parked"))
    await engine.submit(Job("work", {"seconds": 0}, id="waits", queue="narrow", tags=("docker",)))
    async with asyncio.timeout(DEADLINE):
        while (await engine.status("parked")).state != "parked":
            await asyncio.sleep(0.02)
    if not engine.store.postgres:  # the worker has claimed it, and may not begin it
        await until(lambda: bool(engine.store.waiting(["waits"])))
    waits = await engine.status("waits")
    assert (waits.state, waits.started, waits.attempt) == ("queued", None, 0)
    assert [s.job.id for s in await engine.jobs(states=["queued"])] == ["waits"]
    began = (await engine.status("effects")).started
    first.kill()
    assert await engine.signal("parked", "go")
    await engine.submit(Job("work", {"seconds": 0}, id="later"))
    start(url, lease=2.0, most=2)
    jobs = ("effects", "again", "parked", "later", "hold-1", "hold-2", "waits")
    ends = {job: await engine.result(job, DEADLINE) for job in jobs}
    assert {job: end.state for job, end in ends.items()} == {
        "effects": "unknown", "again": "done", "parked": "done", "later": "done",
        "hold-1": "unknown", "hold-2": "unknown", "waits": "done",
    }  # fmt: skip
    assert ends["effects"].attempt == ends["waits"].attempt == 1
    assert "not known" in ends["effects"].reason
    assert f":{first.process.pid}:" in str(ends["effects"].worker)  # not the one that noticed it
    assert ends["effects"].started == began
    count = Counter(line[:2] for line in lines(log))
    assert count["begin", "effects"] == count["begin", "waits"] == 1
    assert count["effect", "effects"] == 0
    assert ends["again"].attempt == count["begin", "again"]
    events = [(e.number, e.kind) async for e in engine.events("again")]
    assert [number for number, _ in events] == [*range(1, len(events) + 1)]
    assert events[-1][1] == "end"


async def test_cancelling_what_was_cut_off_leaves_it_unknown(
    engine: DurableEngine, url: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    engine.lease = 1.0
    first = start(url, lease=1.0)
    await engine.submit(Job("work", {"seconds": 60}, id="effects"))
    await engine.submit(Job("work", {"seconds": 60}, id="again", repeatable=True))
    for job in ("effects", "again"):
        await until(saw(tmp_path / "log", "begin", job))
    first.kill()
    async with asyncio.timeout(DEADLINE):
        while await engine.workers():
            await asyncio.sleep(0.02)
    for job in ("effects", "again"):
        assert await engine.cancel(job)
    status = await engine.status("effects")
    assert (status.state, (await engine.status("again")).state) == ("unknown", "cancelled")
    assert status.attempt == 1
    assert "not known" in status.reason and f":{first.process.pid}:" in str(status.worker)
    start(url, lease=1.0)
    await until(lambda: sum(line[0] == "ready" for line in lines(tmp_path / "log")) == 2)
    assert (await engine.status("effects")).state == "unknown"
    assert not await engine.cancel("effects")


async def test_a_full_worker_gives_back_what_it_cannot_begin(
    jobs_postgres: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    engine, log = DurableEngine(jobs_postgres), tmp_path / "log"
    start(jobs_postgres, most=1)
    await until(saw(log, "ready"))
    for each in range(4):  # one of them begins; of the others it may have claimed some
        await engine.submit(Job("work", {"seconds": 3_600}, id=f"long-{each}", tags=("docker",) * (each % 2)))
    await until(lambda: any(line[0] == "begin" for line in lines(log)))
    for number in range(3):
        start(jobs_postgres, f"other-{number}", most=1)
    ids = {f"long-{each}" for each in range(4)}

    def begun() -> list[str]:
        names = ("log", *(f"other-{number}" for number in range(3)))
        return [job for name in names for what, job, _ in lines(tmp_path / name) if what == "begin"]

    await until(lambda: len(begun()) == 4)
    assert set(begun()) == ids
    assert {(await engine.status(job)).attempt for job in ids} == {1}
    await engine.aclose()


async def test_a_sqlite_file_has_one_worker(start: Callable[..., Worker], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    worker = start(url)
    await until(saw(tmp_path / "log", "ready"))
    engine = DurableEngine(url)

    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done")

    try:
        with pytest.raises(JobError, match=rf":{worker.process.pid}:.* has one worker"):
            await engine.work(run)
        worker.kill()
        await engine.work(run)
        await engine.submit(Job("work", {}, id="mine"))
        assert (await engine.result("mine", DEADLINE)).state == "done"
    finally:
        await engine.aclose()


@pytest.mark.slow
async def test_a_stopped_worker_writes_nothing_when_it_wakes(
    jobs_postgres: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    engine, sleeper_log, log = DurableEngine(jobs_postgres), tmp_path / "sleeper", tmp_path / "log"
    try:
        sleeper = start(jobs_postgres, "sleeper", lease=2.0)
        jobs = [("effects", False, 3.0), ("again", True, 3.0), ("long", False, 600)]
        for job, repeatable, seconds in jobs:
            await engine.submit(Job("work", {"seconds": seconds}, id=job, repeatable=repeatable))
        for job, _, _ in jobs:
            await until(saw(sleeper_log, "begin", job))
        sleeper.send(signal.SIGSTOP)
        start(jobs_postgres, lease=2.0)
        ends = {job: await engine.result(job, DEADLINE) for job, _, _ in jobs}
        assert {job: end.state for job, end in ends.items()} == {
            "effects": "unknown",
            "again": "done",
            "long": "unknown",
        }
        assert ends["again"].output == 2
        events = [e async for e in engine.events("again")]
        sleeper.send(signal.SIGCONT)
        for job, _, _ in jobs:
            await until(lambda job=job: saw(sleeper_log, "lost", job)() or saw(sleeper_log, "cancelled", job)())
        await engine.submit(Job("work", {"seconds": 0}, id="next"))  # it is a worker again, under another name
        assert (await engine.result("next", DEADLINE)).state == "done"
        assert not any(what == "effect" and job != "next" for what, job, _ in lines(sleeper_log))
        assert [await engine.status(job) for job, _, _ in jobs] == [ends[job] for job, _, _ in jobs]
        assert [e async for e in engine.events("again")] == events
        assert Counter(lines(log))["effect", "again", 2] == 1
    finally:
        await engine.aclose()


def is_writable(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


async def test_a_stopped_worker_of_a_file_keeps_it(start: Callable[..., Worker], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    sleeper, engine = start(url, lease=0.5), DurableEngine(url)
    try:
        await engine.submit(Job("work", {"seconds": 0.5}, id="effects"))
        await engine.submit(Job("work", {"seconds": 0.5}, id="again", repeatable=True))
        for job in ("effects", "again"):
            await until(saw(tmp_path / "log", "begin", job))
        while True:  # not in the middle of a write: others would wait for that for 30 s
            sleeper.send(signal.SIGSTOP)
            await until(lambda: sleeper.is_stopped)
            if is_writable(tmp_path / "jobs.db"):
                break
            sleeper.send(signal.SIGCONT)
            await asyncio.sleep(0.02)
        other = start(url, "other", lease=0.5)  # it is refused, however long the first one sleeps
        assert await asyncio.to_thread(other.process.wait, DEADLINE) != 0
        assert not lines(tmp_path / "other")
        sleeper.send(signal.SIGCONT)
        for job in ("effects", "again"):
            assert ((end := await engine.result(job, DEADLINE)).state, end.attempt) == ("done", 1)
        assert Counter(line[:2] for line in lines(tmp_path / "log"))["effect", "effects"] == 1
    finally:
        await engine.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("stops", ["noting", "giving"])
async def test_a_stopped_leader_takes_nothing_over_when_it_wakes(
    stops: str, jobs_postgres: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    engine, log = DurableEngine(jobs_postgres), tmp_path / "log"
    jobs = [("effects", False), ("again", True)]
    try:
        first = start(jobs_postgres, "first", lease=2.0)
        for job, repeatable in jobs:
            await engine.submit(Job("work", {"seconds": 4.0}, id=job, repeatable=repeatable))
        for job, _ in jobs:
            await until(saw(tmp_path / "first", "begin", job))
        first.kill()
        leader = start(jobs_postgres, "leader", lease=2.0, stops=stops)
        await until(lambda: leader.is_stopped)
        start(jobs_postgres, lease=2.0)
        await until(saw(log, "begin", "again"))  # it was taken over from the first one, behind the leader's back
        leader.send(signal.SIGCONT)
        await asyncio.sleep(1)
        for _ in range(3):  # the wrapped function stops it each time
            leader.send(signal.SIGCONT)
            await asyncio.sleep(0.2)
        ends = {job: await engine.result(job, DEADLINE) for job, _ in jobs}
        assert {job: end.state for job, end in ends.items()} == {"effects": "unknown", "again": "done"}
        written = lines(tmp_path / "first") + lines(log) + lines(tmp_path / "leader")
        count = Counter(line[:2] for line in written)
        assert (count["begin", "effects"], count["effect", "effects"], count["effect", "again"]) == (1, 0, 1), written
        await asyncio.sleep(2)
        assert [await engine.status(job) for job, _ in jobs] == [ends[job] for job, _ in jobs]
    finally:
        await engine.aclose()


async def test_a_claimed_run_that_nobody_does_is_given_back(
    engine: DurableEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_worker, "_SWEEP", 0.02)

    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done", run.attempt)

    await engine.work(run)
    await engine.submit(Job("work", {}, id="first"))
    me = (await engine.result("first", DEADLINE)).worker
    for name, repeatable in (("effects", False), ("again", True)):
        await engine.submit(Job("work", {}, id=name, repeatable=repeatable, not_before=time.time() + 3600))
    claim = "UPDATE workflow_status SET status = 'PENDING', executor_id = :me, started_at_epoch_ms = 1"
    with engine.store.engine.begin() as connection:  # as if the worker had claimed them and then forgotten
        connection.execute(sa.text(f"{claim} WHERE status = 'DELAYED'"), {"me": me})
    for name in ("effects", "again"):
        assert ((end := await engine.result(name, DEADLINE)).state, end.output) == ("done", 1)


async def test_a_worker_that_is_closed_while_it_begins_anew_works_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done")

    url, begins, go = f"sqlite:///{tmp_path}/jobs.db", threading.Event(), threading.Event()
    engine, other = DurableEngine(url), DurableEngine(url)
    await engine.work(run)
    worker: Any = engine._worker
    launch = worker._launch

    def slowly() -> None:
        begins.set()
        go.wait(60)
        launch()

    monkeypatch.setattr(worker, "_launch", slowly)
    monkeypatch.setattr(worker._lease, "valid", lambda: False)
    monkeypatch.setattr(worker._lease, "end", functools.cache(worker._lease.end))  # that of many workers may end twice
    await until(begins.is_set)
    closing = asyncio.create_task(engine.aclose())
    await asyncio.wait([closing], timeout=1)
    go.set()
    await closing
    await asyncio.sleep(1)
    await other.work(run)
    await other.aclose()


async def test_sigterm_drains_a_worker(
    engine: DurableEngine, url: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start(url)
    await engine.submit(Job("work", {"seconds": 0.5}, id="short"))
    await engine.submit(Job("work", {"seconds": 600}, id="long"))
    await until(saw(tmp_path / "log", "begin", "short"))
    await until(saw(tmp_path / "log", "begin", "long"))
    worker.send(signal.SIGTERM)
    assert await asyncio.to_thread(worker.process.wait, 30) == 0
    assert ((await engine.status("short")).state, (await engine.status("long")).state) == ("done", "unknown")


@pytest.mark.slow
@pytest.mark.parametrize("handled", [False, True])
async def test_a_job_that_may_not_go_on_is_not_one_that_failed(jobs_postgres: str, handled: bool) -> None:
    engine = DurableEngine(jobs_postgres, first_pause=0.01, poll=0.05, lease=2.0)

    async def run(job: Job, run: JobRun) -> JobOutcome:
        worker = engine._worker
        if run.attempt == 1 and worker is not None and worker._lease is not None:
            worker._lease.end()  # as after seconds without the database, and before the worker looks at its lease
        try:
            run.check()
        except LeaseLost as error:
            if not handled:
                raise
            return JobOutcome("failed", reason=str(error))  # as a call does: its error is an output
        return JobOutcome("done")

    try:
        await engine.submit(Job("effects", {}, id="effects"))
        await engine.work(run)
        end = await engine.result("effects", DEADLINE)
        assert end.state == "unknown" and "not known" in end.reason, end
        await engine.submit(Job("again", {}, id="again", repeatable=True))
        again = await engine.result("again", DEADLINE)
        assert (again.state, again.attempt) == ("done", 2), again
    finally:
        await engine.aclose()


@pytest.mark.slow
async def test_a_lost_job_is_unknown_also_when_that_cannot_be_noted_at_first(
    jobs_postgres: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine, noted = DurableEngine(jobs_postgres, first_pause=0.01, poll=0.05, lease=2.0), list[str]()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        worker = engine._worker
        assert worker is not None and worker._lease is not None
        worker._lease.end()
        run.check()
        return JobOutcome("done")

    async def lost(job_id: str) -> None:
        noted.append(job_id)
        if len(noted) < 3:
            raise RecordError("the record cannot be reached")

    try:
        await engine.submit(Job("effects", {}, id="effects"))
        await engine.work(run, lost=lost)
        end = await engine.result("effects", DEADLINE)
        assert end.state == "unknown" and "not known" in end.reason, end
        assert noted == ["effects"] * 3
        assert caplog.text.count("cannot be noted") == 1
    finally:
        await engine.aclose()


@pytest.mark.slow
async def test_a_run_that_waited_for_a_place_once_counts_as_begun_when_it_has_one(
    jobs_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, begun, places = DurableEngine(jobs_postgres, poll=0.05, lease=2.0), list[str](), asyncio.Event()
    claims = True
    monkeypatch.setattr(durable_worker.DurableWorker, "_may_take", lambda worker, route: claims)

    async def run(job: Job, run: JobRun) -> JobOutcome:
        begun.append(job.id)
        if len(begun) == 1:
            await places.wait()
        elif len(begun) == 2:
            worker()._lease.end()
            run.check()
        return JobOutcome("done")

    def worker() -> Any:
        return engine._worker

    try:
        for each, tags in (("one", ()), ("two", ("gpu",))):
            await engine.submit(Job("effects", {}, id=each, tags=tags))
        await engine.work(run, serves=Served(tags=("gpu",)), limits=Limits(worker=1))
        await until(lambda: len(worker()._waiting) == 1)
        claims = False
        await until(lambda: len(worker()._active) == 1)  # it is given back
        places.set()
        assert (await engine.result(begun[0], DEADLINE)).state == "done"
        claims = True
        await until(lambda: len(begun) == 2)
        assert (await engine.result(begun[1], DEADLINE)).state == "unknown"
        assert sorted(begun) == ["one", "two"]
    finally:
        await engine.aclose()


async def _ended(engine: DurableEngine, jobs: list[str]) -> list[JobStatus]:
    """The ends of jobs; which ones did not end in time is said."""
    try:
        return [await engine.result(job, DEADLINE) for job in jobs]
    except TimeoutError:
        left = [s for s in await engine.jobs(limit=len(jobs)) if s.state not in FINAL]
        raise AssertionError(f"these did not end: {left}") from None


def _judge(ends: list[JobStatus], log: Path, kinds: dict[str, bool]) -> None:
    """Nothing is lost, nothing runs after its outcome was stored, and what was cut off is unknown."""
    written = lines(log)
    for end in ends:
        job = end.job.id
        begun = [attempt for what, name, attempt in written if (what, name) == ("begin", job)]
        done = [attempt for what, name, attempt in written if (what, name) == ("effect", job)]
        assert end.state in FINAL
        if not kinds[job]:  # with effects: it began once at most, whatever happened
            assert len(begun) <= 1, (end, written)
            assert end.state == "done" or (end.state == "unknown" and "not known" in end.reason), end
            if end.state == "done":
                assert len(done) == 1
        else:
            assert end.state == "done" or (end.state == "failed" and end.attempt == end.job.max_attempts), end
            assert begun == sorted(set(begun)), (end, begun)  # no attempt twice


ROUNDS = int(os.environ.get("TOOLCRIB_KILL_ROUNDS", "60"))


@pytest.mark.slow
async def test_workers_that_are_killed_at_random_moments(
    engine: DurableEngine, url: str, start: Callable[..., Worker], tmp_path: Path
) -> None:
    log, rng = tmp_path / "log", random.Random(14)
    kinds: dict[str, bool] = {}
    many = url.startswith("postgres")
    workers = [start(url, lease=1.5) for _ in range(2 if many else 1)]
    for number in range(ROUNDS):
        for n in range(3):
            job = f"r{number}-{n}"
            kinds[job] = n == 1
            kind = "park" if n == 2 else "work"
            await engine.submit(Job(kind, {"seconds": rng.uniform(0, 0.2)}, id=job, repeatable=n == 1, max_attempts=9))
        await engine.signal(f"r{number}-2", "go")
        if number % 4:  # else while it starts, perhaps
            await until(lambda n=number: any(what == "begin" and f"r{n}-" in job for what, job, _ in lines(log)))
        await asyncio.sleep(rng.uniform(0, 0.3))
        victim = rng.randrange(len(workers))
        workers[victim].kill()
        workers[victim] = start(url, lease=1.5)
    _judge(await _ended(engine, list(kinds)), log, kinds)
    assert {s.state for s in await engine.jobs(limit=100_000)} <= set(FINAL)


@pytest.mark.slow
async def test_postgres_is_restarted_at_random_moments(
    own_postgres: Cluster, start: Callable[..., Worker], tmp_path: Path
) -> None:
    log, rng, kinds = tmp_path / "log", random.Random(14), {}
    own_postgres.execute("CREATE DATABASE jobs")
    url = own_postgres.url("jobs")
    engine = DurableEngine(url)
    try:
        for _ in range(2):
            start(url)
        await until(saw(log, "ready"))
        for number in range(10):
            for n in range(4):
                job = f"r{number}-{n}"
                kinds[job] = n % 2 == 1
                seconds = rng.uniform(0, 1)
                await engine.submit(Job("work", {"seconds": seconds}, id=job, repeatable=n % 2 == 1, max_attempts=9))
            await asyncio.sleep(rng.uniform(0, 1))
            await asyncio.to_thread(own_postgres.stop, rng.choice(["immediate", "fast"]))
            await asyncio.sleep(rng.uniform(0, 3))
            await asyncio.to_thread(own_postgres.start)
        _judge(await _ended(engine, list(kinds)), log, kinds)
    finally:
        await engine.aclose()


@pytest.mark.slow
async def test_the_network_of_a_worker_is_cut(
    own_postgres: Cluster,
    cut_network: CutNetwork,
    start: Callable[..., Worker],
    tmp_path: Path,
) -> None:
    far_log, log = tmp_path / "far", tmp_path / "log"
    own_postgres.execute("CREATE DATABASE jobs")
    engine = DurableEngine(own_postgres.url("jobs"))
    with cut_network.relay(own_postgres.port) as port:
        far_url = f"postgresql://postgres@{cut_network.address}:{port}/jobs"
        try:
            far = start(far_url, "far", lease=2.0, prefix=cut_network.inside)
            jobs = [("effects", False, 3.0), ("again", True, 3.0), ("long", False, 600)]
            for job, repeatable, seconds in jobs:
                await engine.submit(Job("work", {"seconds": seconds}, id=job, repeatable=repeatable))
            for job, _, _ in jobs:
                await until(saw(far_log, "begin", job))
            cut_network.link("down")
            start(own_postgres.url("jobs"), lease=2.0)
            ends = {job: await engine.result(job, DEADLINE) for job, _, _ in jobs}
            assert [ends[job].state for job, _, _ in jobs] == ["unknown", "done", "unknown"]
            for job, _, _ in jobs:  # the far one noticed by itself
                await until(lambda job=job: saw(far_log, "lost", job)() or saw(far_log, "cancelled", job)())
            cut_network.link("up")
            await asyncio.sleep(3)
            assert not any(what == "effect" for what, _, _ in lines(far_log))
            assert [await engine.status(job) for job, _, _ in jobs] == [ends[job] for job, _, _ in jobs]
            assert Counter(lines(log))["effect", "again", 2] == 1
            assert far.process.poll() is None
        finally:
            cut_network.link("up")
            await engine.aclose()
