"""A worker in a process of its own, for tests that kill, stop or cut it off.

`python worker_process.py URL LOG LEASE MOST [STOPS]`: it runs at most MOST jobs at once. Its effects are lines of the
log: `begin`, `effect` after `check`, with the job's id and the attempt.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from dbos import DBOSClient

from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, JobOutcome, JobRun, LeaseLost, Limits, Served
from toolcrib.jobs.job_store import JobStore


class Worker:
    """A running worker process and what it wrote."""

    def __init__(
        self, nursery: subprocess.Popen[str], url: str, log: Path, *, lease: float = 5.0, most: int = 16,
        prefix: tuple[str, ...] = (), stops: str = "",
    ) -> None:  # fmt: skip
        from ..nursery import Started  # not where this is the program

        self.log = log
        self.said = log.with_name(f"{log.name}.said")
        words = [url, str(log), str(lease), str(most), stops]
        with self.said.open("ab") as said, open(os.devnull, "rb") as null:
            files = null.fileno(), said.fileno(), said.fileno()
            self.process = (
                subprocess.Popen([*prefix, sys.executable, __file__, *words], stdout=said, stderr=said)
                if prefix
                else Started(nursery, words, log.parent, os.environ, *files, program=Path(__file__))
            )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def is_stopped(self) -> bool:
        """Whether the process does nothing until it gets SIGCONT."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def lines(log: Path) -> list[tuple[str, str, int]]:
    """What, job and attempt of each effect."""
    if not log.exists():
        return []
    words = [line.split() for line in log.read_text().splitlines()]
    return [(what, job, int(attempt)) for what, job, attempt in words]


def stop_in_takeover(at: str) -> None:
    """Stop this process in the middle of taking over jobs, as SIGSTOP from outside would by chance: before it notes a
    job (`noting`), or before it gives jobs away (`giving`)."""
    if at == "noting":
        note = JobStore.cut_off

        def cut_off(self: JobStore, job_id: str, run: int, worker: str | None, began: int | None) -> None:
            stop()
            note(self, job_id, run, worker, began)

        JobStore.cut_off = cut_off
    else:
        give = DBOSClient.resume_workflows

        def resume(self: DBOSClient, ids: list[str], **more: Any) -> Any:
            stop()
            return give(self, ids, **more)

        DBOSClient.resume_workflows = resume

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


async def main(url: str, log: str, lease: str, most: str, stops: str) -> None:
    if stops:
        stop_in_takeover(stops)
    faulthandler.register(signal.SIGUSR1)  # say where it hangs
    out = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(what: str, job: Job, run: JobRun) -> None:
        os.write(out, f"{what} {job.id} {run.attempt}\n".encode())

    async def run(job: Job, run: JobRun) -> JobOutcome:
        if job.kind == "park" and not run.signals:
            return JobOutcome("parked", waits_for=("go",))
        write("begin", job, run)
        try:
            await run.emit("begin", run.attempt)
            await asyncio.sleep(job.body["seconds"])
            run.check()
            await run.emit("end", run.attempt)
        except LeaseLost:
            write("lost", job, run)
            raise
        except asyncio.CancelledError:
            write("cancelled", job, run)
            raise
        write("effect", job, run)
        return JobOutcome("done", run.attempt)

    engine = DurableEngine(url, first_pause=0.01, poll=0.05, lease=float(lease))
    await engine.work(run, serves=Served(("default", "narrow"), ("docker",)), limits=Limits(int(most)))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    os.write(out, b"ready - 0\n")
    await stop.wait()
    await engine.drain(1.5)
    await engine.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
