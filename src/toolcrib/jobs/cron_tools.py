"""The tools `cron` and `schedule_task`: a model schedules messages to the agent, and calls of tools."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.extras import how_to_add
from ..core.output import LABELS, ToolOutput
from ..core.text import clip, one_line
from ..core.threads import shared_threads
from ..core.tool import Tool, ToolCategory, tool
from ..core.verdict import Judgement, all_of
from .bodies import SCHEDULED_RUN, CallBody, Delivery, MessageBody
from .engine import Job, JobError
from .job_tool import limited, refusal, rights_of, unkept
from .placing import placement
from .schedule import At, Cron, ScheduleError, Timing, shown
from .schedule_text import FORMS, timing_of
from .schedules import OnMiss, Schedule, ScheduleOptions, Schedules, name_of
from .zones import local_zone

if TYPE_CHECKING:
    from ..toolbox import Toolbox

NOT_HERE = "a scheduled run makes no schedules and changes none, and this is one of {!r}"
NO_WORKER = "No worker runs now. Schedules run only while one does: start it with `toolcrib worker`."
NO_WORKER_IN_MEMORY = (
    'Nothing runs schedules now. jobs.engine is "memory", so they run only while `toolcrib chat` or `toolcrib channels`'
    ' runs here; `toolcrib worker` needs jobs.engine = "dbos".'
)
OFTEN = 60
"""Seconds: what runs more often than that without end is asked about."""
LOOKED_AT = 4
"""Moments that are looked at: of one by one, and of seconds that follow each other, a part has just ended."""
MAX_BY_MODEL = 100
"""Schedules of a workspace, from which on only a person makes more."""
NAME_LENGTH = 30
"""Characters of a message that name a schedule without a name."""
ADDED = "For add only. "

_Text = Annotated[str | None, Field(max_length=20_000)]
_Short = Annotated[str | None, Field(max_length=300)]


@tool(name="message", category=ToolCategory.MESSAGING)
def _message(content: str, channel: str) -> None:
    """What rules about messages are for, where no agent has the tool."""


def no_worker(engine: str = "dbos") -> str:
    """Return that no worker runs, and what to do with this engine of the settings."""
    if engine == "memory":
        return NO_WORKER_IN_MEMORY
    return NO_WORKER if find_spec("dbos") else f"{NO_WORKER} It needs the extra `jobs`: {how_to_add('jobs')}."


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What both tools share: a toolbox, whose policy judges calls that are scheduled, and its schedules."""

    box: Toolbox
    schedules: Schedules

    def judge(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Deny changes by a scheduled run. Judge a call that is scheduled as if it were made now; when it is made, it
        is judged again."""
        if why := unkept(ctx):
            return Judgement("deny", why, "schedule:callers")
        action = arguments.get("action", "add")
        if action != "list" and SCHEDULED_RUN in ctx.metadata:
            return Judgement("deny", NOT_HERE.format(ctx.metadata[SCHEDULED_RUN]), "schedule:nested")
        if action in ("remove", "pause", "resume", "run"):
            return self._of_person(action, arguments.get("job_id") or arguments.get("name"))
        if action != "add":
            return None
        judged = [_often(arguments), self._as_message(arguments, ctx), self._as_call(arguments, ctx)]
        found = [each for each in judged if each is not None]
        return next((each for each in found if each.verdict == "deny"), None) or all_of(found)

    def _as_call(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Judge the call that is scheduled."""
        if not arguments.get("tool"):
            return None
        found = self.box.checker().check_now(arguments["tool"], arguments.get("arguments"), ctx)
        if found is None or found.verdict == "allow":
            return None  # None: a host name has to be looked up, which `job_of` does
        return Judgement(found.verdict, f"the scheduled call: {found.reason}", found.rule)

    def _as_message(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Let what rules and hooks say of messages to a channel hold for an outcome that goes there."""
        if (channel := arguments.get("channel")) in (None, ctx.channel):
            return None
        tool, policy = self.box.registry.find("message") or _message, self.box.policy.of(ctx.caller)
        given = {"content": arguments.get("task"), "channel": channel}
        ruled = policy.rules.match(tool, given, ctx) if policy.rules is not None else None
        hooked = policy.hooks.judge(tool, given, ctx) if policy.hooks is not None else None
        found = [each for each in (ruled, hooked) if each is not None and each.verdict != "allow"]
        worst = next((each for each in found if each.verdict == "deny"), all_of(found))
        if worst is None:
            return None
        said = f"the outcome is a message to {one_line(str(channel))!r}: {worst.reason}"
        return replace(worst, reason=said, insists=True)

    def _of_person(self, action: str, name: Any) -> Judgement | None:
        """Ask before a schedule is changed that a person made or paused, in every mode. The reason names the action: a
        yes for the session to one is none to another."""
        try:
            found = self.schedules.get(str(name))
        except ScheduleError:
            return None  # the tool itself says so
        if found.options.by_model:
            return None
        said = f"{action}: a person made or paused the schedule {found.name!r} ({found.timing}: {what_of(found)})"
        return Judgement("ask", said, "schedule:person", insists=True)

    async def job_of(
        self,
        message: str | None,
        call: tuple[str, Mapping[str, Any]] | None,
        channel: str | None,
        ctx: ToolContext,
        *,
        by_model: bool = True,
        name: str | None = None,
    ) -> Job:
        """Return the job of a schedule. What a model makes keeps its rights. Raises
        ToolError if it may not or cannot be scheduled."""
        labels = self.box.flow.labels_of_work(ctx.session_id)
        wire = {} if labels == LABELS[False, False] else labels.wire
        known = self.box.settings.channels
        if channel is not None and channel not in (ctx.channel, *known):
            others = f"there are: {', '.join(sorted(known))}" if known else "cron makes a schedule without a channel"
            raise ToolError(f"there is no channel {one_line(channel)!r}; {others}")
        to = channel or ctx.channel
        deliver = None
        if to in known:
            deliver = Delivery(to, ctx.chat_id if to == ctx.channel else known[to].chat_for(to, None))
        if (not (message or "").strip()) == (call is None):
            raise ToolError("add needs either a message for the agent or a tool to call: give exactly one")
        rights = rights_of(self.box, ctx) if by_model else {}
        if call is None:
            if limited(ctx):
                raise ToolError("no message is scheduled while a skill that names tools is in use: give a tool to call")
            body = MessageBody(message or "", deliver=deliver, labels=wire, **rights)
            repeatable = True
        else:
            tool, arguments = await self._allowed(*call, ctx)
            body = CallBody(tool.name, arguments, deliver=deliver, labels=wire, **rights)
            repeatable = tool.is_read_only or tool.idempotent is True
        text = json.dumps([name, body.to_json()], ensure_ascii=False)
        if await shared_threads.run(self.box.redactor.redact, text) != text:
            raise ToolError(
                "there is a secret in it, and schedules are stored. Leave it out: a tool gets the secrets that the "
                "settings grant to it ([secrets])"
            )
        return Job(body.KIND, body.to_json(), repeatable=repeatable, **placement(self.box))

    async def _allowed(self, name: str, given: Mapping[str, Any], ctx: ToolContext) -> tuple[Tool, Mapping[str, Any]]:
        tool, name, arguments = self.box.registry.resolve_forward(name, given)
        if tool is None:
            raise ToolError(self.box.registry.unknown(name))
        if tool.is_meta or isinstance(tool, SchedulingTool):
            raise ToolError(f"{tool.name} cannot be scheduled; give a message or another tool")
        if refused := refusal(tool, arguments, ctx):
            raise ToolError(refused)
        check = await self.box.check(tool.name, arguments, ctx)
        if check.verdict == "deny":
            raise ToolError(f"the call of {tool.name} was not scheduled: {check.reason}")
        return tool, arguments

    def add(self, name: str | None, timing: Timing, job: Job, options: ScheduleOptions) -> tuple[Schedule, bool]:
        """Store a schedule; without a name it gets one. Returns it, and whether it is new: the same one again is not.
        Raises ScheduleError."""
        if len(self.schedules.list()) >= MAX_BY_MODEL:
            raise ScheduleError(
                f"there are {MAX_BY_MODEL} schedules already; remove some, or ask the person to add this one by "
                "`toolcrib schedule add`"
            )
        if name:
            return self.schedules.add(name, timing, job, options), True
        first = name_of(str(job.body.get("text") or job.body.get("tool"))[:NAME_LENGTH])
        known = {each.name: each for each in self.schedules.list()}
        free, number = first, 1
        while (same := known.get(free)) is not None:
            if str(same.timing) == str(timing) and _work(same.job) == _work(job):
                return same, False
            number += 1
            free = f"{first}-{number}"
        return self.schedules.add(free, timing, job, options), True

    def then(self, made: Schedule) -> str:
        """Return when a new schedule is due, who hears of it, and what is missing for it."""
        lines, engine = [str(made.timing), next_of(made)], self.box.settings.jobs.engine
        if "deliver" not in made.job.body:
            where = f"schedule show {made.name}" if engine == "memory" else "jobs"
            lines.append(f"No chat asks for it, so `toolcrib {where}` shows the outcome.")
        if not self.schedules.has_worker(time.time()):
            lines.append(no_worker(engine))
        return "\n".join(lines)


def _often(arguments: Mapping[str, Any]) -> Judgement | None:
    """Ask about what runs often, without end."""
    given = {name: arguments.get(name) for name in ("every_seconds", "cron_expr", "tz", "at", "schedule")}
    moments: list[int] = []
    try:
        timing = timing_of(time.time(), **given)
        while len(moments) < LOOKED_AT and (due := timing.next(moments[-1] if moments else time.time())) is not None:
            moments.append(due)
    except (JobError, TypeError, ValueError, AttributeError):  # the tool itself says what is wrong
        return None
    gap = min((later - due for due, later in pairwise(moments)), default=OFTEN)
    if gap >= OFTEN:
        return None
    said = f"it would run every {gap} s, without end: each run of an agent costs tokens, and each call can"
    return Judgement("ask", said, "schedule:often")


def _work(job: Job) -> dict[str, Any]:
    """Return what a job does, whichever schedule, mode and channel it has and whatever its session had read."""
    return {**job.body, "schedule": None, "labels": None, "mode": None, "made_in": None, "asks": None}


def next_of(schedule: Schedule) -> str:
    """Return in a line when a schedule is due next, on its own clock."""
    if schedule.due is None:
        return "Next run: none"
    paused = " (paused)" if schedule.state == "paused" else ""
    return f"Next run: {shown(schedule.due, zone_of(schedule))}{paused}"


def zone_of(schedule: Schedule) -> str:
    """Return the name of the time zone in which a schedule is shown."""
    return schedule.timing.zone if isinstance(schedule.timing, At | Cron) else local_zone()


def what_of(schedule: Schedule) -> str:
    """Return in a line what a schedule does."""
    body = schedule.job.body
    what = body.get("text") or f"{body.get('tool')} {json.dumps(body.get('arguments'), ensure_ascii=False)}"
    return clip(one_line(str(what)), 200)


def lines_of(schedule: Schedule) -> list[str]:
    """Return a schedule for a list: when, what, and how its latest runs ended."""
    lines = [
        f"- {schedule.name} (id: {schedule.name}, {schedule.timing})",
        f"  What: {what_of(schedule)}",
        f"  {next_of(schedule)}",
    ]
    for run in schedule.runs[:3]:
        why = f" ({clip(run.text, 100)})" if run.text else ""
        times = f", {run.times} times" if run.times > 1 else ""
        lines.append(f"  Run of {shown(run.due, 'UTC')}: {run.state}{times}{why}")
    return lines


class SchedulingTool(Tool):  # what both tools are; a docstring here would describe them to models
    category = ToolCategory.MESSAGING
    read_only = False
    open_world = False
    judge_blocks = True  # it reads the record

    def __init__(self, scheduling: Scheduling) -> None:
        super().__init__()
        self._scheduling = scheduling
        self.judge = scheduling.judge


class CronTool(SchedulingTool):
    """Schedule reminders and tasks, once or again and again. Actions: add, list, remove, pause, resume, run.

    When a schedule is due, its message is given to an agent that does not know this conversation, or its call of a tool
    is made. The outcome comes to this chat. Times without tz are those of the person's time zone.
    """

    name = "cron"
    title = "Schedules"

    async def execute(
        self,
        action: Annotated[
            Literal["add", "list", "remove", "pause", "resume", "run"],
            Field(
                description="add needs a message (or a tool), and exactly one of every_seconds, cron_expr, at and "
                "schedule. remove, pause, resume and run need job_id. run: at once, in addition to its times."
            ),
        ],
        name: Annotated[_Short, Field(description=f"{ADDED}A short name. Unset: the beginning of the message.")] = None,
        message: Annotated[
            _Text,
            Field(
                description="REQUIRED for add, unless a tool is given. What the agent has to do or to say when it is "
                "due, with everything it needs to know. Not for other actions."
            ),
        ] = None,
        tool: Annotated[
            _Short, Field(description=f"{ADDED}Instead of a message: the tool to call when it is due.")
        ] = None,
        arguments: Annotated[dict[str, Any] | None, Field(description=f"{ADDED}The arguments of that tool.")] = None,
        every_seconds: Annotated[
            int | None, Field(ge=0, description=f"{ADDED}Again and again, after so many seconds each.")
        ] = None,
        cron_expr: Annotated[_Short, Field(description=f"{ADDED}A cron expression, such as '0 9 * * 1-5'.")] = None,
        tz: Annotated[_Short, Field(description=f"{ADDED}The IANA time zone, such as 'Europe/Berlin'.")] = None,
        at: Annotated[
            _Short, Field(description=f"{ADDED}Once, at an ISO date with a time: '2026-12-01T09:00'.")
        ] = None,
        schedule: Annotated[_Short, Field(description=f"{ADDED}Any of these as one text: {FORMS}.")] = None,
        on_miss: Annotated[
            OnMiss, Field(description=f"{ADDED}After a time without a worker: run once, or wait for the next time.")
        ] = "run_once",
        job_id: Annotated[
            _Short, Field(description="REQUIRED for remove, pause, resume and run: list shows it. Not for add.")
        ] = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Do the action."""
        if action == "list":
            return await shared_threads.run(self._list)
        if action != "add":
            if not (job_id := job_id or name):
                raise ToolError(f"job_id is required for {action}; action list shows the ids")
            return ToolOutput(await shared_threads.run(self._change, action, job_id))
        if not (message or "").strip() and not tool:
            raise ToolError("message is required for add: what the agent has to do when the schedule is due")
        try:
            timing = timing_of(
                time.time(), every_seconds=every_seconds, cron_expr=cron_expr, tz=tz, at=at, schedule=schedule
            )
            call = (tool, arguments or {}) if tool else None
            job = await self._scheduling.job_of(message or None, call, None, ctx, name=name)
            options = ScheduleOptions(on_miss, by_model=True)
            made, new = await shared_threads.run(self._scheduling.add, name, timing, job, options)
        except JobError as error:
            raise ToolError(str(error)) from error
        said = f"Created job {made.name!r}" if new else f"There was already the same job {made.name!r}"
        then = await shared_threads.run(self._scheduling.then, made)
        return ToolOutput(f"{said} (id: {made.name}), {then}", meta={"job_id": made.name})

    def _change(self, action: str, job_id: str) -> str:
        """Raises ToolError if there is no such schedule."""
        schedules = self._scheduling.schedules
        try:
            if action == "remove":
                return f"Removed job {schedules.remove(job_id).name}"
            if action == "pause":
                return f"Paused job {schedules.pause(job_id, by_model=True).name}"
            if action == "resume":
                found = schedules.resume(job_id)
                return f"Resumed job {found.name}\n{next_of(found)}"
            return f"Job {schedules.run(job_id).name} runs as soon as a worker is there."
        except JobError as error:
            raise ToolError(str(error)) from error

    def _list(self) -> ToolOutput:
        found = self._scheduling.schedules.list()
        lines = [line for schedule in found for line in lines_of(schedule)]
        # why a run failed is what its call said, and a model that had read something untrusted may have written a task
        untrusted = any(
            "untrusted" in (each.job.body.get("labels") or {}).values()
            or any(run.text and run.state not in ("missed", "overlap") for run in each.runs)
            for each in found
        )
        text = "\n".join(["Scheduled jobs:", *lines]) if lines else "No scheduled jobs."
        return ToolOutput(text, labels=LABELS[untrusted, True])


class ScheduleTaskTool(SchedulingTool):
    """Schedule a task or a reminder for the agent, in plain words. cron lists and removes it."""

    name = "schedule_task"
    title = "Schedule a task"

    async def execute(
        self,
        task: Annotated[str, Field(min_length=1, max_length=20_000, description="What to do or to say.")],
        schedule: Annotated[str, Field(max_length=300, description=f"When: {FORMS}.")],
        channel: Annotated[str, Field(max_length=64, description="The channel that gets the outcome.")],
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Schedule it."""
        try:
            timing = timing_of(time.time(), schedule=schedule)
            job = await self._scheduling.job_of(task, None, channel, ctx)
            options = ScheduleOptions(by_model=True)
            made, _ = await shared_threads.run(self._scheduling.add, None, timing, job, options)
        except JobError as error:
            raise ToolError(str(error)) from error
        then = await shared_threads.run(self._scheduling.then, made)
        return ToolOutput(f"Task created: {clip(one_line(task), 200)}, schedule: {then}", meta={"job_id": made.name})


def schedule_tools(box: Toolbox, schedules: Schedules) -> list[Tool]:
    """Return the tools that make and change schedules, for a toolbox whose host runs them."""
    scheduling = Scheduling(box, schedules)
    return [CronTool(scheduling), ScheduleTaskTool(scheduling)]
