"""`toolcrib worker`: run the jobs of a workspace, wake those that wait for a person, and tick the schedules."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from .. import show
from ..exit_codes import FAILED, OK, Usage
from ..options import Model, Options
from ..reader import CliCommand, Option
from .jobs import Database, with_database

if TYPE_CHECKING:
    from ...agent import Agent
    from ...config import Settings
    from ...jobs.host import JobHost

DRAIN_SECONDS = 30


async def worker(
    options: Options,
    db: Database = None,
    queue: Annotated[list[str] | None, Option("--queue", metavar="NAME", help="Take jobs of this queue.")] = None,
    tag: Annotated[list[str] | None, Option("--tag", metavar="TAG", help="Take jobs that need this tag, too.")] = None,
    model: Model = None,
    drain: Annotated[
        int, Option("--drain", metavar="SECONDS", help="How long jobs may go on after SIGTERM.", minimum=0)
    ] = DRAIN_SECONDS,
) -> int:
    """Run jobs until Ctrl-C or SIGTERM: calls in the background, messages to the agent, schedules.

    Calls that must ask park their job: answer with `toolcrib approvals`, and the job goes on. SIGTERM or Ctrl-C lets
    the running jobs end; the second one cuts them off. Exit code 0 if all ended, 1 if some were cut off.
    """
    from ...jobs.engine import MAX_TAGS
    from ...jobs.host import in_memory, no_dbos
    from ...jobs.opening import MEMORY
    from ...serve.server_reloading import Reloader, reloading
    from .hosted_jobs import hosted_jobs

    queues, tags = queue or [], tag or []
    agents: list[Agent] = []
    opening = asyncio.Lock()

    def read(quiet: bool = False) -> Settings:
        found = with_database(options.settings(quiet=quiet), db)
        return replace(found, origin=replace(found.origin, mode=found.mode))  # its --mode is said for what it runs

    settings = read()
    for name in (*queues, *tags):
        if not re.fullmatch(r"[\w.-]{1,60}", name):
            raise Usage(f"{name!r} cannot be the name of a queue or a tag: it may have letters, digits and . _ - only")
    if len(tags) > MAX_TAGS:
        raise Usage(f"a worker can have {MAX_TAGS} tags, not {len(tags)}")
    if in_memory(settings):
        why = no_dbos() if settings.jobs.engine != MEMORY else 'jobs.engine is "memory": use "dbos", or give --db'
        raise Usage(f"a worker runs jobs that are stored, and here they end with their process. {why}")
    async with options.open(settings, warm_up=False) as box:

        async def agent() -> Agent:
            from ...agent import Agent

            async with opening:
                if not agents:
                    agents.append(await Agent.open(box, model, say=show.say))
            return agents[0]

        try:
            if model is not None:
                await agent()  # a name that is wrong is an error now, not in the first job
            async with hosted_jobs(box, agent, queues=queues, tags=tags, schedules=True) as host:
                with reloading(Reloader(box, lambda: read(quiet=True))):
                    return await _until_the_end(host, drain)
        finally:
            for opened in agents:
                await opened.aclose()


async def _until_the_end(host: JobHost, drain: int) -> int:
    engine = await host.engine()
    if host.elsewhere:
        show.error(f"this worker cannot run jobs: {host.elsewhere}")
        return FAILED
    serves = host.serves
    tagged = f", tags: {', '.join(serves.tags)}" if serves.tags else ""
    show.say(f"Jobs: {engine.name}; queues: {', '.join(serves.queues)}{tagged}. Workspace: {host.box.workspace.root}")
    show.say("Running jobs and schedules. Ctrl-C ends it after the running jobs.", "dim")
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    running = await engine.jobs(states=("running",))
    if running:
        jobs = "1 running job" if len(running) == 1 else f"{len(running)} running jobs"
        show.say(f"Waiting up to {drain} s for {jobs}; again cuts them off.", "yellow")
    with suppress(asyncio.CancelledError):  # the second signal
        if await host.drain(drain):
            show.say("All jobs ended.", "dim")
            return OK
    show.say("Some jobs were cut off: those that may be repeated go on later, the others are `unknown`.", "yellow")
    return FAILED


COMMAND = CliCommand(worker, without=("json", "yes"))
