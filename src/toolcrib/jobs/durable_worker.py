"""What a worker does with the jobs in a database: it runs them while it has its lease, and gives back what is left.

DBOS claims the runs and fences them: each claim has a token, and what an execution writes (the outcome of its step, its
events) counts only while the run has that token. A run that is taken over gets another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus, error
from sqlalchemy.exc import SQLAlchemyError

from .engine import (
    Job,
    JobError,
    JobOutcome,
    LeaseLost,
    Limits,
    Runner,
    Served,
    Signal,
    cut_off_reason,
    is_tried_again,
    plain,
    reason_of,
    too_new,
    unpack,
)
from .job_store import SCHEMA, JobRow, JobStore
from .pace import Pace
from .runs import APPLICATION, EVENTS, VERSION, WORKFLOW, go_on, queue_limits, queue_of, route, routes, split_run_id
from .worker_lease import FileLease, HeartbeatLease, WorkerLease

log = logging.getLogger("toolcrib.jobs")

_GLANCE = 0.25
"""Seconds between two looks at the lease."""
_SWEEP = 2.0
"""Seconds between two looks for dead workers."""
_HELD = 1.0
"""Seconds that a run waits here for a place that other tags or workspaces of its queue have. Then it is given back."""
_STUCK = 15.0
"""Seconds after which a run that was claimed, and that this worker does not know, is given back."""

_registered = False
_working: DurableWorker | None = None
_one = threading.Lock()


async def _workflow(packed: str, run: int) -> dict[str, Any]:
    """The one workflow of all kinds of jobs."""
    worker = _working
    if worker is None:
        raise asyncio.CancelledError  # the worker ends; it is taken over
    return await worker.run_workflow(unpack(packed), run)


class _Execution:
    """A run of a job in this process: what its runner gets, and the task that the runner is in."""

    def __init__(self, job: Job, kept: JobRow, lease: WorkerLease) -> None:
        self.attempt, self.cut_off = kept.attempt, kept.cut_off
        self.signals: Sequence[Signal] = tuple(Signal(key, data) for key, data in kept.signals)
        self.ended: Future[JobOutcome | None] = Future()  # None: the runner was cancelled
        self.stopped = ""  # why this worker stopped it: "drain", "lease", or the job was cancelled
        self.refused = False  # `check` raised: what the runner says after that is not how the job ended
        self._job, self._lease = job, lease
        self._context, self._loop = contextvars.copy_context(), asyncio.get_running_loop()
        self._task: asyncio.Task[JobOutcome] | None = None
        self._order = asyncio.Lock()

    async def emit(self, kind: str, data: Any) -> None:
        """Store an event. Raises JobError if it is not plain JSON, LeaseLost as `check` does."""
        value = [time.time(), kind, plain(f"event {kind!r} of job {self._job.id}", data)]
        async with self._order:
            self.check()
            write = self._context.run(asyncio.run_coroutine_threadsafe, self._write(value), self._loop)
            await asyncio.wrap_future(write)

    async def _write(self, value: list[Any]) -> None:
        try:
            await DBOS.write_stream_async(EVENTS, value)
        except error.DBOSWorkflowConflictIDError:
            raise self._lost() from None

    def check(self) -> None:
        """Raise LeaseLost if this worker may no longer act for the job."""
        if self.stopped or not self._lease.valid():
            raise self._lost()

    def _lost(self) -> LeaseLost:
        self.stopped, self.refused = self.stopped or "lease", True
        return LeaseLost(f"job {self._job.id} was taken from this worker")

    async def run(self, run: Runner) -> None:
        """Run the job in the event loop of the host, and keep how it ended in `ended`."""
        self._task = asyncio.create_task(self._outcome(run))
        if self.stopped:
            self._task.cancel()
        await asyncio.wait([self._task])
        if self._task.cancelled():
            self.ended.set_result(None)
        elif raised := self._task.exception():
            self.ended.set_exception(raised)
        else:
            self.ended.set_result(self._task.result())

    async def _outcome(self, run: Runner) -> JobOutcome:
        try:
            outcome = await run(self._job, self)
            return JobOutcome(
                outcome.state, plain(f"the output of job {self._job.id}", outcome.output), outcome.reason,
                tuple(outcome.waits_for), outcome.again,
            )  # fmt: skip
        except Exception as raised:
            return JobOutcome("failed", reason=plain("the reason", reason_of(raised)))

    def stop(self, why: str) -> None:
        """Cancel the runner. Called in the event loop of the host."""
        self.stopped = self.stopped or why
        if self._task is not None:
            self._task.cancel()


async def _told(lost: Callable[[str], Awaitable[None]], job_id: str) -> None:
    await lost(job_id)


class DurableWorker:
    """Runs jobs in this process until it is drained. There is one in a process, because there is one DBOS in it."""

    def __init__(
        self, store: JobStore, client: DBOSClient, run: Runner, serves: Served, limits: Limits, *, first_pause: float,
        lease: float, poll: float, ended: Callable[[str], None], lost: Callable[[str], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._store, self._client, self._run, self._limits = store, client, run, limits
        self._first_pause, self._seconds, self._poll, self._ended = first_pause, lease, poll, ended
        self._lost = lost
        self._serves = serves
        self._routes = routes(serves)
        self._loop = asyncio.get_running_loop()
        self._executions: dict[str, _Execution] = {}
        self._active: set[str] = set()  # runs that this process has claimed and that have not ended
        self._begun: set[str] = set()  # those whose runner began; they stay here if their outcome could not be stored
        self._places: dict[str, str] = {}  # the runs that may run here at once, each with its queue
        self._waiting: set[str] = set()  # those that are stored as waiting for a place here
        self._configured: set[str] = set()
        self._draining = self._cutting_off = False
        self._over = threading.Event()
        self._beginning = threading.Lock()  # held while it begins anew: who closes it waits, or it would go on then
        self._pace = Pace(self._routes, lambda: bool(self._active), self._may_take)
        self._lease: WorkerLease | None = None

    def start(self) -> None:
        """Begin to run jobs. Blocks while it connects. Raises JobError if another worker runs the jobs of this file, or
        one runs in this process."""
        global _working
        with _one:
            if _working is not None:
                raise JobError("this process runs the jobs of another engine already; one process runs those of one")
            _working = self
        try:
            self._launch()
        except BaseException:
            _working = None
            raise
        for do in (self._watch, self._sweep, self._listen):
            threading.Thread(target=do, name=f"toolcrib{do.__name__}", daemon=True).start()

    def _launch(self) -> None:
        try:
            self._connect()
        except BaseException:
            DBOS.destroy()
            if self._lease is not None:
                self._lease.end()
                self._lease = None
            raise

    def _connect(self) -> None:
        global _registered
        if self._store.postgres:
            self._lease = HeartbeatLease(self._store, self._seconds, self._serves)
        else:
            self._lease = FileLease(str(self._store.engine.url.database), self._serves)
            self._take_over(list, lambda: None)  # nobody else works on this file
            self._store.free_places()
        self._configured.clear()
        usual = routes(replace(self._serves, tags=(), workspaces=self._serves.workspaces[:1]))
        self._configure_queues({*usual, *(queue.name for queue in self._client.list_queues())})
        if not _registered:
            DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_workflow)
            _registered = True
        dbos = DBOS(
            config={
                "name": APPLICATION, "system_database_engine": self._store.engine, "dbos_system_schema": SCHEMA,
                "serializer": DBOSPortableJSONSerializer(), "application_version": VERSION,
                "executor_id": self._lease.worker, "run_migrations": False, "log_level": "CRITICAL",
                "scheduler_polling_interval_sec": 3600.0, "notification_coalesce_sec": 0.2,
                "notification_listener_polling_interval_sec": 0.1,  # it looks at nothing of ours; closing waits for it
            }
        )  # fmt: skip
        DBOS.listen_queues(self._routes)
        DBOS.launch()
        self._pace.give_to(dbos)

    def _may_take(self, route: str) -> bool:
        """Return whether a job of a queue in DBOS may be claimed: not at the end, nor while other ones have all places
        of our queue."""
        lease = self._lease
        if self._draining or lease is None or not lease.valid():
            return False
        return not (route and self._is_full(queue_of(route)))

    def _is_full(self, queue: str) -> bool:
        """Return whether this worker runs as many jobs of a queue as it may. The only worker of a file keeps them."""
        return self._store.postgres and list(self._places.values()).count(queue) >= self._limits.worker

    def _configure_queues(self, names: set[str]) -> None:
        self._configured |= names
        for name in names.intersection(self._routes):
            limits = queue_limits(self._limits, self._poll)
            self._client.register_queue(name, **limits, on_conflict="always_update")

    # One run of a job, in the event loop of DBOS.

    async def run_workflow(self, job: Job, run: int) -> dict[str, Any]:
        """Do a run, and return its outcome as it is stored. What it returns counts only if the run is still ours."""
        workflow_id = str(DBOS.workflow_id)
        if self._draining:
            await asyncio.to_thread(self._client.resume_workflows, [workflow_id], queue_name=route(job))
            raise asyncio.CancelledError
        self._active.add(workflow_id)
        try:
            outcome = await DBOS.run_step_async({"name": "run", "preemptible": True}, self._step, job, run, workflow_id)
            self._begun.discard(workflow_id)
            if outcome["state"] in ("parked", "again"):
                await asyncio.to_thread(go_on, self._store, self._client, job, run, outcome, self._first_pause)
            return outcome
        finally:
            self._active.discard(workflow_id)
            self._executions.pop(workflow_id, None)
            self._places.pop(workflow_id, None)
            if self._limits.shared:
                await asyncio.to_thread(self._store.free_place, workflow_id)
            self._pace.change()  # there is room for another one
            self._loop.call_soon_threadsafe(self._ended, job.id)

    async def _step(self, job: Job, run: int, workflow_id: str) -> dict[str, Any]:
        kept = await asyncio.to_thread(self._store.kept, job.id)
        lease = self._lease
        if kept.cancelled or kept.run != run:
            return {"state": "cancelled"}
        # A worker may also have ended before it could store that there is no attempt left: that was none.
        attempts = min(kept.attempt - 1, job.max_attempts if job.repeatable else 1)
        if kept.cut_off and (reason := cut_off_reason(job, attempts)):
            await self._tell_lost(job.id, lease)
            return {"state": "failed" if job.repeatable else "unknown", "reason": reason, "attempt": attempts}
        if (refused := too_new(job)) is not None:
            return {"state": refused.state, "reason": refused.reason}
        if lease is None or not lease.valid():
            raise asyncio.CancelledError  # it did not begin; whoever takes it over begins it
        await self._place(workflow_id, lease, job)
        execution = self._executions[workflow_id] = _Execution(job, kept, lease)
        self._begun.add(workflow_id)
        asyncio.run_coroutine_threadsafe(execution.run(self._run), self._loop)
        if self._cutting_off:
            self._loop.call_soon_threadsafe(execution.stop, "drain")
        try:
            outcome = await asyncio.shield(asyncio.wrap_future(execution.ended))
        except asyncio.CancelledError:  # the job was cancelled, or DBOS ends
            self._loop.call_soon_threadsafe(execution.stop, "cancel")
            with contextlib.suppress(Exception):
                await asyncio.wrap_future(execution.ended)
            raise
        return self._stored(job, kept, execution, outcome)

    async def _tell_lost(self, job_id: str, lease: WorkerLease | None) -> None:
        """Tell the host that a job was cut off, again until it could note that: its record may be away for a while."""
        said = False
        while not self._draining and lease is not None and lease.valid():
            try:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_told(self._lost, job_id), self._loop))
                return
            except Exception as error:
                if not said:
                    log.warning("that %s was cut off cannot be noted; it is tried again until it is: %s", job_id, error)
                said = True
            await asyncio.sleep(_GLANCE)
        raise asyncio.CancelledError  # whoever takes it over tells it

    async def _place(self, workflow_id: str, lease: WorkerLease, job: Job) -> None:
        """Wait until the limits let a run begin. Meanwhile it is stored as one that has not begun."""
        begun = time.monotonic()
        while True:
            waits = workflow_id in self._waiting  # also since an earlier claim: until it is removed, it has not begun
            if not self._draining and list(self._places.values()).count(job.queue) < self._limits.worker:
                self._places[workflow_id] = job.queue
                if not (waits or self._limits.shared) or await asyncio.to_thread(
                    self._store.take_place, workflow_id, lease.worker, job, self._limits
                ):
                    self._waiting.discard(workflow_id)
                    return
                del self._places[workflow_id]
            if not waits:
                self._waiting.add(workflow_id)
                await asyncio.to_thread(self._store.wait_for_place, workflow_id, lease.worker)
            held = self._is_full(job.queue) and time.monotonic() - begun > _HELD
            if self._draining or held:  # another worker may have a place for it
                await asyncio.to_thread(self._client.resume_workflows, [workflow_id], queue_name=route(job))
            if self._draining or held or not lease.valid():
                raise asyncio.CancelledError  # it did not begin
            await asyncio.sleep(0.1)

    def _stored(self, job: Job, kept: JobRow, execution: _Execution, outcome: JobOutcome | None) -> dict[str, Any]:
        if outcome is None or execution.refused:
            if execution.stopped == "lease":
                raise asyncio.CancelledError
            if execution.stopped != "drain":
                outcome = JobOutcome("failed", reason="it was cancelled by something else than its engine")
            elif reason := cut_off_reason(job, kept.attempt):
                return {"state": "failed" if job.repeatable else "unknown", "reason": reason, "attempt": kept.attempt}
            else:
                return {"state": "again", "cut_off": True}
        stored = {"state": outcome.state, "output": outcome.output, "reason": outcome.reason, "attempt": kept.attempt}
        if outcome.state == "parked":
            return stored | {"waits_for": list(outcome.waits_for)}
        if is_tried_again(job, outcome, kept.attempt):
            return stored | {"state": "again", "cut_off": False}
        return stored

    # What the worker does besides, in threads of its own.

    def _listen(self) -> None:
        self._pace.listen(self._store, self._over)

    def _watch(self) -> None:
        """Stop everything when the lease has ended, and begin anew under another name."""
        while not self._over.wait(_GLANCE):
            if self._lease is not None and self._lease.valid():
                continue
            for execution in [*self._executions.values()]:
                self._loop.call_soon_threadsafe(execution.stop, "lease")
            if self._lease is not None:
                self._lease.end()  # without its heartbeats, what this one had is taken over
            DBOS.destroy()
            self._begun.clear()  # whoever takes them over finds them begun
            self._waiting.clear()
            while not self._over.wait(_GLANCE):
                with contextlib.suppress(Exception), self._beginning:
                    if not self._over.is_set():
                        self._launch()
                    break

    def _sweep(self) -> None:
        """Take over the runs of dead workers, and give back those of ours that nothing here knows."""
        for count in itertools.count():
            if self._over.wait(_SWEEP):
                return
            with contextlib.suppress(SQLAlchemyError):
                if self._store.postgres and (count % 15 == 14 or self._store.someone_died(self._seconds)):
                    self._store.as_leader(
                        lambda check: self._take_over(lambda: self._store.declare_dead(self._seconds), check)
                    )
                if count % 3 == 2 and (lease := self._lease) is not None:
                    self._give_back(lease, _STUCK)
                if count % 2 == 1:
                    new = {queue.name for queue in self._client.list_queues()} - self._configured
                    self._configure_queues(new)

    def _take_over(self, living: Callable[[], Sequence[str]], check: Callable[[], None]) -> None:
        # First the runs, then the workers: a worker is known before it claims a run.
        pending = self._pending()
        alive = living()
        left = [run for run in pending if run.executor_id not in alive]
        waited = self._store.waiting([run.workflow_id for run in left]) if left else {}  # they begin no more of these
        lost: dict[str, list[str]] = {}
        for run in left:
            if waited.get(run.workflow_id) != run.executor_id:
                job_id, number = split_run_id(run.workflow_id)
                self._store.cut_off(job_id, number, run.executor_id, run.dequeued_at)
            lost.setdefault(run.queue_name or "", []).append(run.workflow_id)
        check()
        for queue, runs in lost.items():
            self._client.resume_workflows(runs, queue_name=queue)

    def _pending(self, worker: str | None = None) -> list[WorkflowStatus]:
        return self._client.list_workflows(
            name=WORKFLOW, status="PENDING", executor_id=worker, load_input=False, load_output=False
        )

    def _give_back(self, lease: WorkerLease, seconds: float) -> None:
        """Queue again the runs that were claimed longer ago and that are not being done here."""
        before = (time.time() - seconds) * 1000
        for run in self._pending(lease.worker):
            if run.workflow_id not in self._active and (run.dequeued_at or 0) <= before:
                job_id, number = split_run_id(run.workflow_id)
                if run.workflow_id in self._begun:
                    self._store.cut_off(job_id, number, lease.worker, run.dequeued_at)
                self._client.resume_workflows([run.workflow_id], queue_name=run.queue_name)

    async def drain(self, timeout: float) -> bool:
        """Take no new jobs, and wait for the running ones. Returns whether all ended in time. If it is cancelled, the
        running ones are cut off at once."""
        self._draining = True
        end = time.monotonic() + timeout
        closing = asyncio.create_task(asyncio.to_thread(self._close, timeout))
        try:
            while self._active and time.monotonic() < end:  # noqa: ASYNC110 - it is changed in another thread
                await asyncio.sleep(0.02)
        finally:
            self._cutting_off = True  # before the list: what begins now stops itself
            left = [*self._executions.values()]
            for execution in left:
                execution.stop("drain")
            await asyncio.shield(closing)
        return not left

    def _close(self, timeout: float) -> None:
        global _working
        self._over.set()
        with self._beginning:
            DBOS.destroy(workflow_completion_timeout_sec=math.ceil(timeout) + 5 if self._active else 0)
            if self._lease is not None:
                with contextlib.suppress(SQLAlchemyError):
                    self._give_back(self._lease, 0)
                    if self._store.postgres:
                        self._store.leave(self._lease.worker)
                self._lease.end()
        _working = None
