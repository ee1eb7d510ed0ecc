"""The jobs of a toolbox as a command hosts them: with the agent where there is one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ...core.wings import has_wing
from ...jobs.host import JobHost
from .. import show

if TYPE_CHECKING:
    from ...agent import Agent
    from ...jobs.engine import JobEngine
    from ...toolbox import Toolbox


@asynccontextmanager
async def hosted_jobs(
    box: Toolbox,
    agent: Callable[[], Awaitable[Agent]],
    *,
    queues: Sequence[str] = (),
    tags: Sequence[str] = (),
    attached: Agent | None = None,
    schedules: bool = False,
) -> AsyncGenerator[JobHost]:
    """Host the jobs of a toolbox within this block. With `schedules`, in a process that stays between the turns of an
    agent, they run when they are due, and commands in the background are jobs. `agent` opens the agent at the first job
    that needs it. The background subagents of the `attached` agent are jobs from the start, and jobs of earlier
    processes go on."""

    async def engine() -> JobEngine:
        return await host.engine()

    if has_wing("agent"):
        from .agent_work import AgentJobs

        agent_jobs = AgentJobs(box, agent, engine, lambda session, job: host.note_start(session, job))
        host = JobHost(
            box, work=agent_jobs.work, report=agent_jobs.report, has_read=agent_jobs.has_read, queues=queues,
            tags=tags, say=show.say,
        )  # fmt: skip
    else:
        agent_jobs = None
        host = JobHost(box, queues=queues, tags=tags, say=show.say)
    host.offer(stays=schedules)
    if attached is not None and agent_jobs is not None:
        agent_jobs.attach(attached)
        host.go_on()
    if schedules:
        host.tick()
    try:
        yield host
    finally:
        await host.aclose()
        if agent_jobs is not None:
            await agent_jobs.aclose()
