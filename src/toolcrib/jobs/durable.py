"""The engine in a database: DBOS on a SQLite file, or on Postgres for many workers.

DBOS stores and dispatches: each run of a job is one workflow, with one step that does the work. The first run has the
job's id, each continuation (after a signal, or a failed attempt) has that id, a tilde and a number. What DBOS has no
place for is in `job_store`; what a worker does is in `durable_worker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus
from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from ..boundary.own_files import make_private
from ..core.text import one_line
from .durable_worker import DurableWorker
from .engine import (
    DEFAULT_LIMITS,
    DEFAULT_SERVED,
    FINAL,
    Job,
    JobError,
    JobEvent,
    JobState,
    JobStatus,
    Limits,
    NotThere,
    Runner,
    Served,
    cut_off_reason,
    nobody,
    pack,
    plain,
    unpack,
)
from .job_store import NOTHING, SCHEMA, JobRow, JobStore, is_sqlite, open_database
from .runs import (
    APPLICATION,
    EVENTS,
    WORKFLOW,
    enqueue_options,
    queue_limits,
    route,
    run_id,
    split_run_id,
    wake_if_signalled,
)
from .worker_lease import holder_of

T = TypeVar("T")

_PAGE = 200
_LOOKED_AT = 2_000
"""Runs that a list looks at, unless more jobs are wanted."""
_STATES: dict[str, tuple[JobState, ...]] = {
    "DELAYED": ("queued",), "ENQUEUED": ("queued",), "PENDING": ("running", "parked", "queued"),
    "SUCCESS": ("parked", "done", "failed", "unknown", "cancelled"), "ERROR": ("failed", "cancelled"),
    "CANCELLED": ("cancelled",), "MAX_RECOVERY_ATTEMPTS_EXCEEDED": ("failed",),
}  # fmt: skip
"""The states that a job may have when its present run has this status in DBOS."""


class DurableEngine:
    """Stores jobs in the database at `url`. `first_pause` is the pause in seconds before a second attempt, `lease` how
    long a worker on Postgres may be silent before others take its jobs, `poll` how often a worker looks for jobs.
    Without `create` a database that is not there is an error (NotThere)."""

    def __init__(
        self, url: str, *, create: bool = True, first_pause: float = 1.0, lease: float = 5.0, poll: float = 0.4
    ) -> None:
        self.url, self.first_pause, self.lease, self.poll = url, first_pause, lease, poll
        self._create = create
        self.store = JobStore(open_database(url))
        where = self.store.engine.url
        port = f":{where.port}" if where.port else ""
        self.name = f"SQLite {where.database}" if is_sqlite(url) else f"Postgres {where.host}{port}/{where.database}"
        self._client: DBOSClient | None = None
        self._opening = asyncio.Lock()
        self._routes: set[str] = set()
        self._waiting: dict[str, asyncio.Event] = {}
        self._worker: DurableWorker | None = None

    async def _opened(self) -> DBOSClient:
        async with self._opening:
            if self._client is None:
                self._client = await self._do(self._open)
        return self._client

    def _open(self) -> DBOSClient:
        if not self._create and not self.store.is_there():
            raise NotThere(f"there are no jobs in {self.name}; nothing was made there")
        if is_sqlite(self.url):
            assert self.store.engine.url.database is not None
            make_private(self.store.engine.url.database)
        url = self.store.engine.url.render_as_string(hide_password=False)
        DBOS.migrate(url.replace("+psycopg", "", 1), schema=SCHEMA)
        self.store.set_up()
        return DBOSClient(
            system_database_engine=self.store.engine, dbos_system_schema=SCHEMA, application_name=APPLICATION,
            serializer=DBOSPortableJSONSerializer(), use_listen_notify=self.store.postgres,
        )  # fmt: skip

    @contextlib.contextmanager
    def _in_words(self) -> Generator[None]:
        """Raise JobError for each error of the database or of DBOS within this block: the text is for a person."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, dbos_error.DBOSException, OSError) as error:
            why = one_line(str(getattr(error, "orig", None) or error).partition("\n")[0]) or type(error).__name__
            raise JobError(f"the jobs in {self.name} cannot be used: {why}") from error

    async def _do(self, do: Callable[..., T], *values: Any) -> T:
        with self._in_words():
            return await asyncio.to_thread(do, *values)

    def _changed(self, job_id: str) -> None:
        """Wake what waits here for a job, without waiting for its next look."""
        if (waiting := self._waiting.pop(job_id, None)) is not None:
            waiting.set()

    def _change(self, job_id: str) -> asyncio.Event:
        """Return what is set when a run of a job ends in this process."""
        return self._waiting.setdefault(job_id, asyncio.Event())

    async def place(self) -> str:
        """Return the name of the database. Raises JobError."""
        await self._opened()
        return await self._do(self.store.place)

    async def submit(self, job: Job) -> str:
        """Store a job and return its id. Raises JobError if it is not plain JSON or cannot be stored."""
        packed = pack(job)
        client = await self._opened()
        await self._do(self._submit, client, job, packed)
        return job.id

    def _submit(self, client: DBOSClient, job: Job, packed: str) -> None:
        if route(job) not in self._routes:
            client.register_queue(route(job), **queue_limits(DEFAULT_LIMITS, self.poll), on_conflict="never_update")
            self._routes.add(route(job))
        delay = (job.not_before or 0) - time.time()
        client.enqueue(enqueue_options(job, 0, delay), packed, 0)

    async def status(self, job_id: str) -> JobStatus:
        """Return a job. Raises JobError if there is none."""
        client = await self._opened()
        found = await self._do(self._statuses, client, [job_id])
        if not found:
            raise NotThere(f"there is no job {job_id}")
        return found[0]

    def _statuses(self, client: DBOSClient, job_ids: Sequence[str]) -> list[JobStatus]:
        if not job_ids:
            return []
        rows = self.store.rows(job_ids)
        wanted = {run_id(job_id, run) for job_id in job_ids for run in {0, rows.get(job_id, NOTHING).run}}
        runs = {run.workflow_id: run for run in client.list_workflows(workflow_ids=list(wanted), name=WORKFLOW)}
        claimed = [ident for ident, run in runs.items() if run.status == "PENDING"]
        waiting = self.store.waiting(claimed) if claimed else {}
        found: list[JobStatus] = []
        for job_id in job_ids:
            kept = rows.get(job_id, NOTHING)
            if job_id in runs and (now := runs.get(run_id(job_id, kept.run))) is not None:
                waits = now.status == "PENDING" and waiting.get(now.workflow_id) == now.executor_id
                found.append(_status(runs[job_id], now, kept, waits))
        return found

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[JobStatus]:
        """Return jobs, the newest first, of the latest 2,000 runs, or twice `limit`."""
        client = await self._opened()
        found = await self._do(self._jobs, client, set(states), limit)
        return sorted(found, key=lambda status: status.created, reverse=True)[:limit]

    def _jobs(self, client: DBOSClient, states: set[JobState], limit: int) -> list[JobStatus]:
        def right(job_ids: Iterable[str]) -> list[JobStatus]:
            found = self._statuses(client, list(job_ids))
            return [status for status in found if not states or status.state in states]

        if states == {"parked"}:
            return right(self.store.parked(limit))
        wanted = [name for name, possible in _STATES.items() if not states or states & set(possible)]
        found: dict[str, JobStatus] = {}
        for count in (_PAGE, max(_LOOKED_AT, 2 * limit)):  # not page by page: those of one moment have no order
            page = client.list_workflows(
                name=WORKFLOW, status=wanted, sort_desc=True, limit=count, load_input=False, load_output=False
            )
            new = dict.fromkeys(split_run_id(run.workflow_id)[0] for run in page)
            ids = [job_id for job_id in new if job_id not in found]
            for first in range(0, len(ids), _PAGE):
                found |= {status.job.id: status for status in right(ids[first : first + _PAGE])}
            if len(page) < count or len(found) >= limit:
                break
        return list(found.values())

    async def result(self, job_id: str, timeout: float | None = None) -> JobStatus:
        """Wait for a final state and return it. Raises TimeoutError, or JobError if there is no such job."""
        pause = 0.02
        async with asyncio.timeout(timeout):
            while True:
                change = self._change(job_id)
                status = await self.status(job_id)
                if status.state in FINAL:
                    self._changed(job_id)
                    return status
                await _wait(change, pause)
                pause = min(pause * 1.5, 0.5)

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job. Returns whether it was not final yet. Raises JobError."""
        client = await self._opened()
        status = await self.status(job_id)
        counts = status.state not in FINAL
        if counts:
            lost = status.state == "running" and status.worker not in await self.workers()
            await self._do(self._cancel, client, status, lost)
            counts = (await self.status(job_id)).state in ("cancelled", "unknown")
            self._changed(job_id)
        return counts

    def _cancel(self, client: DBOSClient, status: JobStatus, lost: bool) -> None:
        """`lost`: it was cut off, and no worker has noticed that yet."""
        job_id = status.job.id

        def mark(connection: sa.Connection) -> int:
            kept = self.store.locked(connection, job_id)
            self.store.change(connection, job_id, cancelled=1, parked=None)
            return kept.run

        run = self.store.transaction(mark)
        if lost:
            self.store.cut_off(job_id, run, status.worker, int((status.started or 0) * 1000))
        client.cancel_workflow(run_id(job_id, run))

    async def events(self, job_id: str) -> AsyncGenerator[JobEvent]:
        """Yield the events, until the job is final. Raises JobError if there is no such job."""
        client = await self._opened()
        await self.status(job_id)
        number, run = 0, 0
        while True:
            async for value in self._stream(client, run_id(job_id, run)):
                number += 1
                yield JobEvent(number, *value)
            while (await self._do(self.store.kept, job_id)).run == run:
                if (await self.status(job_id)).state in FINAL:
                    return
                await _wait(self._change(job_id), 0.25)
            run += 1

    async def _stream(self, client: DBOSClient, workflow_id: str) -> AsyncGenerator[tuple[float, str, Any]]:
        with self._in_words():
            stream = client.read_stream_async(workflow_id, EVENTS, polling_interval_sec=0.25)
            async for at, kind, data in stream:
                yield at, kind, data

    async def signal(self, job_id: str, key: str, data: Any = None) -> bool:
        """Wake a job that waits for this key. Returns whether it counts. Raises JobError if there is no such job."""
        data = plain(f"signal {key!r} for job {job_id}", data)
        client = await self._opened()
        status = await self.status(job_id)
        if status.state in FINAL:
            return False

        def wake(connection: sa.Connection) -> bool:
            kept = self.store.locked(connection, job_id)
            if kept.cancelled or not self.store.add_signal(connection, job_id, key, data):
                return False
            if kept.parked is not None:
                wake_if_signalled(self.store, client, connection, status.job, kept, kept.parked)
            return True

        return await self._do(lambda: self.store.transaction(wake))

    async def work(
        self,
        run: Runner,
        *,
        serves: Served = DEFAULT_SERVED,
        limits: Limits = DEFAULT_LIMITS,
        lost: Callable[[str], Awaitable[None]] = nobody,
    ) -> None:
        """Begin to run these jobs in this process; returns at once. `lost(job_id)` is called before a job
        that was cut off, and is not run again, ends. Raises JobError if this process may not: it works already, or
        another one works on this SQLite file."""
        client = await self._opened()
        if self._worker is not None:
            raise JobError("this engine runs jobs already")
        worker = DurableWorker(
            self.store, client, run, serves, limits,
            first_pause=self.first_pause, lease=self.lease, poll=self.poll, ended=self._changed, lost=lost,
        )  # fmt: skip
        await self._do(worker.start)
        self._worker = worker

    async def workers(self) -> dict[str, Served]:
        """Return the workers that run now, by name, with the jobs that each takes."""
        await self._opened()
        if self.store.postgres:
            return await self._do(self.store.living, self.lease)
        return await self._do(holder_of, str(self.store.engine.url.database))

    async def forget(self, before: float) -> int:
        """Delete some of the jobs that ended before this time, with their events. Returns how many."""
        client = await self._opened()
        return await self._do(self._forget, client, before)

    def _forget(self, client: DBOSClient, before: float) -> int:
        end = datetime.fromtimestamp(before, UTC).isoformat()
        runs = client.list_workflows(
            name=WORKFLOW, completed_before=end, limit=_PAGE, load_input=False, load_output=False
        )  # fmt: skip
        ended = self._statuses(client, list(dict.fromkeys(split_run_id(run.workflow_id)[0] for run in runs)))
        old = [status.job.id for status in ended if status.state in FINAL and (status.ended or before) < before]
        if old:
            rows = self.store.rows(old)
            client.delete_workflows([run_id(j, run) for j in old for run in range(rows.get(j, NOTHING).run + 1)])
            self.store.delete(old)
        return len(old)

    async def drain(self, timeout: float) -> bool:
        """Take no new jobs, and wait for the running ones. Returns whether all ended in time."""
        if self._worker is None:
            return True
        worker, self._worker = self._worker, None
        return await worker.drain(timeout)

    async def aclose(self) -> None:
        """Stop working and close connections. Jobs that run are treated as by `drain(0)`."""
        await self.drain(0)
        if self._client is not None:
            await asyncio.to_thread(self._client.destroy)
            self._client = None
        await asyncio.to_thread(self.store.close)


async def _wait(change: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await change.wait()


def _status(first: WorkflowStatus, now: WorkflowStatus, kept: JobRow, waits: bool) -> JobStatus:
    """`waits`: a worker has claimed the present run, and a limit does not let it begin."""
    try:
        given: Any = first.input  # None if its row is gone
        job = unpack(given["args"][0])
        outcome: dict[str, Any] = dict(now.output or {})
        ended: JobState = outcome["state"] if now.status == "SUCCESS" else "running"
    except (LookupError, TypeError, ValueError):
        job = Job("unreadable", {}, id=split_run_id(first.workflow_id)[0])
        reason = "its row in the database cannot be read; Toolcrib did not write it like that"
        return JobStatus(job, "failed", created=(first.created_at or 0) / 1000, reason=reason)
    state, reason = "queued" if waits else _STATES[now.status][0], ""
    if now.status == "SUCCESS":
        state = ended if ended in FINAL else "running"  # it ended, and the next run is not stored
    elif state == "failed":
        reason = f"the worker could not run it: {now.error}"
    if kept.cancelled and state in ("cancelled", "queued", "running", "parked"):
        state, reason, outcome = "cancelled", "", {}  # not what it was parked with
        if kept.cut_off and not job.repeatable:
            state, reason, outcome = "unknown", cut_off_reason(job, 1), {"attempt": kept.attempt - 1}
    elif kept.parked is not None and state not in FINAL:
        state, outcome = "parked", kept.parked
    elif state in ("queued", "running"):
        outcome = {}
    began = now.status not in ("DELAYED", "ENQUEUED") and not waits
    started, worker = first.dequeued_at or now.dequeued_at or 0, now.executor_id
    if kept.taken_from and kept.cut_off and state in FINAL and "output" not in outcome:  # not of who noticed it
        worker, _, began = kept.taken_from.partition(" ")
        started = int(began or 0)
    return JobStatus(
        job,
        state,
        created=(first.created_at or 0) / 1000,
        started=None if waits and now is first else started / 1000 or None,
        ended=(now.completed_at or now.updated_at or 0) / 1000 if state in FINAL else None,
        attempt=outcome.get("attempt", kept.attempt if began else kept.attempt - 1),
        worker=worker,
        output=outcome.get("output"),
        reason=outcome.get("reason") or reason,
        waits_for=tuple(outcome.get("waits_for", ())) if state == "parked" else (),
    )
