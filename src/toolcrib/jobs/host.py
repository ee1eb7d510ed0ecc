"""The jobs of a toolbox in this process: the engine of its settings, opened when it is needed, and what works on it.

Every host that runs calls in the background makes one: `toolcrib worker`, and those that have an agent. On a SQLite
file one process works; the others submit jobs to it, and read what became of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..boundary.own_files import lock_file
from ..boundary.process_tree import end_left_behind
from ..core.errors import ToolError
from ..core.extras import how_to_add
from ..core.output import ToolOutput
from ..core.threads import shared_threads
from ..record.connection import RecordError
from . import opening
from .bodies import MessageBody
from .cron_tools import schedule_tools
from .engine import FINAL, JobEngine, JobError, JobState, Limits, NotThere, Served
from .job_tool import JobTool, labels_of
from .opening import MEMORY
from .placing import config_tag, schedules_of, workspace_of
from .runner import AgentWork, JobRunner, SendReport, effects_guarded, is_sent, no_report, report_of
from .ticker import Ticker
from .waits import APPROVAL, Waits, wake

if TYPE_CHECKING:
    from pathlib import Path

    from ..config import Settings
    from ..toolbox import Toolbox

log = logging.getLogger("toolcrib.jobs")

FILE = "jobs.db"
TICKING = "schedules.lock"
"""The file whose lock the process holds that runs the schedules in its memory."""
SWEEP_SECONDS = 2.0
"""Seconds between two looks for jobs without a report: those that were cut off, or cancelled."""
FREE_LOOKS = 4
"""Looks after which a worker has ended for good: until then it may be restarted."""
PRUNE_SECONDS = 3_600.0


def no_dbos() -> str:
    """Return why jobs are in memory only."""
    return f"The package dbos is missing: {how_to_add('jobs')}"


def jobs_file(folder: Path) -> Path:
    """Return the file of the jobs in a state folder."""
    return folder / FILE


def in_memory(settings: Settings) -> bool:
    """Return whether jobs end with the process."""
    return settings.jobs.engine == MEMORY or (settings.jobs.url is None and find_spec("dbos") is None)


def open_engine(settings: Settings, folder: Path, say: Callable[[str], object], *, create: bool = True) -> JobEngine:
    """Open the engine that the settings name; without `create` it makes no database. `say` gets what a person should
    know about it. Raises JobError."""
    if in_memory(settings):
        if settings.jobs.engine != MEMORY:
            say(f"Jobs are only in memory and end with this process. {no_dbos()}")
        return opening.open_engine(MEMORY)
    return opening.open_engine(settings.jobs.address or str(jobs_file(folder)), create=create)


async def start_job(box: Toolbox, engine: JobEngine, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
    """Store a call of a tool as a job, which a worker of the toolbox's workspace runs: judged now, and again when it
    runs. Returns its id as `meta["job"]`, or an error if it is denied or cannot be stored."""

    async def opened() -> JobEngine:
        return engine

    try:
        return await JobTool(box, opened).start(name, arguments, box.context)
    except ToolError as error:
        return ToolOutput.error(str(error), "invalid")


class JobHost:
    """Opens the engine of a toolbox at the first use, and works on it. `work` does the jobs of an agent; `report` sends
    what became of a job to the session and the chat that it belongs to; `has_read` tells whether a session has nothing
    left to do."""

    def __init__(
        self,
        box: Toolbox,
        *,
        work: Mapping[str, AgentWork] | None = None,
        report: SendReport = no_report,
        has_read: Callable[[str], Awaitable[bool]] | None = None,
        queues: Sequence[str] = (),
        tags: Sequence[str] = (),
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.box, self.say = box, say
        settings = box.settings.jobs
        self.serves = Served(
            tuple(queues or (settings.queue,)), (*(tags or settings.tags), *config_tag(box.settings)),
            (workspace_of(box), ""),
        )  # fmt: skip
        self.elsewhere = ""
        """Why jobs do not run in this process, if the engine is open."""
        self._kinds, self._report, self._has_read = dict(work or {}), report, has_read or _nobody_reads
        self.waits = Waits(box.state.record)
        self.schedules = schedules_of(box)
        self._engine: JobEngine | None = None
        self._opening = asyncio.Lock()
        self._soon: asyncio.Task[JobEngine] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._closing = ExitStack()
        self._started: dict[str, set[str]] = {}  # jobs by session

    def offer(self, *, stays: bool = False) -> None:
        """Give the toolbox the tools `job`, `cron` and `schedule_task`, except those that the settings disable. If the
        process `stays` between the turns of an agent, the commands that one begins in the background are jobs."""
        settings, job = self.box.settings.tools, JobTool(self.box, self.engine, self.note_start)
        for tool in (job, *schedule_tools(self.box, self.schedules)):
            if settings.has(tool.name) and self.box.registry.find(tool.name) is None:
                self.box.registry.register(tool)
                self._closing.callback(self.box.registry.unregister, tool.name)
        if stays and self.box.registry.find(job.name) is job:
            stages = self.box.registry.stages
            stages.middleware, before = (*stages.middleware, job.commands), stages.middleware

            def forget() -> None:
                stages.middleware = before

            self._closing.callback(forget)

    def go_on(self) -> None:
        """Open the engine soon if jobs of earlier processes may be there."""
        if self.box.settings.jobs.url is not None or jobs_file(self.box.state.path).exists():
            self._soon = asyncio.create_task(self.engine())

    def tick(self) -> None:
        """Run the schedules of the record from now on. The engine is opened when the first one is due."""
        self._tasks.append(asyncio.create_task(self._tick()))

    async def _tick(self) -> None:
        # another process does not see what runs in the memory of this one, and would run it again
        while in_memory(self.box.settings):
            if (lock := lock_file(self.box.state.path / TICKING, wait=False)) is not None:
                self._closing.callback(os.close, lock)
                break
            await asyncio.sleep(SWEEP_SECONDS)
        await Ticker(self.schedules, self.engine).run()

    async def engine(self) -> JobEngine:
        """Return the engine. The first use opens it, and begins to run jobs here unless another process does that."""
        async with self._opening:
            if self._engine is None:
                self._engine = await shared_threads.run(open_engine, self.box.settings, self.box.state.path, self.say)
                try:
                    await self._work_on(self._engine)
                except JobError as error:
                    self.elsewhere = str(error)
                    self._tasks.append(asyncio.create_task(self._when_free(self._engine)))
                    await self._say_who_waits(self._engine)
        return self._engine

    async def _say_who_waits(self, engine: JobEngine) -> None:
        """Say where the worker that runs here has other settings, and so takes no jobs of this process."""
        own = set(config_tag(self.box.settings))
        with suppress(JobError):
            if own and not any(own <= set(each.tags) for each in (await engine.workers()).values()):
                wanted = f"toolcrib worker --config {shlex.quote(str(self.box.settings.origin.config))}"
                self.say(f"The worker that runs has other settings; what starts in the background waits for {wanted}")

    async def _when_free(self, engine: JobEngine) -> None:
        """Run jobs here when the worker that runs them has ended, and no other one has come in its place."""
        gone = 0
        while gone < FREE_LOOKS:
            await asyncio.sleep(SWEEP_SECONDS)
            with suppress(JobError):
                gone = 0 if await engine.workers() else gone + 1
                if gone == FREE_LOOKS:
                    gone = 0  # until it is taken
                    await self._work_on(engine)
                    self.elsewhere = ""
                    self.say("The worker of this workspace has ended: its jobs run in this process now.")
                    return

    async def left(self) -> str:
        """Return in words which jobs have not ended, and which reports were not read, that no other process goes on
        with; "" if there are none. What only wakes a session that has read its reports is cancelled."""
        if self._engine is None:
            return ""
        states: tuple[JobState, ...] = ("running", "queued", "parked")
        found = await self._engine.jobs(states=states, limit=1_000)
        living = list((await self._engine.workers()).values())
        alone = [
            each for each in found
            if each.job.workspace in self.serves.workspaces
            and sum(serves.has(each.job) for serves in living) <= (not self.elsewhere)
        ]  # fmt: skip
        wakes = [each.job for each in alone if each.job.kind == MessageBody.KIND and not each.job.body.get("text")]
        unread: dict[str, None] = {}
        for job in wakes:
            if await self._has_read(session := job.body["session"]):
                await self._engine.cancel(job.id)
            else:
                unread[session] = None
        told = [
            f"The session {each} has a report that it has not read: go on with `toolcrib run --session {each}`."
            for each in unread
        ]
        working = [each.state for each in alone if each.job not in wakes]
        shown = ", ".join(f"{working.count(state)} {state}" for state in states if state in working)
        if shown and in_memory(self.box.settings):
            told.insert(0, f"Jobs end with this process, because they are only in memory: {shown}.")
        elif shown:
            then = "A call that runs is cut off; the others go on in the next `toolcrib worker`."
            told.insert(0, f"Jobs have not ended: {shown}. {then} `toolcrib jobs` lists them.")
        return "\n".join(told)

    async def _work_on(self, engine: JobEngine) -> None:
        """Run jobs here, wake those whose answers come, and report those that were cut off."""
        settings, self.waits.place = self.box.settings.jobs, await engine.place()
        runner = JobRunner(self.box, self.waits, self._kinds, self._report)
        limits = Limits(settings.max_running, settings.max_queue, settings.max_tenant, settings.max_total)
        await engine.work(runner, serves=self.serves, limits=limits, lost=self._lost)
        self._closing.enter_context(effects_guarded(self.box))
        await shared_threads.run(end_left_behind)  # by workers that were killed
        works: list[Coroutine[Any, Any, None]] = [
            wake(engine, self.waits, self._answer), self._sweep(engine),
        ]  # fmt: skip
        self._tasks += [asyncio.create_task(each) for each in works]

    async def next_end(self, session_id: str) -> bool:
        """Wait until a call has ended, or waits for a person, that this process started in the background for this
        session. False if there is none."""
        if self._engine is None or not (ids := self._started.get(session_id)):
            return False
        ends = {job_id: asyncio.create_task(_left(self._engine, job_id)) for job_id in ids}
        try:
            await asyncio.wait(ends.values(), return_when=asyncio.FIRST_COMPLETED)
            ids -= {job_id for job_id, end in ends.items() if end.done()}
        finally:
            for end in ends.values():
                end.cancel()
            await asyncio.gather(*ends.values(), return_exceptions=True)
        return True

    def note_start(self, session_id: str | None, job_id: str) -> None:
        """Note that this process started a job for a session."""
        self._started.setdefault(session_id or "", set()).add(job_id)

    def _answer(self, key: str) -> str:
        """Return how the request of a key was answered. Requests that are too old expire now."""
        row = self.box.approvals.get(key.removeprefix(APPROVAL)) if key.startswith(APPROVAL) else None
        if not key:
            self.box.approvals.pending()
        return row["state"] if row is not None else "answered"

    async def _sweep(self, engine: JobEngine) -> None:
        """Report jobs whose runners did not do it, because they were cut off or failed to, and delete old jobs."""
        pruned = -PRUNE_SECONDS
        while True:
            try:
                for job_id in await shared_threads.run(self.waits.begun):
                    await self._report_left(engine, job_id)
                if time.monotonic() - pruned > PRUNE_SECONDS:
                    pruned = time.monotonic()
                    before = time.time() - self.box.settings.jobs.keep_days * 86400.0
                    while await engine.forget(before):
                        pass
            except (JobError, RecordError) as error:
                log.warning("jobs could not be looked through; the next look comes in a moment: %s", error)
            except Exception:
                log.exception("jobs could not be looked through; the next look comes in a moment")
            await asyncio.sleep(SWEEP_SECONDS)

    async def _lost(self, job_id: str) -> None:
        """Note that a job has to be reported, which may not have begun."""
        await shared_threads.run(self.waits.begin, job_id)

    async def _report_left(self, engine: JobEngine, job_id: str) -> None:
        """Report a job if it has ended or is parked. One that cannot be reported does not hold up the others."""
        try:
            status = await engine.status(job_id)
        except NotThere:  # it was deleted
            await shared_threads.run(self.waits.end, job_id)
            return
        if status.state == "cancelled":  # while it asked
            await shared_threads.run(self.waits.withdraw, job_id)
        if status.state in (*FINAL, "parked") and status.job.workspace in self.serves.workspaces:
            labels = await shared_threads.run(labels_of, self.box, status)
            report = replace(report_of(status.job, status), labels=labels)
            if status.state == "unknown" and not await shared_threads.run(self._has_begun, job_id):
                report = replace(report, text=f"{report.text}\nThe record has no sign that its call began to run.")
            if await is_sent(report, self._report):
                await shared_threads.run(self.waits.end, job_id)

    def _has_begun(self, job_id: str) -> bool:
        return bool(self.box.audit.query(call_id=job_id, kind="intent", limit=1))

    async def drain(self, timeout: float) -> bool:
        """Take no new jobs, and wait for those that run here. Returns whether all ended in time."""
        return self._engine is None or await self._engine.drain(timeout)

    async def aclose(self) -> None:
        """Stop working. What runs here is cut off: it goes back to the queue if it may be repeated."""
        if self._soon is not None:
            await asyncio.wait([self._soon])
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._engine is not None:
            await self._engine.aclose()
            self._engine = None
        self._closing.close()
        if self.waits.place and in_memory(self.box.settings):
            with suppress(RecordError):
                await shared_threads.run(self.waits.forget)
        self.waits.close()
        self.schedules.close()


async def _nobody_reads(session: str) -> bool:
    return True


async def _left(engine: JobEngine, job_id: str) -> None:
    """Wait until a job is final, or waits for a person."""
    while (await engine.status(job_id)).state in ("queued", "running"):
        with suppress(TimeoutError):
            await engine.result(job_id, 1.0)
