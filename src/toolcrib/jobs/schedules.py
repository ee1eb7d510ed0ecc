"""Stores schedules in the record's database, so that any process may change them, and any worker of their workspace
may run them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

from ..core.dataclass import dataclass
from ..core.text import one_line
from ..record.connection import Where, is_url
from ..record.database import RecordPart
from .engine import Job, JobState, pack, unpack
from .schedule import At, Timing, next_time, timing_from_json, timing_to_json
from .zones import NoSuchSchedule, ScheduleError

MAX_NAME = 60
MAX_SCHEDULES = 1_000
MAX_RUNS = 20
"""Runs that a schedule remembers, the latest first."""
MAX_TEXT = 300
"""Characters of a run's outcome."""

OnMiss = Literal["run_once", "skip"]
Overlap = Literal["skip", "allow"]
RunState = JobState | Literal["missed", "overlap"]
"""That of the job, when a worker last looked; `missed` and `overlap` had none."""
OPEN = ("queued", "running", "parked")

_COLUMNS = """
    timing TEXT NOT NULL,            -- when: JSON
    job TEXT NOT NULL,               -- what: the job, as it is submitted with another id each time
    options TEXT NOT NULL,           -- JSON
    state TEXT NOT NULL,             -- active or paused
    due INTEGER,                     -- the next moment, in Unix seconds; NULL: it has run for the last time
    asked INTEGER,                   -- the moment at which somebody wanted it to run at once
    open INTEGER NOT NULL,           -- how many of its runs have not ended
    runs TEXT NOT NULL,              -- the latest runs: JSON
    created INTEGER NOT NULL,
    version INTEGER NOT NULL         -- grows when its moments or runs change
"""
_TICK = "seen INTEGER NOT NULL  -- when a worker last looked for schedules that are due\n"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS schedule (name TEXT PRIMARY KEY, {_COLUMNS});
CREATE INDEX IF NOT EXISTS schedule_due ON schedule (due);
CREATE TABLE IF NOT EXISTS schedule_tick (id INTEGER PRIMARY KEY, {_TICK})
"""
_BY_WORKSPACE = f"""
ALTER TABLE schedule RENAME TO schedule_of_all;
DROP INDEX schedule_due;
CREATE TABLE schedule (
    workspace TEXT NOT NULL,         -- its path, where the record has many; else ''
    name TEXT NOT NULL, {_COLUMNS}, PRIMARY KEY (workspace, name)
);
INSERT INTO schedule SELECT {{workspace}}, schedule_of_all.* FROM schedule_of_all;
DROP TABLE schedule_of_all;
CREATE INDEX schedule_due ON schedule (workspace, due);
DROP TABLE schedule_tick;
CREATE TABLE schedule_tick (workspace TEXT PRIMARY KEY, {_TICK});
"""  # noqa: S608
_OF_JOB = "COALESCE(CAST(job AS json) ->> 'workspace', '')"
_SAME = "name = ? AND created = ? AND version = ?"
SEEN_SECONDS = 3.0
"""Seconds after which a worker writes again that it looks for schedules that are due."""
GONE_SECONDS = 10.0
"""Seconds after which a worker that has not written again counts as ended."""
ON_TIME = 60
"""Seconds after which a run that did not begin counts as missed."""


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One run of a schedule: when it was due, its job, and how it ended. `times` counts runs left out in a row."""

    due: int
    state: RunState
    job: str = ""
    ended: float | None = None
    text: str = ""
    times: int = 1

    @property
    def is_open(self) -> bool:
        """Whether its job has not ended."""
        return self.state in OPEN


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """What happens after a time without a worker, and while an earlier run goes on; by how many seconds runs may be
    later, so that they do not all begin at once; whether the schedule is deleted after its last run; and whether it is
    a model's: else it is a person's, and a model asks before it changes it."""

    on_miss: OnMiss = "run_once"
    overlap: Overlap = "skip"
    jitter: int = 0
    delete_after_run: bool = True
    by_model: bool = False


DEFAULT_OPTIONS = ScheduleOptions()


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stored schedule. Its `job` has the name as id; each run submits it with an id of its own."""

    name: str
    timing: Timing
    job: Job
    options: ScheduleOptions = DEFAULT_OPTIONS
    state: Literal["active", "paused"] = "active"
    due: int | None = None
    asked: int | None = None
    runs: tuple[ScheduledRun, ...] = ()
    created: int = 0
    version: int = 0

    def next(self, after: float) -> int | None:
        """Return when it is due after this moment."""
        return next_time(self.timing, after, self.name, self.options.jitter)

    @property
    def open_runs(self) -> list[ScheduledRun]:
        """The runs whose jobs have not ended."""
        return [run for run in self.runs if run.is_open]

    def with_run(self, run: ScheduledRun) -> Schedule:
        """Return the schedule with one more run. Runs left out in a row are one entry; those not ended are kept."""
        runs = list(self.runs)
        if runs and not run.job and runs[0].state == run.state:
            run = replace(run, times=runs.pop(0).times + 1)
        runs.insert(0, run)
        old = [each for each in runs[MAX_RUNS:] if each.is_open]
        return replace(self, runs=(*runs[:MAX_RUNS], *old))


def name_of(text: str) -> str:
    """Return a name made of a text: letters, digits, `-`, `_` and `.`. Raises ScheduleError if it has none."""
    found = re.sub(r"[^\w.]+", "-", one_line(text).casefold())[:MAX_NAME].strip("-.")
    if not found:
        raise ScheduleError(f"{text[:MAX_NAME]!r} cannot be the name of a schedule: it has no letter or digit")
    return found


class Schedules(RecordPart):
    """The schedules of one workspace, whose path it is. A record in a file has no others. Any thread may use it."""

    def __init__(self, where: Where, workspace: str = "") -> None:
        many = is_url(where)
        self._workspace = workspace if many else ""
        steps = (_SCHEMA, _BY_WORKSPACE.format(workspace=_OF_JOB if many else "''"))
        super().__init__(where, part="schedule", steps=steps)

    def _here(self, condition: str, *values: object) -> list[Any]:
        """Return the rows of this workspace that meet a condition."""
        return self._run(f"SELECT * FROM schedule WHERE workspace = ? AND {condition}", self._workspace, *values)  # noqa: S608

    def _set(self, what: str, condition: str, *values: object) -> bool:
        """Change the rows of this workspace that meet a condition. Returns whether there were some. The values of the
        condition are the last ones."""
        sql = f"UPDATE schedule SET {what} WHERE {condition} AND workspace = ? RETURNING name"  # noqa: S608
        return bool(self._run(sql, *values, self._workspace))

    # --- for people and models

    def add(
        self,
        name: str,
        timing: Timing,
        job: Job,
        options: ScheduleOptions = DEFAULT_OPTIONS,
        *,
        now: float | None = None,
    ) -> Schedule:
        """Store a schedule. Raises ScheduleError if the name is taken or the schedule is never due, and JobError if the
        job cannot be stored."""
        now = time.time() if now is None else now
        name = name_of(name)
        job = replace(job, id=name, body={**job.body, "schedule": name})
        schedule = Schedule(name, timing, job, options, created=int(now))
        # A moment that has just come counts: it was to come when it was read.
        schedule = replace(schedule, due=schedule.next(now - ON_TIME if isinstance(timing, At) else now))
        if schedule.due is None:
            raise ScheduleError(f"{timing} never comes")
        if self._run("SELECT COUNT(*) FROM schedule WHERE workspace = ?", self._workspace)[0][0] >= MAX_SCHEDULES:
            raise ScheduleError(f"there are {MAX_SCHEDULES} schedules already; remove some")
        added = self._run(
            "INSERT INTO schedule (workspace, name, timing, job, options, state, due, open, runs, created, version)"
            " VALUES (?, ?, ?, ?, ?, 'active', ?, 0, '[]', ?, 0) ON CONFLICT DO NOTHING RETURNING name",
            self._workspace, schedule.name, json.dumps(timing_to_json(timing)), pack(schedule.job),
            json.dumps(asdict(options)), schedule.due, schedule.created,
        )  # fmt: skip
        if not added:
            raise ScheduleError(
                f"there is a schedule {schedule.name!r} already; remove it first, or choose another name"
            )
        return schedule

    def list(self) -> list[Schedule]:
        """Return all schedules, the one that is due next first."""
        return [_schedule(row) for row in self._here("TRUE ORDER BY due IS NULL, due, name")]

    def get(self, name: str) -> Schedule:
        """Return a schedule. Raises NoSuchSchedule, with the names that there are."""
        rows = self._here("name = ?", _searched(name))
        if not rows:
            known = ", ".join(each.name for each in self.list()[:20])
            others = f"there are: {known}" if known else "there are no schedules yet"
            raise NoSuchSchedule(f"there is no schedule {name[:MAX_NAME]!r}; {others}")
        return _schedule(rows[0])

    def remove(self, name: str) -> Schedule:
        """Remove a schedule; what runs goes on. Raises NoSuchSchedule."""
        found = self.get(name)
        self._run("DELETE FROM schedule WHERE workspace = ? AND name = ? RETURNING name", self._workspace, found.name)
        return found

    def pause(self, name: str, *, by_model: bool = False) -> Schedule:
        """Let a schedule rest until it is resumed. What a person pauses is the person's from then on. Raises
        ScheduleError if there is none."""
        found = self.get(name)
        options = replace(found.options, by_model=found.options.by_model and by_model)
        self._set("state = 'paused', options = ?", "name = ?", json.dumps(asdict(options)), found.name)
        return self.get(found.name)

    def resume(self, name: str, *, now: float | None = None) -> Schedule:
        """Let a paused schedule go on; what would have been due meanwhile is left out. Raises ScheduleError if there is
        none, or if its only time is over."""
        found, now = self.get(name), time.time() if now is None else now
        if found.state == "paused":
            due = found.next(now)
            if due is None:
                raise ScheduleError(f"{found.name} was for {found.timing}, which is over; run it now, or remove it")
            what = "state = 'active', due = ?, version = version + 1"
            self._set(what, "name = ? AND state = 'paused'", due, found.name)
        return self.get(found.name)

    def run(self, name: str, *, now: float | None = None) -> Schedule:
        """Let a worker run a schedule at once, in addition to its times. Raises ScheduleError if there is none."""
        found, now = self.get(name), time.time() if now is None else now
        self._set("asked = ?, version = version + 1", "name = ?", int(now), found.name)
        return self.get(found.name)

    def has_worker(self, now: float) -> bool:
        """Return whether a worker runs these schedules now."""
        rows = self._run("SELECT seen FROM schedule_tick WHERE workspace = ?", self._workspace)
        return bool(rows) and now - rows[0][0] < GONE_SECONDS

    # --- for workers

    def seen(self, now: float) -> None:
        """Store that a worker looks for schedules that are due."""
        sql = "INSERT INTO schedule_tick VALUES (?, ?) ON CONFLICT (workspace) DO UPDATE SET seen = excluded.seen"
        self._run(f"{sql} RETURNING seen", self._workspace, int(now))

    def to_do(self, now: float) -> list[Schedule]:
        """Return the schedules that are due, or that somebody wants to run at once."""
        condition = "((state = 'active' AND due <= ?) OR asked IS NOT NULL) ORDER BY due, name"
        return [_schedule(row) for row in self._here(condition, int(now))]

    def unended(self, after: str, limit: int) -> list[Schedule]:
        """Return schedules with runs that have not ended, in the order of their names, after this name."""
        rows = self._here("open > 0 AND name > ? ORDER BY name LIMIT ?", after, limit)
        return [_schedule(row) for row in rows]

    def move(self, before: Schedule, after: Schedule) -> bool:
        """Store the moments and runs of a schedule, if nobody has changed them since it was read. Returns whether it
        is stored."""
        what = "due = ?, asked = ?, open = ?, runs = ?, version = version + 1"
        runs = json.dumps([asdict(run) for run in after.runs])
        new = (after.due, after.asked, len(after.open_runs), runs)
        return self._set(what, _SAME, *new, before.name, before.created, before.version)

    def delete(self, before: Schedule) -> None:
        """Delete a schedule that has run for the last time, if nobody has changed it since it was read."""
        sql = f"DELETE FROM schedule WHERE {_SAME} AND workspace = ? RETURNING name"  # noqa: S608
        self._run(sql, before.name, before.created, before.version, self._workspace)


def _searched(name: str) -> str:
    try:
        return name_of(name)
    except ScheduleError:
        return ""


def _schedule(row: Any) -> Schedule:
    runs: list[Mapping[str, Any]] = json.loads(row["runs"])
    return Schedule(
        row["name"], timing_from_json(json.loads(row["timing"])), unpack(row["job"]),
        ScheduleOptions(**json.loads(row["options"])), row["state"], row["due"], row["asked"],
        tuple(ScheduledRun(**run) for run in runs), row["created"], row["version"],
    )  # fmt: skip
