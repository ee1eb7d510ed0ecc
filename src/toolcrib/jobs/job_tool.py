"""The tool `job`: a model starts a call in the background, and follows it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..core.call import ToolCall
from ..core.context import BEHIND, JOB, REFUSES, SUBAGENT, ToolContext
from ..core.empty import EMPTY
from ..core.errors import ToolError
from ..core.output import LABELS, Labels, ToolOutput
from ..core.text import clip, one_line
from ..core.threads import shared_threads
from ..core.tool import Tool, ToolCategory
from .bodies import KNOWN_BY, SCHEDULED_RUN, CallBody, Delivery, MessageBody
from .engine import FINAL, Job, JobEngine, JobError, JobEvent, JobStatus, new_job_id
from .placing import placement, workspace_of
from .runner import text_of_output, what_of
from .tracing import trace_headers
from .waits import cancel

if TYPE_CHECKING:
    from ..core.interfaces import Next
    from ..toolbox import Toolbox

MAX_LISTED = 20
MAX_SHOWN = 20_000
"""Characters of what a running call printed; of more, the end is shown."""
LOOK_SECONDS = 1.0
"""Seconds that reading the stored events may take."""


class JobTool(Tool):
    """Run a call of a tool in the background, and go on meanwhile: for work that takes long and must not be lost.

    You get its outcome as a message when it ends. It goes on, or is reported, when this process ends. A command has
    no time limit and no input: for a program that you write to, use exec with background and interactive.
    """

    name = "job"
    category = ToolCategory.MEMORY
    read_only = True
    open_world = False
    timeout = 60.0
    makes_calls = loop_exempt = True
    title = "Background jobs"

    def __init__(
        self,
        box: Toolbox,
        engine: Callable[[], Awaitable[JobEngine]],
        submitted: Callable[[str | None, str], object] = lambda session, job: None,
    ) -> None:
        super().__init__()
        self._box, self._engine, self._submitted = box, engine, submitted

    async def execute(
        self,
        action: Annotated[
            Literal["start", "status", "output", "cancel", "list"],
            Field(description="output: what it printed so far, or its outcome."),
        ],
        tool: Annotated[str | None, Field(description="For start: the tool to call.")] = None,
        arguments: Annotated[dict[str, Any] | None, Field(description="For start: its arguments.")] = None,
        id: Annotated[str | None, Field(description="For status, output and cancel: the job's id.")] = None,  # noqa: A002
        wait: Annotated[float, Field(ge=0, le=30, description="Seconds that output waits for the end.")] = 0.0,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Start it, or look at it."""
        if action == "start":
            if tool is None:
                raise ToolError('action "start" needs a tool')
            return await self.start(tool, arguments or {}, ctx)
        try:
            engine, here = await self._engine(), workspace_of(self._box)
            if action == "list":
                found = [status for status in await engine.jobs(limit=200) if _is_of(status, here, ctx)]
                labels = await self._labels(*(each for each in found if each.reason))
                text = "\n".join(line_of(status) for status in found[:MAX_LISTED]) or "No jobs."
                return ToolOutput(text, labels=labels)
            if id is None:
                raise ToolError(f'action "{action}" needs an id; action "list" shows them')
            status = await engine.status(id)
            if not _is_of(status, here, ctx):
                raise ToolError(f'there is no job {id} of this session; action "list" shows them')
            if action == "cancel":
                counts = await cancel(engine, self._box.state.record, id)
                return ToolOutput(f"{id} is cancelled." if counts else f"{id} is {status.state} already.")
            if action == "output":
                return await self._output(engine, status, wait)
            return ToolOutput(line_of(status), labels=await self._labels(status) if status.reason else None)
        except JobError as error:
            raise ToolError(str(error)) from error

    async def commands(self, call: ToolCall, ctx: ToolContext, next: Next) -> ToolOutput:  # noqa: A002
        """Make a job of each command that a session of the agent begins in the background: a middleware. Subagents
        cannot read jobs, so they begin sessions."""
        given = call.arguments
        if call.name != "exec" or isinstance(given, str) or SUBAGENT not in ctx.metadata:
            return await next(call, ctx)
        if not given.get("background") or given.get("interactive") or BEHIND in ctx.metadata:
            return await next(call, ctx)
        try:
            return await self.start(call.name, given, ctx)
        except ToolError as error:
            return ToolOutput.error(str(error))

    async def start(self, name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Store a call as a job. Raises ToolError if it cannot be one."""
        tool, name, arguments = self._box.registry.resolve_forward(name, arguments)
        if tool is None:
            raise ToolError(self._box.registry.unknown(name, ctx.caller))
        if tool is self or tool.is_meta:
            raise ToolError(f"{tool.name} does not run in the background; call it directly")
        if JOB in ctx.metadata:
            raise ToolError("a job starts no other jobs; call the tool directly")
        if refused := refusal(tool, arguments, ctx):
            return ToolOutput.error(refused, "denied")
        if tool.name == "exec" and "timeout" not in arguments:
            arguments = {**arguments, "background": True}  # no time limit
        check = await self._box.check(name, arguments, ctx)
        if check.verdict == "deny":
            kind = "invalid" if check.step == 0 else "denied"
            return ToolOutput.error(f"{tool.name} was not started: {check.reason}", kind, meta={"rule": check.rule})
        text = json.dumps(arguments, ensure_ascii=False)
        if await shared_threads.run(self._box.redactor.redact, text) != text:
            raise ToolError(
                f"the arguments of {tool.name} have a secret in them, and jobs are stored. Use a secret that the "
                "settings grant to the tool ([secrets]), or call it directly"
            )
        flow = self._box.flow
        labels = flow.labels_of_work(ctx.session_id)
        deliver = Delivery(ctx.channel, ctx.chat_id) if ctx.channel in self._box.settings.channels else None
        body = CallBody(
            tool=tool.name, arguments=arguments, session=ctx.session_id, deliver=deliver,
            labels={} if labels == LABELS[False, False] else {**labels.wire, KNOWN_BY: flow.process},
            schedule=ctx.metadata.get(SCHEDULED_RUN), calls=calls_of(self._box, ctx.session_id),
            **rights_of(self._box, ctx),
        )  # fmt: skip
        place = placement(self._box)
        job = Job(
            CallBody.KIND, body.to_json(), id=_id(ctx, place["workspace"]), trace=trace_headers(), **place,
            repeatable=tool.is_read_only or tool.idempotent is True,
        )  # fmt: skip
        try:
            await (await self._engine()).submit(job)
        except JobError as error:
            raise ToolError(str(error)) from error
        self._submitted(ctx.session_id, job.id)
        asks = f" It asks first: {check.reason}." if check.verdict == "ask" else ""
        then = "You get a message when it ends; " if SUBAGENT in ctx.metadata else ""
        look = f'job(action="output", id="{job.id}") shows what it printed.'
        return ToolOutput.async_task(f"Job {job.id} started: {tool.name}.{asks} {then}{look}", meta={"job": job.id})

    async def _output(self, engine: JobEngine, status: JobStatus, wait: float) -> ToolOutput:
        if wait and status.state not in FINAL:
            try:
                status = await engine.result(status.job.id, wait)
            except TimeoutError:
                status = await engine.status(status.job.id)
        printed = text_of_output(status.output) if status.state in FINAL else ""
        if not printed:  # it runs, or it was cut off: then there is no output, only what it printed
            printed = "".join(text_of(event) for event in await stored_events(engine, status.job.id))
            status = await engine.status(status.job.id)  # it may have ended meanwhile
            printed = (status.state in FINAL and text_of_output(status.output)) or printed
        shown = printed if len(printed) <= MAX_SHOWN else f"[…]\n{printed[-MAX_SHOWN:]}"
        return ToolOutput(f"{line_of(status)}\n{shown}".rstrip(), labels=await self._labels(status))

    async def _labels(self, *found: JobStatus) -> Labels:
        labels = [await shared_threads.run(labels_of, self._box, each) for each in found]
        return reduce(Labels.join, labels, LABELS[False, True])


def unkept(ctx: ToolContext) -> str:
    """Return why the caller's work may not run later; empty if it may. Of a caller's limits a job keeps the mode only,
    and all callers of a server would share the schedules."""
    caller = ctx.caller
    if caller is None or not (caller.tools or caller.rules or ctx.channel == "mcp"):
        return ""
    return f"what runs later does not have the limits of the caller {caller.name!r}; call the tools directly"


def rights_of(box: Toolbox, ctx: ToolContext) -> dict[str, Any]:
    """Return what a job keeps of who makes it: the mode, the channel, and what is asked about. Raises ToolError
    for a caller with limits that it does not keep."""
    if why := unkept(ctx):
        raise ToolError(why)
    policy = box.policy.of(ctx.caller)
    return {"mode": policy.mode, "made_in": ctx.made_in, "asks": policy.asks}


def calls_of(box: Toolbox, session_id: str | None) -> Mapping[str, Any]:
    """Return the run of a session as a job stores it; nothing if no limits are set."""
    limits = box.policy.limits
    return EMPTY if limits is None or session_id is None else limits.carried(session_id)


def refusal(tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> str:
    """Return why the skills in use do not let a call run later; empty if they do. They cannot limit the calls of a
    script then. A skill that a job reads would limit nothing."""
    if tool.name == "read_skill":
        return "read_skill only runs directly: the limits of a skill begin there"
    if tool.name == "run_code" and limited(ctx):
        return "run_code only runs directly while a skill that names tools is in use: its limits hold for the calls"
    refuses = ctx.metadata.get(REFUSES)
    return "" if refuses is None else refuses(tool.name, arguments)


def limited(ctx: ToolContext) -> bool:
    """Return whether a skill that names tools is in use."""
    refuses = ctx.metadata.get(REFUSES)
    return refuses is not None and bool(refuses("", {}))


def labels_of(box: Toolbox, status: JobStatus) -> Labels:
    """Return the labels of what a job says: those of its call, also by the record; what another job has read is not
    known here. Blocks."""
    name = status.job.body.get("tool")
    arguments: Mapping[str, Any] = status.job.body.get("arguments") or {}
    tool = box.registry.find(name) if isinstance(name, str) else None
    if tool is None or tool.name == "run_code":
        return LABELS[True, True]
    rows = box.audit.query(call_id=status.job.id, label="untrusted", limit=1)
    return LABELS[bool(rows), True].join(box.flow.expected(tool, arguments))


async def stored_events(engine: JobEngine, job_id: str) -> list[JobEvent]:
    """Return the events that a job has reported so far."""
    found: list[JobEvent] = []
    loop = asyncio.get_running_loop()
    end = loop.time() + LOOK_SECONDS
    events = engine.events(job_id)
    try:
        async with asyncio.timeout_at(end) as limit:
            async for event in events:
                found.append(event)
                limit.reschedule(min(end, loop.time() + LOOK_SECONDS / 10))  # new ones would come later
    except TimeoutError:
        pass
    finally:
        await events.aclose()
    return found


def text_of(event: JobEvent) -> str:
    """Return an event as text for a reader."""
    if event.kind == "output":
        return str(event.data)
    if event.kind == "progress":
        done, total, message = (event.data.get(name) for name in ("done", "total", "message"))
        return f"[{done:g}{f'/{total:g}' if total else ''} {message or ''}".rstrip() + "]\n"
    return f"[{event.kind}: {clip(one_line(json.dumps(event.data, ensure_ascii=False)), 500)}]\n"


def line_of(status: JobStatus) -> str:
    """Return a job in one line."""
    job = status.job
    since = (status.ended or time.time()) - (status.started or status.created)
    state = status.state if status.state == "unknown" else f"{status.state}, {since:.0f} s"  # when it ended is unknown
    why = f": {clip(one_line(status.reason), 200)}" if status.reason else ""
    return f"{job.id}  {state}  {what_of(job)}  {clip(_arguments(job), 80)}{why}".rstrip()


def _arguments(job: Job) -> str:
    shown = job.body.get("arguments") or job.body.get("text") or job.body.get("task") or ""
    if not shown and job.kind == MessageBody.KIND:
        return f"session {job.body.get('session')} goes on"
    return one_line(shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False))


def _is_of(status: JobStatus, here: str, ctx: ToolContext) -> bool:
    """Return whether a job is one of this session in the workspace `here`. Without a session, it is one that was
    started without one in the same channel: not a schedule's, and not one that a person stored."""
    body = status.job.body
    if status.job.workspace != here or body.get("session") != ctx.session_id:
        return False
    return ctx.session_id is not None or (not body.get("schedule") and body.get("made_in") == ctx.made_in)


def _id(ctx: ToolContext, here: str) -> str:
    """Return the same id for a call that is repeated after a crash: it has submitted its job. A host may choose both
    ids, as one of another workspace that has its jobs in the same database does."""
    if ctx.session_id is None or ctx.call_id is None:
        return new_job_id()
    return f"job-{sha256(repr((ctx.session_id, ctx.call_id, here)).encode()).hexdigest()[:12]}"
