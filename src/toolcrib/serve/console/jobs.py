"""Jobs: what runs in the background, what became of it, and what a person does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, closing
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ...core.errors import ToolcribError, ToolError, UnknownName
from ...core.threads import shared_threads
from ...core.wings import has_wing
from ...policy.preview import fit
from ...record.connection import Where
from ...record.state import StateFolder
from .acts import SentForm
from .html import Child, Markup, el
from .page import MAX_ARGUMENTS, Frame, as_json, clock, exact, facts, form, link, live, page
from .rules import Build

if TYPE_CHECKING:
    from ...jobs.engine import Job, JobEngine, JobStatus, Served

OpenJobs = Callable[[], "AbstractAsyncContextManager[tuple[JobEngine, Where]]"]
"""Opens the jobs, with the record of what they ask. Raises ToolcribError if there are none."""
MAX_JOBS = 100


@dataclass(frozen=True, slots=True)
class JobList:
    """The newest jobs, the workers that run now, and why there are no jobs."""

    found: list[JobStatus]
    workers: Mapping[str, Served]
    fault: str = ""


async def read_jobs(jobs: OpenJobs) -> JobList:
    """Read the newest jobs of all states."""
    try:
        async with jobs() as (engine, _):
            return JobList(await engine.jobs(limit=MAX_JOBS), await engine.workers())
    except ToolcribError as error:
        return JobList([], {}, str(error))


def jobs_page(jobs: JobList, engine: str, frame: Frame) -> str:
    """Return the list, with this engine of the settings."""
    from ...jobs.opening import no_workers

    rows = [_line(each, jobs.workers) for each in jobs.found]
    workers = [f"{name} ({', '.join(filter(None, serves.workspaces))})" for name, serves in jobs.workers.items()]
    return page(
        frame,
        "Jobs",
        live(
            "jobs",
            el("p", f"workers: {'; '.join(workers)}" if workers else no_workers(engine)),
            el("ul", rows, class_="rows") if rows else el("p", jobs.fault or "There are no jobs."),
            name="Jobs, the newest first",
        ),
    )  # fmt: skip


def _line(status: JobStatus, workers: Mapping[str, Served]) -> Markup:
    from ...jobs.job_tool import line_of

    ident, _, rest = line_of(status).partition("  ")
    return el(
        "li", link(el("bdi", ident), "job", {"id": ident}, item=True), " ", clock(status.created), " ",
        el("span", rest, class_=_class(status)), _alone(status, workers),
    )  # fmt: skip


def _class(status: JobStatus) -> str | None:
    return {"failed": "bad", "unknown": "bad", "cancelled": "bad", "done": "approved"}.get(status.state)


def _alone(status: JobStatus, workers: Mapping[str, Served]) -> Child:
    """Return what to say of a job that no worker has."""
    waits = status.state == "queued" and not any(serves.has(status.job) for serves in workers.values())
    cut = status.state == "running" and status.worker not in workers
    if not waits and not cut:
        return None
    return el("span", " no worker takes it" if waits else " its worker has ended", class_="bad")


# --- one job


@dataclass(frozen=True, slots=True)
class OneJob:
    """A job, the workers, what it printed or reported, and the session that it goes on with; "" if it is a call."""

    status: JobStatus
    workers: Mapping[str, Served]
    printed: str
    session: str = ""


async def read_job(jobs: OpenJobs, state: StateFolder, ident: str) -> OneJob:
    """Read one job. Raises UnknownName if there is none."""
    from ...jobs.engine import FINAL
    from ...jobs.job_tool import stored_events, text_of
    from ...jobs.runner import text_of_output

    async with jobs() as (engine, _):
        status = await engine.status(ident)
        printed = text_of_output(status.output) if status.state in FINAL else ""
        if not printed:
            printed = "".join([text_of(event) for event in await stored_events(engine, ident)])
        session = await shared_threads.run(session_of, state, status.job)
        return OneJob(status, await engine.workers(), printed, session)


def session_of(state: StateFolder, job: Job) -> str:
    """Return the session of the agent that a job goes on with; "" for a call, and for one that has not begun."""
    from ...jobs.bodies import MessageBody

    named = job.body.get("session" if job.kind == MessageBody.KIND else "subagent")
    if named or job.kind != MessageBody.KIND or not has_wing("agent"):
        return str(named or "")
    from ...agent.store import SessionStore

    with closing(SessionStore(state)) as store:
        begun = store.of_job(job.id)
    return begun.id if begun is not None else ""


def job_page(found: OneJob, frame: Frame) -> str:
    """Return the page of one job."""
    status, job = found.status, found.status.job
    session = found.session or job.body.get("session")
    return page(
        frame,
        job.id,
        live(
            "job",
            facts({
                "state": [el("strong", status.state, class_=_class(status)), _alone(status, found.workers)],
                "why": status.reason,
                "waits for": [[_waits(key), " "] for key in status.waits_for],
                "kind": job.kind,
                "session": isinstance(session, str) and link(session, "session", {"id": session}),
                "schedule": str(job.body.get("schedule") or ""),
                "submitted": clock(status.created),
                "begun": status.started and clock(status.started),
                "ended": status.ended and clock(status.ended),
                "attempt": str(status.attempt or ""),
                "worker": status.worker,
                "workspace": job.workspace,
                "queue": job.queue,
            }),
            el("h2", "What it does"),
            exact(fit(as_json(dict(job.body)), MAX_ARGUMENTS), diff=False),
            [el("h2", "Output"), exact(fit(found.printed, MAX_ARGUMENTS), diff=False)] if found.printed else None,
            _acts(found, frame),
            name="This job",
        ),
    )  # fmt: skip


def _waits(key: str) -> Child:
    kind, _, ident = key.partition(":")
    return link(ident, "inbox", {"id": ident}) if kind == "approval" else key


def _acts(found: OneJob, frame: Frame) -> Markup:
    status, ident = found.status, found.status.job.id
    if status.state in ("queued", "running", "parked"):
        pause: Child = "A call cannot be paused. If you cancel it, it can run again, from its beginning."
        if found.session:
            pause = "To pause it, pause ", link("its session", "session", {"id": found.session}), "."
        return form(
            frame, "job", el("p", pause) if status.state == "running" else None,
            el("button", "Cancel this job", name="act", value="cancel", class_="no"), id=ident,
        )  # fmt: skip
    if status.state == "done":
        return Markup()
    return form(
        frame, "job",
        el("p", "Look first at what it has done: it begins anew."),
        el("button", "Run it again", name="act", value="again"), id=ident,
    )  # fmt: skip


async def act_on_job(sent: SentForm, jobs: OpenJobs) -> str:
    """Do what a form says, and return a sentence for the person. Raises ToolcribError."""
    from ...jobs.engine import run_again
    from ...jobs.waits import cancel

    ident, act = sent.get("id"), sent.get("act")
    async with jobs() as (engine, record):
        status = await engine.status(ident)
        if act == "cancel":
            await shared_threads.run(sent.note, "cancel", ident)
            if not await cancel(engine, record, ident):
                return f"{ident} has ended already; nothing was changed."
            status = await engine.status(ident)
            return f"{ident} is {status.state}{f': {status.reason}' if status.reason else ''}."
        if act == "again":
            await shared_threads.run(sent.note, "run again", ident)
            return f"It runs again as {await run_again(engine, ident)}."
    raise ToolError("the form names no act")


async def send_by_worker(sent: SentForm, jobs: OpenJobs, kind: str, build: Build) -> str:
    """Submit a message to a session as a job, and return a sentence for the person. `kind` is the setting jobs.engine.
    Raises ToolcribError."""
    from ...jobs.bodies import MessageBody
    from ...jobs.engine import Job
    from ...jobs.opening import no_workers
    from ...jobs.placing import placement

    ident, text = sent.get("id"), sent.get("text").strip()

    def job() -> Job:
        with build() as box:
            body = MessageBody(text, session=ident)
            return Job(body.KIND, body.to_json(), repeatable=True, **placement(box))

    try:
        async with jobs() as (engine, _):
            await shared_threads.run(sent.note, "send by a worker", f"{ident}: {text}")
            return f"Submitted as {await engine.submit(await shared_threads.run(job))}."
    except UnknownName:
        raise ToolError(f"{no_workers(kind)}. Then send it again") from None
