"""What every engine of jobs does, tried with each of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from toolcrib.jobs.engine import Job, JobEngine, JobError, JobOutcome, JobRun, Limits, Served, Signal, too_new
from toolcrib.jobs.memory import MemoryEngine

DONE = JobOutcome("done")


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[JobEngine]:
    engine: JobEngine = MemoryEngine(first_pause=0.01)
    if request.param != "memory":
        from toolcrib.jobs.durable import DurableEngine

        url = request.getfixturevalue("jobs_file" if request.param == "sqlite" else "jobs_postgres")
        engine = DurableEngine(url, first_pause=0.01, poll=0.02, lease=60.0)
    yield engine
    await engine.aclose()


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.01)


async def in_state(engine: JobEngine, job_id: str, state: str) -> None:
    async def check() -> bool:
        return (await engine.status(job_id)).state == state

    await eventually(check)


async def echo(job: Job, run: JobRun) -> JobOutcome:
    return JobOutcome("done", dict(job.body))


async def hang(job: Job, run: JobRun) -> JobOutcome:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_job_runs_and_its_output_is_kept(engine: JobEngine) -> None:
    before = time.time()
    job = Job(
        "call", {"text": "ä\x00\U0001f600", "n": [1, 2.5, None, True]}, tenant="anna", trace={"traceparent": "00-1"}
    )
    assert await engine.submit(job) == job.id
    await engine.submit(Job("call", {"half": "a\ud800b", "pair": "\ud83d\ude00"}, id="surrogates"))
    queued = await engine.status(job.id)
    assert (queued.state, queued.started, queued.ended, queued.attempt) == ("queued", None, None, 0)
    await engine.work(echo)
    status = await engine.result(job.id, 20)
    assert status.job == job
    assert (status.state, status.output, status.reason, status.attempt) == ("done", dict(job.body), "", 1)
    assert status.started is not None
    assert status.ended is not None
    assert before - 1 <= status.created <= status.started <= status.ended <= time.time() + 1
    assert status.worker
    assert (await engine.result("surrogates", 20)).output == {"half": "a\ufffdb", "pair": "\U0001f600"}
    assert await engine.status(job.id) == status


async def test_of_two_jobs_with_one_id_the_first_counts(engine: JobEngine) -> None:
    await engine.work(echo)
    await engine.submit(Job("call", {"n": 1}, id="same"))
    await engine.submit(Job("call", {"n": 2}, id="same"))
    assert (await engine.result("same", 20)).output == {"n": 1}
    await engine.submit(Job("call", {"n": 3}, id="same"))
    assert (await engine.status("same")).output == {"n": 1}
    assert len(await engine.jobs()) == 1


async def test_what_cannot_be_stored_is_refused(engine: JobEngine) -> None:
    for job in (
        Job("call", {"x": object()}),
        Job("call", {"x": float("nan")}),
        Job("call", {"x": b"bytes"}),
        Job("call", {}, id="with~tilde"),
        Job("call", {}, id=""),
        Job("call", {}, queue="a+b"),
        Job("call", {}, tags=("a b",)),
        Job("call", {}, tags=tuple("abcdefgh")),
        Job("call", {}, tenant="x" * 201),
    ):
        with pytest.raises(JobError):
            await engine.submit(job)
    assert await engine.jobs() == []


async def test_an_unknown_job_is_an_error(engine: JobEngine) -> None:
    calls: list[Awaitable[Any]] = [
        engine.status("no"), engine.result("no"), engine.cancel("no"), engine.signal("no", "k"),
        anext(engine.events("no")),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(JobError, match="no job no"):
            await call


async def test_a_failing_runner_makes_the_job_failed(engine: JobEngine) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        if job.id == "raises":
            raise ValueError("bad \U0001f600 thing")
        if job.id == "no-json":
            return JobOutcome("done", object())
        return JobOutcome("failed", {"code": 3}, "it said no", again=True)

    await engine.work(run)
    for job_id in ("raises", "no-json", "says-so"):
        await engine.submit(Job("call", {}, id=job_id))
    raised = await engine.result("raises", 20)
    assert (raised.state, raised.reason) == ("failed", "ValueError: bad \U0001f600 thing")
    assert "cannot be stored" in (await engine.result("no-json", 20)).reason
    said = await engine.result("says-so", 20)
    assert (said.state, said.output, said.reason, said.attempt) == ("failed", {"code": 3}, "it said no", 1)


async def test_a_repeatable_job_is_tried_again(engine: JobEngine) -> None:
    seen: list[tuple[str, int, bool]] = []

    async def run(job: Job, run: JobRun) -> JobOutcome:
        seen.append((job.id, run.attempt, run.cut_off))
        if job.id == "second" and run.attempt == 2:
            return DONE
        return JobOutcome("failed", reason=f"attempt {run.attempt}", again=True)

    await engine.work(run)
    await engine.submit(Job("call", {}, id="second", repeatable=True))
    await engine.submit(Job("call", {}, id="never", repeatable=True, max_attempts=3))
    assert ((await engine.result("second", 20)).state, (await engine.status("second")).attempt) == ("done", 2)
    never = await engine.result("never", 20)
    assert (never.state, never.reason, never.attempt) == ("failed", "attempt 3", 3)
    assert sorted(seen) == [
        (j, n, False) for j, n in [("never", 1), ("never", 2), ("never", 3), ("second", 1), ("second", 2)]
    ]


async def test_a_job_waits_for_its_time(engine: JobEngine) -> None:
    started: dict[str, float] = {}

    async def run(job: Job, run: JobRun) -> JobOutcome:
        started[job.id] = time.time()
        return DONE

    await engine.work(run)
    due = time.time() + 0.3
    await engine.submit(Job("call", {}, id="later", not_before=due))
    await engine.submit(Job("call", {}, id="past", not_before=due - 1000))
    await engine.submit(Job("call", {}, id="far", not_before=due + 1000))
    await engine.result("later", 20)
    await engine.result("past", 20)
    assert started["later"] >= due - 0.01
    assert (await engine.status("far")).state == "queued"


async def test_events_are_kept_and_read_from_a_number(engine: JobEngine) -> None:
    go = asyncio.Event()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        await run.emit("output", {"text": "ä\x00"})
        await go.wait()
        await run.emit("output", 2)
        await run.emit("end", None)
        return DONE

    await engine.work(run)
    job_id = await engine.submit(Job("call", {}))
    live = engine.events(job_id)
    async with asyncio.timeout(60):
        first = await anext(live)
        assert (first.number, first.kind, first.data) == (1, "output", {"text": "ä\x00"})
        go.set()
        assert [(e.number, e.kind, e.data) async for e in live] == [(2, "output", 2), (3, "end", None)]
        assert [e.number async for e in engine.events(job_id)] == [1, 2, 3]
    assert first.time <= time.time() + 1


async def test_an_event_that_is_not_json_is_an_error_of_the_runner(engine: JobEngine) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        await run.emit("output", object())
        return DONE

    await engine.work(run)
    job_id = await engine.submit(Job("call", {}))
    assert "cannot be stored" in (await engine.result(job_id, 20)).reason


async def test_a_parked_job_goes_on_when_it_is_signalled(engine: JobEngine) -> None:
    seen: list[list[Signal]] = []

    async def run(job: Job, run: JobRun) -> JobOutcome:
        seen.append(list(run.signals))
        await run.emit("run", len(run.signals))
        if len(run.signals) < 2:
            return JobOutcome("parked", {"at": len(run.signals)}, "asks", ("a", "b")[len(run.signals) :])
        return DONE

    await engine.work(run)
    job_id = await engine.submit(Job("call", {}))
    await in_state(engine, job_id, "parked")
    parked = await engine.status(job_id)
    assert (parked.output, parked.reason, parked.waits_for, parked.ended) == ({"at": 0}, "asks", ("a", "b"), None)
    assert [s.job.id for s in await engine.jobs(states=["parked"])] == [job_id]
    assert not (await engine.jobs(states=["done", "queued"]))
    assert await engine.signal(job_id, "a", {"yes": True})
    assert not await engine.signal(job_id, "a", {"yes": False})

    async def second_park() -> bool:
        status = await engine.status(job_id)
        return status.state == "parked" and status.waits_for == ("b",)

    await eventually(second_park)
    assert not await engine.signal(job_id, "a", 3)
    assert await engine.signal(job_id, "b")
    assert (await engine.result(job_id, 20)).state == "done"
    a = Signal("a", {"yes": True})
    assert seen == [[], [a], [a, Signal("b")]]
    assert [(e.number, e.data) async for e in engine.events(job_id)] == [(1, 0), (2, 1), (3, 2)]
    assert not await engine.signal(job_id, "c")


async def test_a_signal_that_comes_early_is_kept(engine: JobEngine) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        if not run.signals:
            return JobOutcome("parked", waits_for=("k",))
        return JobOutcome("done", [s.data for s in run.signals])

    job_id = await engine.submit(Job("call", {}))
    assert await engine.signal(job_id, "other", 0)
    assert await engine.signal(job_id, "k", 1)
    assert not await engine.signal(job_id, "k", 2)
    await engine.work(run)
    assert (await engine.result(job_id, 20)).output == [1]


async def test_signals_and_parking_at_one_time_meet(engine: JobEngine) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return DONE if run.signals else JobOutcome("parked", waits_for=("k",))

    await engine.work(run)
    jobs = [await engine.submit(Job("call", {})) for _ in range(20)]

    async def one(job_id: str, pause: float) -> None:
        await asyncio.sleep(pause)
        assert sum(await asyncio.gather(*(engine.signal(job_id, "k", n) for n in range(3)))) == 1

    await asyncio.gather(*(one(job_id, n * 0.01) for n, job_id in enumerate(jobs)))
    assert {(await engine.result(job_id, 20)).state for job_id in jobs} == {"done"}


async def test_running_and_queued_jobs_are_cancelled(engine: JobEngine) -> None:
    ended: set[str] = set()
    running: set[str] = set()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        running.add(job.id)
        try:
            return await hang(job, run)
        finally:
            ended.add(job.id)

    await engine.work(run)
    for job_id in ("one", "other"):
        await engine.submit(Job("call", {}, id=job_id))
    await engine.submit(Job("call", {}, id="queued", not_before=time.time() + 1000))

    async def both_run() -> bool:
        return len(running) == 2

    await eventually(both_run)
    for job_id in ("one", "queued"):
        assert await engine.cancel(job_id)
        assert not await engine.cancel(job_id)
        assert (await engine.result(job_id, 20)).state == "cancelled"

    async def one_ended() -> bool:
        return ended == {"one"}

    await eventually(one_ended)
    assert (await engine.status("other")).state == "running"


async def test_a_parked_job_is_cancelled(engine: JobEngine) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("parked", reason="it asks", waits_for=("k",))

    await engine.work(run)
    job_id = await engine.submit(Job("call", {}))
    await in_state(engine, job_id, "parked")
    assert await engine.cancel(job_id)
    assert not await engine.signal(job_id, "k")
    status = await engine.result(job_id, 20)
    assert (status.state, status.reason, status.attempt) == ("cancelled", "", 1)
    assert await engine.jobs(states=["parked"]) == []


async def test_a_final_job_is_not_cancelled(engine: JobEngine) -> None:
    await engine.work(echo)
    job_id = await engine.submit(Job("call", {}))
    await engine.result(job_id, 20)
    assert not await engine.cancel(job_id)
    assert (await engine.status(job_id)).state == "done"


async def test_queues_tags_and_workspaces_choose_the_worker(engine: JobEngine) -> None:
    serves = Served(("default", "slow"), ("browser", "docker"), ("/srv/a b", ""))
    assert await engine.workers() == {}
    await engine.work(echo, serves=serves)
    assert list((await engine.workers()).values()) == [serves]
    for job in (
        Job("call", {}, id="1"),
        Job("call", {}, id="2", tags=("browser",)),
        Job("call", {}, id="3", tags=("docker", "browser"), queue="slow"),
        Job("call", {}, id="4", tags=("gpu",)),
        Job("call", {}, id="5", tags=("browser", "gpu")),
        Job("call", {}, id="6", queue="other"),
        Job("call", {}, id="7", workspace="/srv/a b"),
        Job("call", {}, id="8", workspace="/srv/a b", tags=("docker",)),
        Job("call", {}, id="9", workspace="/srv/a"),
    ):
        await engine.submit(job)
        assert serves.has(job) == (job.id in "12378")
    assert {(await engine.result(j, 20)).state for j in "12378"} == {"done"}
    assert {(await engine.status(j)).state for j in "4569"} == {"queued"}
    await engine.drain(5)
    assert await engine.workers() == {}


async def wait_for_another(two: asyncio.Event, now: Sequence[object]) -> None:
    """Two jobs run at once, however late the second begins; a third that may not has time to begin."""
    if len(now) > 1:
        two.set()
    async with asyncio.timeout(60):
        await two.wait()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("limits", "most", "most_of_one"),
    [(Limits(worker=3), 3, 3), (Limits(worker=8, queue=2), 2, 2), (Limits(worker=8, queue=4, tenant=2), 4, 2)],
)
async def test_limits_hold(engine: JobEngine, limits: Limits, most: int, most_of_one: int) -> None:
    now: list[str] = []
    seen: list[tuple[int, int]] = []
    two = asyncio.Event()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        now.append(job.tenant)
        seen.append((len(now), max(now.count(t) for t in "ab")))
        await wait_for_another(two, now)
        now.remove(job.tenant)
        return DONE

    jobs = [await engine.submit(Job("call", {}, tenant=t)) for t in "ab" * 4]
    await engine.work(run, limits=limits)
    for job_id in jobs:
        await engine.result(job_id, 20)
    assert 1 < max(n for n, _ in seen) <= most
    assert max(n for _, n in seen) <= most_of_one


async def test_limits_hold_over_queues_and_tags(engine: JobEngine) -> None:
    now: list[Job] = []
    seen: list[tuple[int, int, int]] = []
    two = asyncio.Event()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        now.append(job)
        queues, tenants = [j.queue for j in now], [(j.queue, j.tenant) for j in now]
        seen.append((len(now), max(map(queues.count, queues)), max(map(tenants.count, tenants))))
        await wait_for_another(two, now)
        now.remove(job)
        return DONE

    jobs = [
        await engine.submit(Job("call", {}, queue=queue, tags=tags, tenant=tenant))
        for queue in ("default", "slow") for tags in ((), ("docker",)) for tenant in "abab"
    ]  # fmt: skip
    serves = Served(("default", "slow"), ("docker",))
    await engine.work(run, serves=serves, limits=Limits(worker=8, total=4, queue=3, tenant=2))
    for job_id in jobs:
        await engine.result(job_id, 40)
    most = [max(each) for each in zip(*seen, strict=True)]
    assert all(a <= b for a, b in zip(most, (4, 3, 2), strict=True)), most
    assert most[0] > 1


async def test_the_limit_of_a_worker_holds_over_tags_and_workspaces(engine: JobEngine) -> None:
    go, begun = asyncio.Event(), list[str]()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        begun.append(job.id)
        await go.wait()
        return DONE

    places: list[tuple[tuple[str, ...], str]] = [((), ""), (("docker",), ""), ((), "/srv/a"), (("docker",), "/srv/a")]
    jobs = [await engine.submit(Job("call", {}, tags=tags, workspace=work)) for tags, work in places]
    await engine.work(run, serves=Served(tags=("docker",), workspaces=("/srv/a", "")), limits=Limits(worker=2))

    async def two_run() -> bool:
        return len(begun) == 2

    await eventually(two_run)
    await asyncio.sleep(0.3)  # the others would begin now, too

    async def two_wait() -> bool:  # a job that a full worker takes, and gives back, runs for a moment
        states = sorted([(await engine.status(job)).state for job in jobs])
        return states == ["queued", "queued", "running", "running"]

    await eventually(two_wait)
    assert len(begun) == 2
    go.set()
    assert {(await engine.result(job, 20)).state for job in jobs} == {"done"}
    assert sorted(begun) == sorted(jobs)


async def test_a_small_tenant_does_not_wait_for_a_large_one(engine: JobEngine) -> None:
    order: list[str] = []

    async def run(job: Job, run: JobRun) -> JobOutcome:
        order.append(job.tenant)
        return DONE

    jobs = [await engine.submit(Job("call", {}, tenant=t)) for t in ["large"] * 24 + ["small"] * 2]
    await engine.work(run, limits=Limits(worker=2))
    for job_id in jobs:
        await engine.result(job_id, 20)
    assert len(order) - 1 - order[::-1].index("small") < 20


async def test_a_result_can_be_waited_for_in_vain(engine: JobEngine) -> None:
    job_id = await engine.submit(Job("call", {}))
    with pytest.raises(TimeoutError):
        await engine.result(job_id, 0.01)


async def test_jobs_are_listed_newest_first(engine: JobEngine) -> None:
    await engine.work(echo)
    for n in range(5):
        await engine.submit(Job("call", {}, id=f"j{n}"))
        await engine.result(f"j{n}", 20)
    assert [s.job.id for s in await engine.jobs()] == ["j4", "j3", "j2", "j1", "j0"]
    assert [s.job.id for s in await engine.jobs(states=["done"], limit=2)] == ["j4", "j3"]
    assert await engine.jobs(states=["failed", "unknown", "cancelled", "parked", "queued", "running"]) == []


async def test_drain_waits_for_what_runs_and_takes_nothing_new(engine: JobEngine) -> None:
    go, begun = asyncio.Event(), asyncio.Queue[str]()

    async def run(job: Job, run: JobRun) -> JobOutcome:
        begun.put_nowait(job.id)
        await go.wait()
        run.check()
        await run.emit("end", None)
        return DONE

    await engine.work(run, limits=Limits(worker=1))
    await engine.submit(Job("call", {}, id="runs"))
    await engine.submit(Job("call", {}, id="waits"))
    async with asyncio.timeout(60):
        running = await begun.get()
        draining = asyncio.create_task(engine.drain(15))
        await asyncio.sleep(0.05)
        go.set()
        assert await draining
    assert (await engine.status(running)).state == "done" and begun.empty()
    assert (await engine.status("waits" if running == "runs" else "runs")).state == "queued"


async def test_what_does_not_end_in_time_is_unknown_or_runs_again(engine: JobEngine) -> None:
    begun: list[tuple[str, int, bool]] = []

    async def first(job: Job, run: JobRun) -> JobOutcome:
        begun.append((job.id, run.attempt, run.cut_off))
        return await hang(job, run)

    await engine.work(first)
    await engine.submit(Job("call", {}, id="effects"))
    await engine.submit(Job("call", {}, id="repeatable", repeatable=True))

    async def both() -> bool:
        return len(begun) == 2

    await eventually(both)
    assert not await engine.drain(0)
    unknown = await engine.result("effects", 20)
    assert (unknown.state, unknown.attempt) == ("unknown", 1)
    assert "not known" in unknown.reason
    assert (await engine.status("repeatable")).state == "queued"
    again: list[tuple[str, int, bool]] = []

    async def second(job: Job, run: JobRun) -> JobOutcome:
        again.append((job.id, run.attempt, run.cut_off))
        return DONE

    await engine.work(second)
    assert (await engine.result("repeatable", 20)).state == "done"
    assert again == [("repeatable", 2, True)]


async def test_a_poisonous_job_is_given_up(engine: JobEngine) -> None:
    job_id = await engine.submit(Job("call", {}, repeatable=True, max_attempts=2))
    for _ in range(2):
        begun = asyncio.Event()

        async def run(job: Job, run: JobRun, begun: asyncio.Event = begun) -> JobOutcome:
            begun.set()
            return await hang(job, run)

        await engine.work(run)
        async with asyncio.timeout(60):
            await begun.wait()
        await engine.drain(0)
    status = await engine.result(job_id, 20)
    assert (status.state, status.attempt) == ("failed", 2)
    assert "2 times" in status.reason


async def test_only_one_runner_works(engine: JobEngine) -> None:
    await engine.work(echo)
    with pytest.raises(JobError, match="already"):
        await engine.work(echo)


async def test_a_job_of_a_later_version_is_not_run(engine: JobEngine) -> None:
    await engine.work(echo)
    job_id = await engine.submit(Job("call", {}, version=99))
    status = await engine.result(job_id, 20)
    assert (status.state, status.output) == ("failed", None)
    assert "later version" in status.reason
    assert too_new(Job("call", {})) is None


async def test_old_jobs_are_deleted(engine: JobEngine) -> None:
    async def park(job: Job, run: JobRun) -> JobOutcome:
        again = job.id == "twice" and not run.signals
        return JobOutcome("parked", waits_for=("go",)) if again or job.id == "waits" else DONE

    await engine.work(park)
    for name in ("once", "twice", "waits"):
        await engine.submit(Job("call", {}, id=name))
    await in_state(engine, "twice", "parked")
    await engine.signal("twice", "go")
    for name in ("once", "twice"):
        await engine.result(name, 20)
    await in_state(engine, "waits", "parked")
    assert await engine.forget(time.time() - 60) == 0
    assert await engine.forget(time.time() + 60) == 2
    assert await engine.forget(time.time() + 60) == 0
    assert [status.job.id for status in await engine.jobs()] == ["waits"]
    with pytest.raises(JobError):
        await engine.status("twice")
    await engine.submit(Job("call", {}, id="twice"))  # as if it had never been there
    await in_state(engine, "twice", "parked")
