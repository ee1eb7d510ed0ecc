"""The engine without a database: its jobs end with the process."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from ..core.dataclass import dataclass
from .engine import (
    DEFAULT_LIMITS,
    DEFAULT_SERVED,
    FINAL,
    Job,
    JobError,
    JobEvent,
    JobOutcome,
    JobState,
    JobStatus,
    LeaseLost,
    Limits,
    NotThere,
    Runner,
    Served,
    Signal,
    cut_off_reason,
    is_tried_again,
    nobody,
    pack,
    pause_before,
    plain,
    reason_of,
    too_new,
    unpack,
)

MAX_KEPT = 10_000
"""Jobs in memory. Above it, the oldest final ones are forgotten."""


@dataclass(slots=True)
class _Kept:
    """A job in memory. `task` runs it; `signals` wait for it, `woken` were given to it."""

    status: JobStatus
    due: float
    attempt: int = 0
    cut_off: bool = False
    events: list[JobEvent] = field(default_factory=list[JobEvent])
    signals: dict[str, Signal] = field(default_factory=dict[str, Signal])
    woken: dict[str, Signal] = field(default_factory=dict[str, Signal])
    task: asyncio.Task[None] | None = None


class _MemoryRun:
    def __init__(self, engine: MemoryEngine, kept: _Kept) -> None:
        self.attempt, self.cut_off = kept.attempt, kept.cut_off
        self.signals: Sequence[Signal] = tuple(kept.woken.values())
        self._engine, self._kept, self._task = engine, kept, kept.task

    async def emit(self, kind: str, data: Any) -> None:
        data = plain(f"event {kind!r} of job {self._kept.status.job.id}", data)
        self.check()
        self._kept.events.append(JobEvent(len(self._kept.events) + 1, time.time(), kind, data))
        self._engine.changed()

    def check(self) -> None:
        if self._kept.task is not self._task or self._kept.status.state != "running":
            raise LeaseLost(f"job {self._kept.status.job.id} was taken from this worker")


class MemoryEngine:
    """Keeps jobs in this process. `first_pause` is the pause in seconds before a second attempt."""

    name = "in memory"

    def __init__(self, *, first_pause: float = 1.0) -> None:
        self._first_pause, self._place = first_pause, secrets.token_hex(8)
        self._jobs: dict[str, _Kept] = {}
        self._changed = asyncio.Event()
        self._run: Runner | None = None
        self._serves = DEFAULT_SERVED
        self._limits = DEFAULT_LIMITS
        self._served: Counter[str] = Counter()
        self._dispatcher: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Wake everything that waits for a change of a job."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def place(self) -> str:
        """Return the name of this memory."""
        return self._place

    async def submit(self, job: Job) -> str:
        """Keep a job and return its id. Raises JobError if it is not plain JSON."""
        job = unpack(pack(job))
        if job.id not in self._jobs:
            now = time.time()
            self._jobs[job.id] = _Kept(JobStatus(job, "queued", now), job.not_before or now)
            self._forget()
            self.changed()
        return job.id

    def _forget(self) -> None:
        """Drop the oldest final job if there are too many."""
        if len(self._jobs) > MAX_KEPT:
            final = (job_id for job_id, kept in self._jobs.items() if kept.status.state in FINAL)
            self._jobs.pop(next(final, ""), None)

    def _kept(self, job_id: str) -> _Kept:
        try:
            return self._jobs[job_id]
        except KeyError:
            raise NotThere(f"there is no job {job_id}") from None

    async def status(self, job_id: str) -> JobStatus:
        """Return a job. Raises JobError if there is none."""
        return self._kept(job_id).status

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[JobStatus]:
        """Return jobs, the newest first."""
        found = (kept.status for kept in reversed(self._jobs.values()))
        wanted = (status for status in found if not states or status.state in states)
        return [status for _, status in zip(range(limit), wanted, strict=False)]

    async def result(self, job_id: str, timeout: float | None = None) -> JobStatus:
        """Wait for a final state and return it. Raises TimeoutError, or JobError if there is no such job."""
        kept = self._kept(job_id)
        async with asyncio.timeout(timeout):
            while kept.status.state not in FINAL:
                await self._changed.wait()
        return kept.status

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job. Returns whether it was not final yet. Raises JobError."""
        kept = self._kept(job_id)
        counts = kept.status.state not in FINAL
        if counts:
            self._end(kept, "cancelled")
        return counts

    async def events(self, job_id: str) -> AsyncGenerator[JobEvent]:
        """Yield the events, until the job is final. Raises JobError if there is no such job."""
        kept, after = self._kept(job_id), 0
        while True:
            changed, final = self._changed, kept.status.state in FINAL
            for event in kept.events[after:]:
                after = event.number
                yield event
            if final:
                return
            if not kept.events[after:]:
                await changed.wait()

    async def signal(self, job_id: str, key: str, data: Any = None) -> bool:
        """Wake a job that waits for this key. Returns whether it counts. Raises JobError if there is no such job."""
        kept = self._kept(job_id)
        data = plain(f"signal {key!r} for job {job_id}", data)
        if kept.status.state in FINAL or key in kept.signals or key in kept.woken:
            return False
        kept.signals[key] = Signal(key, data)
        self._wake(kept)
        return True

    def _wake(self, kept: _Kept) -> None:
        """Queue a parked job again if a signal that it waits for is there."""
        status = kept.status
        if status.state == "parked" and any(key in kept.signals for key in status.waits_for):
            for key in [key for key in kept.signals if key in status.waits_for]:
                kept.woken[key] = kept.signals.pop(key)
            kept.attempt, kept.cut_off = 0, False
            self._queue(kept, time.time())

    def _queue(self, kept: _Kept, due: float, reason: str = "") -> None:
        kept.due = due
        kept.status = replace(kept.status, state="queued", reason=reason, waits_for=())
        self.changed()

    def _end(self, kept: _Kept, state: JobState, output: Any = None, reason: str = "") -> None:
        kept.status = replace(
            kept.status, state=state, ended=time.time(), output=output, reason=reason, waits_for=()
        )  # fmt: skip
        if kept.task is not None and kept.task is not asyncio.current_task():
            kept.task.cancel()
        self.changed()

    async def work(
        self,
        run: Runner,
        *,
        serves: Served = DEFAULT_SERVED,
        limits: Limits = DEFAULT_LIMITS,
        lost: Callable[[str], Awaitable[None]] = nobody,
    ) -> None:
        """Begin to run these jobs; returns at once. `lost` is not called: no job outlives its process. Raises
        JobError if this engine works already."""
        if self._dispatcher is not None:
            raise JobError("this engine runs jobs already")
        self._run, self._serves, self._limits = run, serves, limits
        self._dispatcher = asyncio.create_task(self._dispatch())

    async def _dispatch(self) -> None:
        while True:
            changed = self._changed
            while (kept := self._next()) is not None:
                self._served[kept.status.job.tenant] += 1
                kept.attempt += 1
                kept.status = replace(
                    kept.status, state="running", attempt=kept.attempt, worker=self.name, reason="",
                    started=kept.status.started or time.time(),
                )  # fmt: skip
                kept.task = asyncio.create_task(self._run_job(kept))
            due = [kept.due - time.time() for kept in self._ready(0)]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(min(due, default=3600.0), 0.001)):
                    await changed.wait()

    def _ready(self, now: float) -> Iterator[_Kept]:
        """Yield the queued jobs that this worker may run: those due by `now`, or with 0 those due later."""
        for kept in self._jobs.values():
            job = kept.status.job
            mine = kept.status.state == "queued" and self._serves.has(job)
            if mine and ((kept.due <= now) if now else (kept.due > time.time())):
                yield kept

    def _next(self) -> _Kept | None:
        """Return the job to run next: of the tenant that was served least, the one that is due longest."""
        running = [k.status.job for k in self._jobs.values() if k.status.state == "running"]
        queues = Counter(job.queue for job in running)
        tenants = Counter((job.queue, job.tenant) for job in running)
        most = min(self._limits.worker, self._limits.queue or self._limits.worker)
        free = [
            kept
            for kept in self._ready(time.time())
            if len(running) < (self._limits.total or len(running) + 1)
            and queues[kept.status.job.queue] < most
            and tenants[kept.status.job.queue, kept.status.job.tenant] < (self._limits.tenant or most)
        ]
        return min(free, key=lambda kept: (self._served[kept.status.job.tenant], kept.due), default=None)

    async def _run_job(self, kept: _Kept) -> None:
        assert self._run is not None
        job = kept.status.job
        try:
            outcome = too_new(job) or await self._run(job, _MemoryRun(self, kept))
            outcome = replace(outcome, output=plain(f"the output of job {job.id}", outcome.output))
        except asyncio.CancelledError:
            if kept.status.state == "running":  # by drain; a cancelled job has its state already
                self._cut_off(kept)
            raise
        except Exception as error:
            outcome = JobOutcome("failed", reason=reason_of(error))
        if kept.status.state != "running":
            return
        if outcome.state == "parked":
            kept.status = replace(
                kept.status, state="parked", output=outcome.output, reason=outcome.reason, waits_for=outcome.waits_for
            )
            self._wake(kept)
            self.changed()
        elif is_tried_again(job, outcome, kept.attempt):
            kept.cut_off = False
            self._queue(kept, time.time() + self._first_pause * pause_before(kept.attempt + 1), outcome.reason)
        else:
            self._end(kept, outcome.state, outcome.output, outcome.reason)

    def _cut_off(self, kept: _Kept) -> None:
        job = kept.status.job
        if reason := cut_off_reason(job, kept.attempt):
            self._end(kept, "failed" if job.repeatable else "unknown", reason=reason)
        else:
            kept.cut_off = True
            self._queue(kept, time.time())

    async def workers(self) -> dict[str, Served]:
        """Return the worker of this process, if it works."""
        return {self.name: self._serves} if self._dispatcher is not None else {}

    async def forget(self, before: float) -> int:
        """Forget the jobs that ended before this time. Returns how many."""
        old = [job_id for job_id, kept in self._jobs.items() if (kept.status.ended or before) < before]
        for job_id in old:
            del self._jobs[job_id]
        return len(old)

    async def drain(self, timeout: float) -> bool:
        """Take no new jobs, and wait for the running ones. Returns whether all ended in time."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)
            self._dispatcher = None
        running = [kept.task for kept in self._jobs.values() if kept.task is not None and not kept.task.done()]
        try:
            if running and timeout > 0:
                await asyncio.wait(running, timeout=timeout)
        finally:
            left = [task for task in running if not task.done()]
            for task in left:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return not left

    async def aclose(self) -> None:
        """Stop working. Jobs that run are treated as by `drain(0)`."""
        await self.drain(0)
