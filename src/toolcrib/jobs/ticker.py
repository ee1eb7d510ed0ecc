"""Submits the jobs of schedules when they are due. Every worker of a workspace has a ticker; several do nothing twice.

A job's id is its schedule's name and the moment it was due. It is submitted first, and only then the schedule moves on,
if nobody else has moved it. So a process may end between the two: the next look submits the same job again, which the
engine ignores.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

from ..core.text import clip, one_line
from ..core.threads import shared_threads
from ..record.connection import RecordError
from .engine import FINAL, JobEngine, JobError, JobStatus, NotThere
from .runner import text_of_output
from .schedule import At
from .schedules import MAX_RUNS, MAX_TEXT, ON_TIME, SEEN_SECONDS, Schedule, ScheduledRun, Schedules

log = logging.getLogger("toolcrib.jobs")

LOOK_SECONDS = 1.0
"""Seconds between two looks for schedules that are due: all moments are whole seconds, so runs begin on time."""
SETTLE_SECONDS = 5.0
"""Seconds between two looks at runs that have not ended."""
SETTLE_LIMIT = 20
"""Schedules whose runs are looked at each time: a run that waits for a person may not end for days."""
FIRST_PAUSE, MAX_PAUSE = 30, 3_600
"""Seconds before a schedule may run again after its run failed: twice as long after each further failure."""
FAILED = ("failed", "unknown")


class Ticker:
    """Runs the schedules of a record. `engine` opens the engine when a schedule is due for the first time. `clock`
    returns Unix seconds."""

    def __init__(
        self, schedules: Schedules, engine: Callable[[], Awaitable[JobEngine]], clock: Callable[[], float] = time.time
    ) -> None:
        self._schedules, self._engine, self._clock = schedules, engine, clock
        self._settled = ""

    async def run(self) -> None:
        """Look for schedules that are due until this is cancelled. After an error the next look tries again."""
        settled = seen = -1e9
        offset = random.random() * 0.1  # noqa: S311  # so that workers do not all look at one moment
        while True:
            await asyncio.sleep(LOOK_SECONDS - (time.time() - offset) % LOOK_SECONDS)
            try:
                if time.monotonic() - seen >= SEEN_SECONDS:
                    seen = time.monotonic()
                    await shared_threads.run(self._schedules.seen, self._clock())
                await self.look()
                if time.monotonic() - settled >= SETTLE_SECONDS:
                    settled = time.monotonic()
                    await self.settle_some()
            except (JobError, RecordError) as error:
                log.warning("the schedules could not be run; the next look comes in %g s: %s", LOOK_SECONDS, error)
            except Exception:
                log.exception("the schedules could not be run; the next look comes in %g s", LOOK_SECONDS)

    async def look(self) -> None:
        """Submit the jobs of the schedules that are due now."""
        for schedule in await shared_threads.run(self._schedules.to_do, self._clock()):
            try:
                await self._run(schedule)
            except JobError as error:
                log.error("the schedule %s could not be run: %s", schedule.name, error)

    async def settle_some(self) -> None:
        """Store how runs ended that had not ended at the last look: of some schedules, the next time of others."""
        found = await shared_threads.run(self._schedules.unended, self._settled, SETTLE_LIMIT)
        self._settled = found[-1].name if len(found) == SETTLE_LIMIT else ""
        for schedule in found:
            await self._settle(schedule)

    # --- one schedule

    async def _run(self, stored: Schedule) -> None:
        now = self._clock()
        schedule = await self._settle(stored) if stored.open_runs else stored
        if schedule is None:
            return
        if schedule.asked is not None:
            await self._submit(schedule, replace(schedule, asked=None), schedule.asked, "asked:")  # no name has a colon
        elif schedule.due is not None and schedule.state == "active" and schedule.due <= now:
            moved = replace(schedule, due=schedule.next(max(now, schedule.due)))
            left_out = _left_out(schedule, schedule.due, now)
            if left_out is None or await self._status(_job_id(schedule, schedule.due)) is not None:
                await self._submit(schedule, moved, schedule.due)
            else:
                await self._move(schedule, moved.with_run(replace(left_out, ended=now)))

    async def _submit(self, schedule: Schedule, moved: Schedule, due: int, why: str = "") -> None:
        job = replace(schedule.job, id=_job_id(schedule, due, why))
        await (await self._engine()).submit(job)
        await self._move(schedule, moved.with_run(ScheduledRun(due, "queued", job.id)))

    async def _settle(self, schedule: Schedule) -> Schedule | None:
        """Store how the runs of a schedule ended. Returns what is stored now; None if another worker changed it, or if
        it was deleted after its last run."""
        statuses = {run.job: await self._status(run.job) for run in schedule.open_runs}
        runs = tuple(_ended(run, statuses.get(run.job), self._clock()) for run in schedule.runs)
        if runs == schedule.runs:
            return schedule
        found = replace(schedule, runs=runs)
        if found.due is not None and (earliest := _earliest(found)) > found.due:
            found = replace(found, due=found.next(earliest - 1) or found.due)
        return replace(found, version=found.version + 1) if await self._move(schedule, found) else None

    async def _status(self, job_id: str) -> JobStatus | None:
        engine = await self._engine()
        try:
            return await engine.status(job_id)
        except NotThere:
            return None

    async def _move(self, before: Schedule, after: Schedule) -> bool:
        """Store a schedule as it is now, or delete it after its last run. Returns whether it is there and stored."""
        over = after.due is None and after.asked is None and not after.open_runs
        if over and after.options.delete_after_run:
            await shared_threads.run(self._schedules.delete, before)
            return False
        return await shared_threads.run(self._schedules.move, before, after)


def _left_out(schedule: Schedule, due: int, now: float) -> ScheduledRun | None:
    """Return the entry of a run that must not begin; None if it may. One that is its schedule's only one may."""
    if now - due > ON_TIME and schedule.options.on_miss == "skip":
        return ScheduledRun(due, "missed", text="no worker was there")
    unended = schedule.open_runs
    if isinstance(schedule.timing, At):
        return None
    if unended and (schedule.options.overlap == "skip" or len(unended) >= MAX_RUNS):
        return ScheduledRun(due, "overlap", text=f"{unended[0].job} had not ended")
    return None


def _ended(run: ScheduledRun, status: JobStatus | None, now: float) -> ScheduledRun:
    """Return a run with the state of its job, and its outcome."""
    if not run.is_open:
        return run
    if status is None:
        return replace(run, state="unknown", ended=now, text="its job is no longer stored")
    text = clip(one_line(status.reason or text_of_output(status.output)), MAX_TEXT)
    return replace(run, state=status.state, ended=(status.ended or now) if status.state in FINAL else None, text=text)


def _earliest(schedule: Schedule) -> int:
    """Return when a schedule may run again after its latest runs failed; 0 if the latest did not fail."""
    ended = [run for run in schedule.runs if run.job and not run.is_open]
    failures = next((place for place, run in enumerate(ended) if run.state not in FAILED), len(ended))
    if not failures:
        return 0
    return int(ended[0].ended or 0) + min(FIRST_PAUSE << (failures - 1), MAX_PAUSE)


def _job_id(schedule: Schedule, due: int, why: str = "") -> str:
    """Return the id of the job of a run, the same for every worker. Schedules of other workspaces may have the name."""
    where = schedule.job.workspace
    end = f"-{sha256(where.encode()).hexdigest()[:8]}" if where else ""
    return f"sched-{schedule.name}-{why}{datetime.fromtimestamp(due, UTC):%Y%m%d-%H%M%S}{end}"
