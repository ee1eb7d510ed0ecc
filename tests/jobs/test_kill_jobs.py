"""kill -9 of a worker, a restarted Postgres and a cut network at any moment, with calls, commands, subagents, messages,
schedules and approvals in flight.

No job is lost, nothing runs twice after its outcome was stored, and each call that was cut off is reported as unknown.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from toolcrib.agent.history import ModelTurn, ResultTurn, UserTurn
from toolcrib.agent.store import SessionStore
from toolcrib.config import load_settings
from toolcrib.jobs.bodies import CallBody, MessageBody
from toolcrib.jobs.engine import FINAL, Job, JobEngine, JobStatus
from toolcrib.jobs.host import open_engine
from toolcrib.jobs.placing import named_by
from toolcrib.jobs.schedule import At, Every
from toolcrib.jobs.schedules import Schedules
from toolcrib.record.approvals import Approvals
from toolcrib.record.state import StateFolder

from ..postgres import Cluster
from .conftest import CutNetwork

ROUNDS = int(os.environ.get("KILL_ROUNDS", "6"))
RESTARTS = int(os.environ.get("KILL_RESTARTS", "4"))
MAX_OPEN = 60
"""Jobs in flight before a round submits no more."""
UNKNOWN = ("was interrupted", "output was lost")
"""Words of a result whose call may have had its effect or not."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 + 30 * max(ROUNDS, RESTARTS))]
ROOT = Path(__file__).parent.parent.parent


class Place:
    """A workspace with its state, a session that jobs report to, and a person who answers approvals."""

    def __init__(self, folder: Path, url: str | None, *, shared_record: bool = False, name: str = "here") -> None:
        self.work, own, state = folder / "work", folder / name, folder / f"state-{name}"
        self.config = own / "toolcrib" / "config.toml"  # the file of that machine's user: each takes all jobs
        self.work.mkdir(exist_ok=True)
        self.config.parent.mkdir(parents=True)
        jobs = f'[jobs]\nurl = "{url}"\n' if url else ""
        jobs += f'[record]\nurl = "{url}"\n' if shared_record else ""
        self.config.write_text(f'mode = "autonomous"\n{jobs}[approval]\nrequire_for = ["launch"]\n')
        self.env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(own)}
        record = str(url) if shared_record else ""
        self.state = StateFolder.for_workspace(self.work, state / "toolcrib", url=record)
        self.store, self.approvals = SessionStore(self.state), Approvals(self.state.record)
        self.session = self.store.create(model="scripted:kill", system="").id
        self.workers: list[subprocess.Popen[str]] = []
        self.settings = load_settings(workspace=self.work, config=self.config)

    def engine(self) -> JobEngine:
        return open_engine(self.settings, self.state.path, lambda text: None)

    def worker(self, *prefix: str) -> subprocess.Popen[str]:
        words = [*prefix, sys.executable, "-m", "tests.jobs.kill_worker", str(self.work), str(self.config)]
        started = subprocess.Popen(
            words, cwd=ROOT, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # fmt: skip
        self.workers.append(started)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        return started

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    def log(self) -> Counter[str]:
        path = self.work / "log.txt"
        return Counter(path.read_text().splitlines() if path.exists() else ())


def call(tool: str, arguments: dict[str, Any], *, session: str | None = None) -> Job:
    body = CallBody(tool=tool, arguments=arguments, session=session)
    return Job("call", body.to_json(), repeatable=tool == "peek")


def some_jobs(number: int, session: str) -> list[Job]:
    """Jobs of each kind; the text of each is in its effects and in its id."""

    def message(text: str) -> Job:
        return Job("message", MessageBody(text=text).to_json(), repeatable=True, max_attempts=99)

    def named(text: str, job: Job) -> Job:
        return replace(job, id=f"job-{text}")

    notes = [f"note{number}.{i}" for i in range(4)]
    launch, peek, shell = f"launch{number}", f"peek{number}", f"exec{number}"
    command = f"echo begun {shell} >> log.txt; sleep 0.{number % 3}; echo ended {shell} >> log.txt"
    return [
        *(named(text, call("note", {"text": text}, session=session)) for text in notes),
        named(launch, call("launch", {"text": launch}, session=session)),
        named(shell, call("exec", {"command": command, "background": True}, session=session)),
        named(peek, replace(call("peek", {"text": peek}), max_attempts=99)),
        named(f"m{number}", message(f"go m{number}")),
        named(f"s{number}", message(f"spawn s{number}")),
    ]


def one_shot(schedules: Schedules, number: int, moment: int) -> str:
    """Store a schedule for one moment. Returns the id of the job that it must have, whoever submits it."""
    text = f"once{number}"
    schedules.add(text, At(moment, "UTC"), call("note", {"text": text}))
    return f"sched-{text}-{datetime.fromtimestamp(moment, UTC):%Y%m%d-%H%M%S}"


async def rounds(place: Place, what: str, count: int, harm: Callable[[random.Random], Awaitable[None]]) -> None:
    """Submit jobs of each kind in each round, and do some harm. Then a worker of the place ends what is left, and
    everything is checked."""
    engine, rng, stop = place.engine(), random.Random(), threading.Event()
    schedules = Schedules(place.state.record, named_by(place.work))
    schedules.add("beat", Every(1, int(time.time())), call("beat", {}))
    person = threading.Thread(target=answer, args=(place.approvals, rng, stop))
    person.start()
    jobs: list[str] = []
    done: dict[str, JobStatus] = {}
    begun = time.monotonic()
    try:
        for number in range(count):
            if len(await engine.jobs(states=("queued", "running", "parked"), limit=MAX_OPEN)) < MAX_OPEN:
                new = some_jobs(number, place.session)
                for job in new:
                    await engine.submit(job)
                jobs += [job.id for job in new]
            jobs.append(one_shot(schedules, number, int(time.time()) + rng.randint(1, 4)))
            await harm(rng)
            for status in await engine.jobs(states=("done",), limit=200):
                done.setdefault(status.job.id, status)
        schedules.pause("beat")
        if all(worker.poll() is not None for worker in place.workers):
            await asyncio.to_thread(place.worker)
        await settled(schedules)
        statuses = [await engine.result(job_id, 900) for job_id in jobs]
        await reported(place, [status for status in statuses if status.job.kind == "call"])
        await all_ended(engine)
        place.workers[-1].communicate(timeout=60)
        assert place.workers[-1].returncode == 0
        beats = [status for status in await engine.jobs(limit=100_000) if status.job.body.get("tool") == "beat"]
    finally:
        stop.set()
        person.join()
        await engine.aclose()
        schedules.close()
        place.kill()
    states = Counter(f"{status.job.body.get('tool') or status.job.kind} {status.state}" for status in statuses + beats)
    print(f"{what}: {count} rounds in {time.monotonic() - begun:.0f} s: {dict(sorted(states.items()))}")
    log = place.log()
    assert beats
    check(statuses + beats, done, log)
    cut_off = check_calls(place.store, log)
    print(f"{len(log)} effects; {cut_off} calls of models were cut off")


@pytest.mark.parametrize("database", ["sqlite", "postgres", "postgres with the record"])
async def test_killed_workers_lose_nothing_and_repeat_nothing(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None if database == "sqlite" else request.getfixturevalue("postgres_url")
    place = Place(tmp_path, url, shared_record="record" in database)

    async def harm(rng: random.Random) -> None:
        worker = await asyncio.to_thread(place.worker)
        await asyncio.sleep(rng.random() * rng.choice((0.5, 1.5, 6.0)))
        worker.kill()
        worker.communicate()

    await rounds(place, database, ROUNDS, harm)


@pytest.mark.parametrize("record", ["file", "postgres"])
async def test_a_restarted_postgres_loses_nothing_and_repeats_nothing(
    record: str, tmp_path: Path, own_postgres: Cluster
) -> None:
    own_postgres.execute("CREATE DATABASE jobs")
    place = Place(tmp_path, own_postgres.url("jobs"), shared_record=record == "postgres")
    await asyncio.to_thread(place.worker)

    async def harm(rng: random.Random) -> None:
        await asyncio.sleep(rng.random() * 4)
        await asyncio.to_thread(own_postgres.stop, rng.choice(["immediate", "fast"]))
        await asyncio.sleep(rng.random() * 8)  # also longer than a lease
        await asyncio.to_thread(own_postgres.start)

    await rounds(place, f"restarted, record in {record}", RESTARTS, harm)


async def test_a_cut_network_loses_nothing_and_repeats_nothing(
    tmp_path: Path, own_postgres: Cluster, cut_network: CutNetwork
) -> None:
    own_postgres.execute("CREATE DATABASE jobs")
    place = Place(tmp_path, own_postgres.url("jobs"), shared_record=True)
    with cut_network.relay(own_postgres.port) as port:
        far = Place(
            tmp_path, f"postgresql://postgres@{cut_network.address}:{port}/jobs", shared_record=True, name="far"
        )
        try:
            await asyncio.to_thread(far.worker, *cut_network.inside)
            await asyncio.to_thread(place.worker)

            async def harm(rng: random.Random) -> None:
                await asyncio.sleep(rng.random() * 4)
                cut_network.link("down")
                await asyncio.sleep(rng.random() * 12)
                cut_network.link("up")

            await rounds(place, "cut network", RESTARTS, harm)
        finally:
            cut_network.link("up")
            far.kill()


def check(statuses: list[JobStatus], done: dict[str, JobStatus], log: Counter[str]) -> None:
    assert all(status.state in FINAL for status in statuses)
    twice = {line: count for line, count in log.items() if count > 1}
    assert not twice
    for status in statuses:
        tool = status.job.body.get("tool")
        text = status.job.id if tool == "beat" else status.job.body.get("arguments", {}).get("text")
        text = text or status.job.id.removeprefix("job-")
        if (earlier := done.get(status.job.id)) is not None:  # a stored outcome stays as it is
            assert (status.state, status.output) == ("done", earlier.output)
        if status.job.kind == "message" or tool == "peek":
            assert status.state == "done", status
        elif status.state == "done":
            assert log[f"ended {text}"] == 1, status
        elif log[f"begun {text}"]:  # it was cut off after it had begun
            assert status.state == "unknown", status
        else:  # cut off before, or denied by the person
            assert status.state in ("unknown", "failed"), status


def check_calls(store: SessionStore, log: Counter[str]) -> int:
    """Check the calls of models: those that were cut off in the middle have a result that says so. Returns how many."""
    cut_off = 0
    for row in store.list(100_000):
        turns = store.turns(row.id)
        if row.state == "running" and isinstance(turns[-1], ModelTurn):  # its job was cut off too often, and failed
            turns = turns[:-1]
        calls = {c.id: c for turn in turns if isinstance(turn, ModelTurn) for c in turn.calls}
        results = {r.call_id: r for turn in turns if isinstance(turn, ResultTurn) for r in turn.results}
        assert calls.keys() == results.keys(), row
        for call_id, result in results.items():
            found = re.search(r'begun ([\w-]+)|"text": "([\w-]+)"', calls[call_id].arguments)
            text = found and (found[1] or found[2])
            if text and log[f"begun {text}"] and not log[f"ended {text}"]:
                cut_off += 1
                assert any(words in result.text for words in UNKNOWN), (text, result)
    return cut_off


async def settled(schedules: Schedules) -> None:
    """Wait until each run of a schedule has ended, and those for one moment are deleted."""
    async with asyncio.timeout(900):
        while any(each.open_runs or each.name != "beat" for each in schedules.list()):
            await asyncio.sleep(0.2)


async def all_ended(engine: JobEngine) -> None:
    """Wait until the jobs have ended that others began: subagents in the background, and turns after a report."""
    async with asyncio.timeout(900):
        while await engine.jobs(states=("queued", "running", "parked"), limit=1):
            await asyncio.sleep(0.2)


async def reported(place: Place, statuses: list[JobStatus]) -> None:
    """Wait until the session has a message about the end of each job of it. One that was cut off in the moment between
    its report and its end was reported as done, or as failed if the person denied it."""
    words = {"done": ("is done",), "unknown": ("was cut off", "is done", "failed"), "failed": ("failed",)}
    missing = {status.job.id: words[status.state] for status in statuses if status.job.body.get("session")}
    begun, heads = time.monotonic(), list[str]()
    until = begun + 180
    while missing:
        assert time.monotonic() < until, (missing, heads)
        await asyncio.sleep(0.2)
        turns = [turn for turn in place.store.turns(place.session) if isinstance(turn, UserTurn)]
        heads = [turn.text.splitlines()[0] for turn in turns if turn.source == "job"]
        for head in heads:
            job_id = head.split()[2]
            if any(word in head for word in missing.get(job_id, ())):
                del missing[job_id]
    print(f"the last message about a job came {time.monotonic() - begun:.1f} s after the last job had ended")


def answer(approvals: Approvals, rng: random.Random, stop: threading.Event) -> None:
    """Be the person: answer each request at some time, mostly with yes."""
    while not stop.wait(0.05):
        with suppress(Exception):  # the database may not be there yet
            for row in approvals.pending():
                if rng.random() < 0.3:
                    approvals.resolve(row["id"], rng.random() < 0.85, approver="cli:test")
