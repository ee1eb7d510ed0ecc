"""`toolcrib jobs`: see what runs in the background and what became of it; cancel it, or run it again."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...core.errors import UnknownName
from ...core.finish import for_person
from .. import show
from ..arguments import named, read_arguments
from ..exit_codes import FAILED, OK, Usage, of_output
from ..options import Options
from ..reader import Argument, CliCommand, Option, group

if TYPE_CHECKING:
    from ...config import Settings
    from ...jobs.engine import Job, JobEngine, JobStatus, Served
    from ...record.connection import Where

LOOK_SECONDS = 1.0
"""Seconds between two looks whether a job that is followed goes on."""
JobId = Annotated[str, Argument(metavar="ID", help="The job.")]
Database = Annotated[
    str | None, Option("--db", metavar="URL", help="postgresql://… or sqlite:///FILE. Default: jobs.url, or the "
                       "workspace's own file.")
]  # fmt: skip


def with_database(settings: Settings, url: str | None) -> Settings:
    """Return the settings with another database for the jobs. On Postgres it has the record, too, unless the settings
    name one. Raises Usage."""
    if url is None:
        return settings
    if not re.fullmatch(r"postgres(ql)?://[^/]*(:[0-9]+)?/[^/]+|sqlite:////.+", url):
        raise Usage("--db should be postgresql://USER@HOST/DATABASE or sqlite:////FILE, with four slashes")
    if url.startswith("postgres") and not settings.record.url:
        settings = replace(settings, record=replace(settings.record, url=url))
    return replace(settings, jobs=replace(settings.jobs, url=url, engine="dbos"))


class NoJobs(Usage, UnknownName):
    """No job was ever stored here."""


@asynccontextmanager
async def opened_jobs(options: Options, db: str | None = None) -> AsyncGenerator[tuple[JobEngine, Where]]:
    """Open the jobs, to look at and to mend, and yield where the record of what they ask is, too. Makes no database.
    Raises NoJobs if there cannot be any, and NotThere if what was named is not there."""
    from ...jobs.engine import NotThere
    from ...jobs.host import jobs_file, open_engine

    settings = with_database(options.settings(quiet=True), db)
    state = options.state(settings)
    if settings.jobs.engine == "memory" or (settings.jobs.url is None and not jobs_file(state.path).exists()):
        raise NoJobs("there are no jobs here; `toolcrib jobs --db URL` looks into another database")
    engine = open_engine(settings, state.path, show.say, create=False)
    try:
        yield engine, state.record
    except NotThere as error:
        raise NotThere(f"{error}; `toolcrib jobs` lists them" if "no job " in str(error) else str(error)) from None
    finally:
        await engine.aclose()


async def listed(
    options: Options,
    db: Database = None,
    state: Annotated[
        Literal["queued", "running", "parked", "done", "failed", "unknown", "cancelled"] | None,
        Option("--state", help="Only those in this state."),
    ] = None,
    limit: Annotated[int, Option("--limit", "-n", help="How many.", minimum=1)] = 50,
) -> None:
    """List jobs, the newest first: what each does, its state, and what it waits for."""

    found: list[JobStatus] = []
    alone: list[str] = []
    with suppress(NoJobs):
        async with opened_jobs(options, db) as (engine, _):
            found = await engine.jobs(states=(state,) if state else (), limit=limit)
            alone = _alone(found, await engine.workers(), db)
    if options.json:
        show.out_json([_plain(status) for status in found])
    else:
        where = len({status.job.workspace for status in found}) > 1
        show.columns([_cells(each, where=where) for each in found], ("bold",), none="There are no jobs here.")
    for line in alone:
        show.say(line, "yellow")


async def workers(options: Options, db: Database = None) -> None:
    """List the workers that run now, and which jobs each takes."""
    from ...jobs.opening import no_workers

    found: dict[str, Served] = {}
    none = no_workers(with_database(options.settings(quiet=True), db).jobs.engine)
    with suppress(NoJobs):
        async with opened_jobs(options, db) as (engine, _):
            found = await engine.workers()
    if options.json:
        show.out_json([{"id": name, **asdict(serves)} for name, serves in found.items()])
        return
    rows = [
        [name, ", ".join(filter(None, serves.workspaces)), ", ".join(serves.queues), ", ".join(serves.tags)]
        for name, serves in found.items()
    ]
    show.columns(rows, ("bold",), none=none)


async def shown(options: Options, job_id: JobId, db: Database = None) -> None:
    """Show one job: its call or message, its state, and how it ended."""

    async with opened_jobs(options, db) as (engine, _):
        status = await engine.status(job_id)
        alone = _alone([status], await engine.workers(), db)
    if options.json:
        show.out_json(_plain(status))
        return
    job = status.job
    body = {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in job.body.items()}
    show.out(f"{job.id}  {status.state}", "bold")
    show.facts({
        "kind": job.kind, "created": show.clock(status.created),
        "started": status.started and show.clock(status.started),
        "noticed" if status.state == "unknown" else "ended": status.ended and show.clock(status.ended),
        "attempt": status.attempt or None,
        "worker": status.worker, "workspace": job.workspace, "queue": job.queue,
        "tags": ", ".join(job.tags), "tenant": job.tenant,
        "waits for": ", ".join(status.waits_for), "why": status.reason,
        **body,
    })  # fmt: skip
    for line in alone:
        show.say(line, "yellow")


async def output(
    options: Options,
    job_id: JobId,
    db: Database = None,
    follow: Annotated[
        bool, Option("--follow", help="Go on until the job has ended, and say why it does not go on.")
    ] = False,
) -> int:
    """Print what a job printed so far, and its output if it has ended. Exit code 1 if the job did not succeed."""

    from ...jobs.engine import FINAL
    from ...jobs.job_tool import stored_events, text_of
    from ...jobs.runner import text_of_output

    printed: list[str] = []
    followed = ""
    async with opened_jobs(options, db) as (engine, _):
        status = await engine.status(job_id)
        if follow and status.state not in FINAL:
            explaining = asyncio.create_task(_explain(engine, job_id, db))
            try:
                async for event in engine.events(job_id):
                    if event.kind == "output" and not options.json:
                        followed += text_of(event)
                        show.out(text_of(event).rstrip("\n"))
                        sys.stdout.flush()
                    else:
                        show.say(text_of(event).rstrip("\n"), "dim")
                status = await engine.result(job_id)
            finally:
                explaining.cancel()
                await asyncio.gather(explaining, return_exceptions=True)
        elif status.state not in FINAL or not text_of_output(status.output):  # it runs, or it was cut off
            printed = [text_of(event) for event in await stored_events(engine, job_id)]
    if options.json:
        found = {"id": job_id, "state": status.state, "output": status.output, "reason": status.reason}
        show.out_json({**found, "printed": "".join(printed)})
    else:
        for text in printed:
            show.out(text.rstrip("\n"))
        if status.state in FINAL:
            ended = text_of_output(status.output) or status.reason or status.state
            if rest := ended.removeprefix(followed).removeprefix("\n"):  # what was followed is not printed again
                show.out(rest)
        else:
            show.say(f"{job_id} is {status.state}{f': {status.reason}' if status.reason else ''}", "dim")
    return FAILED if status.state in ("failed", "unknown", "cancelled") else OK


async def cancel(options: Options, job_id: JobId, db: Database = None) -> int:
    """Cancel a job, and those that it started. What it runs is ended."""

    from ...jobs.waits import cancel

    async with opened_jobs(options, db) as (engine, record):
        counts = await cancel(engine, record, job_id)
        status = await engine.status(job_id)
    if counts and status.state == "unknown":
        show.say(f"{job_id} does not run again. It is unknown: {status.reason}", "yellow")
        return OK
    if counts:
        show.say(f"{job_id} is cancelled.")
        return OK
    show.error(f"{job_id} has ended already; nothing was changed")
    return FAILED


async def start(
    options: Options,
    name: Annotated[str, Argument(metavar="NAME", help="The tool.")],
    pairs: Annotated[
        list[str] | None, Argument(metavar="KEY=VALUE", help="Its arguments, as `toolcrib call` takes them.")
    ] = None,
    db: Database = None,
) -> int:
    """Store the call of a tool as a job: a worker runs it. It is judged now, and again when it runs."""
    given = read_arguments(pairs or [], None)

    from ...jobs.host import in_memory, no_dbos, open_engine, start_job

    settings = with_database(options.settings(), db)
    if in_memory(settings):
        why = "" if settings.jobs.engine == "memory" else f" {no_dbos()}"
        raise Usage(f"jobs are only in memory here, and would end with this command; use `toolcrib call`.{why}")
    async with options.open(settings, warm_up=False) as box:
        engine = await asyncio.to_thread(open_engine, settings, box.state.path, show.say)  # its imports take a while
        try:
            arguments = named(given, name, box.registry, pairs or [])
            assert isinstance(arguments, dict)  # only --args is a text
            output = await start_job(box, engine, name, arguments)
            if output.is_error:
                show.error(for_person(output))
                return of_output(output)
            status = await engine.status(output.meta["job"])
            alone = _alone([status], await engine.workers(), db)
        finally:
            await engine.aclose()
    show.out(status.job.id)
    show.say(f"Stored; its output: toolcrib jobs output {status.job.id} --follow", "dim")
    for line in alone:
        show.say(line, "yellow")
    return OK


async def retry(options: Options, job_id: JobId, db: Database = None) -> int:
    """Run a job again that failed, was cancelled or cut off, as a new job. Look first at what it has done."""

    from ...jobs.engine import JobError, NotThere, run_again

    async with opened_jobs(options, db) as (engine, _):
        try:
            new = await run_again(engine, job_id)
        except NotThere:
            raise
        except JobError as error:
            show.error(str(error))
            return FAILED
    show.say(f"Submitted again as {new}; `toolcrib jobs output {new} --follow` shows what it prints")
    return OK


def _alone(found: Sequence[JobStatus], living: Mapping[str, Served], db: str | None) -> list[str]:
    """Return lines about jobs that no worker has: how many there are, and what a worker for them is."""
    now = time.time()
    missing, cut, taken = Counter[str](), Counter[str](), 0
    for status in found:
        served = any(serves.has(status.job) for serves in living.values())
        if status.state == "queued" and (status.job.not_before or 0) <= now and not served:
            missing[_worker_for(status.job, db)] += 1
        elif status.state == "running" and status.worker not in living:
            if served:
                taken += 1
            else:
                cut[_worker_for(status.job, db)] += 1

    def jobs(count: int, verb: str) -> str:
        one = "The job" if len(found) == 1 else "1 job"  # of one job alone nothing is said about others
        return f"{one} {verb}s" if count == 1 else f"{count} jobs {verb}"

    lines = [f"{jobs(n, 'wait')} for a worker, and none is there. Start one: {how}" for how, n in missing.items()]
    ended = "no more, because the worker has ended."
    lines += [f"{jobs(n, 'run')} {ended} Start one, which looks what became of it: {how}" for how, n in cut.items()]
    return lines + ([f"{jobs(taken, 'run')} {ended} Another worker takes over."] if taken else [])


def _worker_for(job: Job, db: str | None) -> str:
    """Return the command that starts a worker for a job."""
    from ...jobs.placing import config_name

    words = ["toolcrib", "worker", *(["-w", job.workspace] if job.workspace else []), "--queue", job.queue]
    for tag in job.tags:
        words += ["--config", name] if (name := config_name(tag)) else ["--tag", tag]
    words += ["--db", "URL"] if db is not None else []
    return shlex.join(words)


async def _explain(engine: JobEngine, job_id: str, db: str | None) -> None:
    """Say why a job does not go on, whenever that changes, until this is cancelled."""
    said: list[str] = []
    while True:
        status = await engine.status(job_id)
        lines = _alone([status], await engine.workers(), db)
        if status.state == "parked":
            lines.append(f"{job_id} waits for a person: {status.reason}")
        for line in lines:
            if line not in said:
                show.say(line, "yellow")
        said = lines
        await asyncio.sleep(LOOK_SECONDS)


def _plain(status: JobStatus) -> dict[str, Any]:
    job = status.job
    found = {name: getattr(status, name) for name in status.__slots__ if name != "job"}
    return {**{name: getattr(job, name) for name in job.__slots__}, **found, "tags": list(job.tags)}


def _cells(status: JobStatus, *, where: bool) -> list[str]:
    from ...jobs.job_tool import line_of

    ident, rest = line_of(status).split("  ", 1)
    state, _, more = rest.partition("  ")
    return [ident, *([status.job.workspace] if where else []), state, show.clock(status.created), more]


COMMAND = group(
    listed,
    "Work in the background. Without a command: list it.",
    {
        "list": CliCommand(listed),
        "show": CliCommand(shown),
        "workers": CliCommand(workers),
        "output": CliCommand(output),
        "start": CliCommand(start, without=("json",)),
        "cancel": CliCommand(cancel, without=("json",)),
        "retry": CliCommand(retry, without=("json",)),
    },
)
