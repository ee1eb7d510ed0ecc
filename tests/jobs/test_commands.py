"""`toolcrib worker` and `toolcrib jobs`, as processes on one SQLite file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config import load_settings
from toolcrib.jobs import opening
from toolcrib.jobs.bodies import CallBody
from toolcrib.jobs.engine import Job, JobEngine
from toolcrib.jobs.host import open_engine
from toolcrib.record.state import StateFolder

from ..nursery import run_command
from ..waiting import wait_until


class Place:
    """A workspace with its own state."""

    def __init__(self, folder: Path, nursery: subprocess.Popen[str], python: str) -> None:
        self.folder, self.nursery, self.python = folder, nursery, python
        self.work, self.config, state = folder / "work", folder / "c.toml", folder / "state"
        self.work.mkdir()
        self.config.write_text('mode = "autonomous"\n')
        self.env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(folder)}
        self.state = StateFolder.for_workspace(self.work, state / "toolcrib")

    def engine(self) -> JobEngine:
        settings = load_settings(workspace=self.work, config=self.config)
        return open_engine(settings, self.state.path, lambda text: None)

    def words(self, *words: str) -> list[str]:
        return [self.python, "-m", "toolcrib", *words, "-w", str(self.work), "--config", str(self.config)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_command(self.nursery, self.words(*words)[3:], self.work, self.env, self.folder)

    @contextmanager
    def worker(self, *more: str) -> Generator[subprocess.Popen[str]]:
        started = subprocess.Popen(self.words("worker", *more), env=self.env, stderr=subprocess.PIPE, text=True)
        try:
            assert started.stderr is not None
            assert ("Postgres" if "--db" in more else "SQLite") in started.stderr.readline()
            yield started
        finally:
            started.kill()
            started.communicate()

    def alive(self, marker: str) -> bool:
        return any(marker in _command(pid) for pid in Path("/proc").glob("[0-9]*"))


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def call(command: str) -> Job:
    return Job("call", CallBody(tool="exec", arguments={"command": command, "background": True}).to_json())


@pytest.fixture
def place(tmp_path: Path, nursery: subprocess.Popen[str], forked_python: str) -> Place:
    return Place(tmp_path, nursery, forked_python)


async def test_jobs_are_run_shown_cancelled_and_repeated(place: Place) -> None:
    assert "no jobs" in place.run("jobs").stderr
    engine = place.engine()
    quick, slow, last = (
        call("echo $((40+2))"),
        call("echo begun; exec sleep 7777"),
        call("sleep 1; echo end > last.txt"),
    )
    for job in (quick, slow):
        await engine.submit(job)
    with place.worker() as worker:
        assert (await engine.result(quick.id, 60)).state == "done"
        second = place.run("worker")
        assert second.returncode == 1 and "another" in second.stderr, second.stderr
        found: list[dict[str, Any]] = json.loads(place.run("jobs", "--json").stdout)
        assert {row["id"]: row["state"] for row in found} == {quick.id: "done", slow.id: "running"}
        shown = place.run("jobs", "output", quick.id)
        assert shown.returncode == 0 and shown.stdout.startswith("42\nExit code: 0")
        wait_until(lambda: place.alive("sleep\0007777"))
        async with asyncio.timeout(60):
            assert (await anext(engine.events(slow.id))).data == "begun\n"
        assert "begun" in place.run("jobs", "output", slow.id).stdout
        assert place.run("jobs", "cancel", slow.id).returncode == 0
        begun = time.monotonic()
        wait_until(lambda: not place.alive("sleep\0007777"))
        assert time.monotonic() - begun < 20  # far from its end; the measured time is in the documentation
        again = place.run("jobs", "retry", slow.id)
        assert again.returncode == 0, again.stderr
        new = again.stderr.split()[3].rstrip(";")
        assert place.run("jobs", "cancel", new).returncode == 0
        assert place.run("jobs", "retry", quick.id).returncode == 1

        await engine.submit(last)
        wait_until(lambda: place.alive("echo end > last.txt"))
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)
        assert worker.returncode == 0 and "All jobs ended" in said, said
    assert (await engine.status(last.id)).state == "done"
    assert (place.work / "last.txt").read_text() == "end\n"
    await engine.aclose()


async def test_a_second_signal_cuts_off_what_runs(place: Place) -> None:
    engine = place.engine()
    job = call("echo begun; exec sleep 5555")
    await engine.submit(job)
    with place.worker("--drain", "600") as worker:
        wait_until(lambda: place.alive("sleep\0005555"))
        worker.send_signal(signal.SIGTERM)
        assert worker.stderr is not None
        while "again cuts them off" not in worker.stderr.readline():
            pass
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)  # far from 600 s
        assert worker.returncode == 1 and "Some jobs were cut off" in said, said
    assert not place.alive("sleep\0005555")
    assert (await engine.status(job.id)).state == "unknown"
    await engine.aclose()


async def test_following_a_job_says_why_it_does_not_go_on(place: Place) -> None:
    place.config.write_text('mode = "autonomous"\n[approval]\nrequire_for = ["exec"]\n')
    engine = place.engine()
    job = call("echo $((40+2))")
    await engine.submit(job)
    follow = subprocess.Popen(
        place.words("jobs", "output", job.id, "--follow"), env=place.env, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert follow.stderr is not None
        assert "The job waits for a worker, and none is there. Start one" in follow.stderr.readline()
        with place.worker():
            said = follow.stderr.readline()
            assert f"{job.id} waits for a person: exec waits for approval: toolcrib approvals approve" in said
            answered = place.run("approvals", "approve", said.split()[-1])
            assert f"the job {job.id} goes on" in answered.stderr
            printed, _ = follow.communicate(timeout=60)
            assert printed.startswith("42\nExit code: 0\n") and follow.returncode == 0  # nothing is printed twice
    finally:
        follow.kill()
        follow.communicate()
    await engine.aclose()


async def test_what_a_killed_worker_ran_is_unknown(place: Place) -> None:
    engine = place.engine()
    job = call("echo begun; exec sleep 6666")
    await engine.submit(job)
    with place.worker() as worker:
        wait_until(lambda: place.alive("sleep\0006666"))
        async with asyncio.timeout(60):
            assert (await anext(engine.events(job.id))).data == "begun\n"
        worker.kill()
        wait_until(lambda: not place.alive("sleep\0006666"))  # it dies with its worker
    with place.worker():
        assert (await engine.result(job.id, 60)).state == "unknown"
    shown = place.run("jobs", "output", job.id)
    assert shown.returncode == 1 and shown.stdout.startswith("begun\n") and "not known" in shown.stdout
    await engine.aclose()


@pytest.mark.slow
async def test_what_a_background_command_of_a_killed_chat_printed_is_read_in_the_next_one(place: Place) -> None:
    script = place.work / "replies.json"
    words = place.words("chat", "--model", f"scripted:{script}")
    long = str(10_000_000 + os.getpid())  # the same test may run beside this one
    command = {"command": f"echo $((40+2)); exec sleep {long}", "background": True}
    begins = [{"calls": [{"name": "exec", "arguments": command}]}, {"text": "It runs."}]
    script.write_text(json.dumps(begins))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": place.env}
    engine, chat = place.engine(), subprocess.Popen(words, **pipes)
    try:
        assert chat.stdin is not None
        chat.stdin.write("go\n")
        chat.stdin.flush()
        wait_until(lambda: place.alive(f"sleep\0{long}"))
        (job,) = [status.job for status in await engine.jobs()]
        async with asyncio.timeout(60):
            assert (await anext(engine.events(job.id))).data == "42\n"
        wait_until(lambda: "It runs." in place.run("sessions", "show", "last").stdout)
    finally:
        chat.kill()
        chat.communicate()
    look = {"action": "output", "id": job.id, "wait": 30}
    replies = [{"calls": [{"name": "job", "arguments": look}]}, {"text": "I saw it."}, {"text": "Yes."}]
    script.write_text(json.dumps([*begins, *replies]))
    again = subprocess.Popen([*words, "--session", "last"], **pipes)
    said, _ = again.communicate("and?\n", timeout=120)
    assert "I saw it." in said
    assert "\n42" in place.run("sessions", "show", "last", "--json").stdout.replace("\\n", "\n")
    assert (await engine.status(job.id)).state == "unknown"
    await engine.aclose()


async def test_on_postgres_any_machine_answers_what_a_job_asks(place: Place, tmp_path: Path, postgres_url: str) -> None:
    place.config.write_text('mode = "autonomous"\n[approval]\nrequire_for = ["exec"]\n')
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other", place.nursery, place.python)
    engine = opening.open_engine(postgres_url)
    job = call("echo $((40+2))")
    await engine.submit(job)
    elsewhere = replace(call("echo no"), workspace="/srv/else", tags=("gpu",))
    await engine.submit(elsewhere)
    needed = "1 job waits for a worker, and none is there. Start one: "
    needed += "toolcrib worker -w /srv/else --queue default --tag gpu --db URL"
    with place.worker("--db", postgres_url):
        found: list[dict[str, Any]] = json.loads(place.run("jobs", "workers", "--db", postgres_url, "--json").stdout)
        assert [worker["workspaces"] for worker in found] == [[str(place.work), ""]]
        assert needed in place.run("jobs", "--db", postgres_url).stderr
        async with asyncio.timeout(60):
            while (status := await engine.status(job.id)).state != "parked":
                await asyncio.sleep(0.05)
        request = status.waits_for[0].removeprefix("approval:")
        answered = other.run("approvals", "approve", request, "--db", postgres_url)
        assert answered.returncode == 0, answered.stderr
        assert (await engine.result(job.id, 60)).output["text"].startswith("42\n")
    async with asyncio.timeout(60):
        while await engine.workers():  # a killed one is listed until its lease ends
            await asyncio.sleep(0.1)
    assert "No worker runs now" in place.run("jobs", "workers", "--db", postgres_url).stderr
    shown = other.run("jobs", "--db", postgres_url)
    assert job.id in shown.stdout, shown.stderr
    await engine.aclose()


def test_a_direct_call_loads_nothing_of_jobs(place: Place) -> None:
    (place.work / "a.txt").write_text("alpha\n")
    look = (
        "import sys; from toolcrib.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print(*{m.partition('.')[0] if m[:9] != 'toolcrib.' else '.'.join(m.split('.')[:2]) for m in sys.modules})"
    )
    words = [sys.executable, "-c", look, "call", "read_file", "path=a.txt", "-w", str(place.work)]
    done = subprocess.run(words, env=place.env, capture_output=True, text=True, check=True, timeout=60)
    text, *_, modules = done.stdout.splitlines()
    assert "alpha" in text
    assert "toolcrib.core" in modules.split()
    assert not {"dbos", "sqlalchemy", "psycopg", "toolcrib.jobs", "toolcrib.agent"} & set(modules.split())
