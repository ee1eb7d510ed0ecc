"""A worker hears of new jobs, and looks rarely while there are none."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolcrib.jobs import pace
from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, JobOutcome, JobRun
from toolcrib.jobs.pace import Pace


@pytest.mark.parametrize("works", [False, True])
def test_it_looks_at_its_usual_pace_only_while_there_is_work(monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    monkeypatch.setattr(pace, "_BUSY_SECONDS", 0.0)
    monkeypatch.setattr(pace, "QUIET_SECONDS", 60.0)
    kept, looked, ends = Pace((), lambda: works, lambda route: True), threading.Event(), threading.Event()
    kept.told(True)
    kept.wait(0.01, ends.is_set)  # what has changed before the first look

    def look() -> None:
        kept.wait(0.01, ends.is_set)
        looked.set()

    thread = threading.Thread(target=lambda: (kept.wait(0.01, ends.is_set), look()))
    thread.start()
    assert looked.wait(20 if works else 0.2) == works
    kept.change()
    assert looked.wait(60)
    thread.join(60)


def test_what_changed_during_a_look_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "QUIET_SECONDS", 3_600.0)
    kept = Pace(("default",), lambda: False, lambda route: True)
    kept.told(True)

    def look() -> None:
        for _ in range(3):
            kept.change()
            kept.wait(3_600.0, lambda: False)  # it would not come back

    thread = threading.Thread(target=look, name="queue-worker-default", daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_a_worker_that_may_not_act_does_not_look() -> None:
    may, ends, looked = threading.Event(), threading.Event(), threading.Event()
    kept = Pace((), lambda: True, lambda route: may.is_set())
    thread = threading.Thread(target=lambda: (kept.wait(0.01, ends.is_set), looked.set()), daemon=True)
    thread.start()
    assert not looked.wait(0.2)
    may.set()
    assert looked.wait(60)
    may.clear()
    ends.set()
    kept.wait(0.01, ends.is_set)  # it ends all the same


@pytest.mark.parametrize("other", ["the names of threads", "the events that end threads", "no such events"])
async def test_a_dbos_that_is_made_otherwise_runs_jobs(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done")

    if other == "the names of threads":
        monkeypatch.setattr(pace, "_THREAD", "q-{}")
    else:
        events = {"background_thread_stop_events": [object()]} if "end" in other else {}
        give_to = Pace.give_to
        monkeypatch.setattr(Pace, "give_to", lambda self, dbos: give_to(self, SimpleNamespace(**events)))
    worker = DurableEngine(f"sqlite:///{tmp_path}/jobs.db", poll=0.05)
    await worker.work(run)
    for _ in range(3):
        assert (await worker.result(await worker.submit(Job("call", {})), 20)).state == "done"
    await worker.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
async def test_a_worker_hears_of_the_jobs_of_others(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done")

    url = f"sqlite:///{tmp_path}/jobs.db" if where == "sqlite" else request.getfixturevalue("postgres_url")
    worker, other = DurableEngine(url, poll=4.0), DurableEngine(url)
    try:
        await worker.work(run)
        async with asyncio.timeout(70):  # looking each 4 s only, these took 80 s
            for _ in range(20):
                await other.result(await other.submit(Job("call", {})))
    finally:  # a worker that is left behind would fail other tests of this process
        await other.aclose()
        await worker.aclose()
