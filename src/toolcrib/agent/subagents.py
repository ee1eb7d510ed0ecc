"""Subagents: the tool `spawn` gives a task to a second loop with fewer tools, in the background or until it is done.

A subagent has files, search, shell and web only: it does not ask, send messages or spawn. Its calls go through the same
pipeline, so what is denied to its parent is denied to it, and approvals of its parent do not count for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ..core.context import SUBAGENT, ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.output import Labels, ToolOutput
from ..core.text import clip, one_line
from ..core.tool import Tool, ToolCategory
from ..record.connection import RecordError
from .events import Outcome
from .session_lock import SessionTaken

if TYPE_CHECKING:
    from .session import AgentSession

MAX_ITERATIONS = 15
TOOLS = frozenset({
    "read_file", "write_file", "edit_file", "apply_patch", "list_dir", "delete_file", "glob", "grep", "exec",
    "exec_session", "web_search", "web_fetch", "read_skill",
})  # fmt: skip
"""The tools of a subagent."""

SPAWNS = frozenset({"spawn", "call_tool", "run_code", "job"})
"""The tools that start subagents, themselves or by a call within theirs."""

PROMPT = """You are a subagent: another agent gave you one task, and you do this task only.

- Do not send messages and do not start other subagents; you have no tools for that.
- You cannot ask anybody. If something is missing, say so in your report.
- Your last reply is your report to the other agent: what you did, what you found, what is left."""

GOES_ON = "After the answer it goes on by itself, and its report comes as a message. Do not repeat its call."

REPORT = "[The subagent "
"""The beginning of a report."""

_STOPPED = {"waiting": "waits for an approval", "limit": "stopped at a limit", "interrupted": "was cancelled"}

Run = Callable[["AgentSession", str | None, ToolContext], Awaitable[Outcome]]
HandOver = Callable[[str, str, str, ToolContext], Awaitable[None]]
"""Gives a background subagent (its id, label and task, and the context of its parent) to whatever runs it as a job."""


@dataclass(slots=True)
class _Running:
    parent: str
    task_text: str
    is_job: bool = False
    task: asyncio.Task[Outcome] = field(init=False)


class Subagents:
    """The subagents of one agent. `begin(parent, label, call)` makes a session for one, or returns the one that this
    call made in an earlier process. `run` runs it, `remember` stores what a background one works on, `report` gets its
    session's id, its report and the approvals that it waits for, and `labels` returns the labels of what a session has
    read."""

    def __init__(
        self,
        begin: Callable[[str, str, str | None], Awaitable[AgentSession]],
        run: Run,
        remember: Callable[[str, dict[str, Any]], Awaitable[object]],
        report: Callable[[str, str, Sequence[str]], Awaitable[object]],
        labels: Callable[[str], Labels],
        limit: int,
    ) -> None:
        self._begin, self._run, self._remember, self._report = begin, run, remember, report
        self._labels = labels
        self._slots = asyncio.Semaphore(limit)
        self._running: dict[str, _Running] = {}
        self.hand_over: HandOver | None = None
        """If set, background subagents are jobs, which go on when the run of their parent has ended."""

    def runs(self, session_id: str) -> bool:
        """Return whether a subagent runs here, or waits for its turn."""
        return session_id in self._running

    def of(self, parent: str) -> list[asyncio.Task[Outcome]]:
        """Return the tasks of a session's subagents that run, without those that are jobs."""
        return [each.task for each in self._running.values() if each.parent == parent and not each.is_job]

    async def start(self, task: str, label: str, ctx: ToolContext) -> tuple[str, bool]:
        """Start a subagent in the background; it goes on in later processes if this one ends. Returns its id, and
        whether it was started now: not if the same one runs already, or has reported.

        A call that is repeated, because a process ended within it, goes on with the subagent that it started.
        """
        parent = ctx.session_id or ""
        for known, each in self._running.items():
            if each.parent == parent and each.task_text == task:
                return known, False
        session = await self._begin(parent, label, _key(task, ctx))
        if session.entries and "background" not in session.row.extra:
            return session.id, False
        await self._remember(session.id, {"label": label, "task": task})
        if self.runs(session.id):
            return session.id, False
        self._go(session, parent, task, ctx, label)
        return session.id, True

    async def submit(self, task: str, label: str, ctx: ToolContext, hand_over: HandOver) -> tuple[str, bool]:
        """Start a subagent as a job. Returns its id, and whether it was started now."""
        session = await self._begin(ctx.session_id or "", label, _key(task, ctx))
        if session.entries:
            return session.id, False
        await self._remember(session.id, {"label": label, "task": task, "job": True})
        await hand_over(session.id, label, task, ctx)
        return session.id, True

    async def work_on(self, session: AgentSession, ctx: ToolContext) -> Outcome:
        """Do the job of a subagent, from where it is, and report it. Repeatable. `ctx` is the context of its parent.
        Raises SessionTaken if another process runs it, RecordError if the record is away: it has not ended then."""
        work: dict[str, Any] | None = session.row.extra.get("background")
        if work is None:  # it has reported
            return Outcome("done", session.answer)
        task = work["task"]
        running = self._go(session, ctx.session_id or "", task, ctx, is_job=True)
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            raise
        error = running.exception()
        if isinstance(error, SessionTaken | RecordError):
            raise error
        ended = error or running.result()
        await self._report(session.id, report_text(work["label"], task, ended), approvals_of(ended))
        return ended if isinstance(ended, Outcome) else Outcome("error", reason=str(ended) or type(ended).__name__)

    async def report_of(self, task: str, label: str, ctx: ToolContext) -> ToolOutput:
        """Let a subagent do a task, and return its report. A call that is repeated in another process goes on with the
        subagent that it began. One that waits for an approval goes on in the background after it."""
        parent = ctx.session_id or ""
        session = await self._begin(parent, label, _key(task, ctx))
        running = self._go(session, parent, task, ctx)
        try:
            outcome = await asyncio.shield(running)
        except asyncio.CancelledError:
            running.cancel()
            raise
        if approvals := approvals_of(outcome):
            await self._remember(session.id, {"label": label, "task": task, "waits": approvals})
        return ToolOutput(
            report_text(label, task, outcome), is_error=outcome.state not in ("done", "waiting"),
            labels=self._labels(session.id),
        )  # fmt: skip

    def resume(self, session: AgentSession, label: str, task: str, ctx: ToolContext) -> None:
        """Go on with a background subagent that another process began."""
        self._go(session, ctx.session_id or "", task, ctx, label)

    def _go(
        self, session: AgentSession, parent: str, task: str, ctx: ToolContext, label: str = "", *, is_job: bool = False
    ) -> asyncio.Task[Outcome]:
        """Run a subagent. One in the background, with its `label`, then reports to its parent."""
        message = None if session.entries else task  # a process may have ended before it had its task
        work = self._reported(session, message, ctx, label, task) if label else self._one(session, message, ctx)
        running = self._running[session.id] = _Running(parent, task, is_job)
        running.task = asyncio.create_task(work, name=f"subagent {session.id}")
        running.task.add_done_callback(lambda _: self._running.pop(session.id, None))
        return running.task

    async def _reported(
        self, session: AgentSession, message: str | None, ctx: ToolContext, label: str, task: str
    ) -> Outcome:
        """Run a subagent, and send a report at its end, and when it waits for an approval. What is cancelled has no
        report: the next run of its parent goes on with it."""
        try:
            ended = await self._one(session, message, ctx)
        except Exception as error:
            ended = error
        await self._report(session.id, report_text(label, task, ended), approvals_of(ended))
        return ended if isinstance(ended, Outcome) else Outcome("error", reason=str(ended) or type(ended).__name__)

    async def _one(self, session: AgentSession, task: str | None, ctx: ToolContext) -> Outcome:
        metadata = {key: value for key, value in ctx.metadata.items() if key != SUBAGENT}
        inner = replace(ctx, session_id=session.id, agent_id=session.id, ask=None, call_id=None, metadata=metadata)
        async with self._slots:
            return await self._run(session, task, inner)

    async def cancel(self, parent: str | None = None) -> None:
        """End the subagents of a session without those that are jobs, or all, and wait for their end."""
        tasks = [each.task for each in self._running.values()] if parent is None else self.of(parent)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(task: str, ctx: ToolContext) -> str | None:
    """Return the same for a call that is repeated after a crash: it wants its subagent, one of perhaps several."""
    return f"{ctx.call_id} {sha256(task.encode('utf-8', 'replace')).hexdigest()[:12]}" if ctx.call_id else None


def approvals_of(ended: Outcome | BaseException) -> list[str]:
    """Return the ids of the approvals that a subagent waits for."""
    return [waits["approval"] for waits in ended.waiting] if isinstance(ended, Outcome) else []


def report_text(label: str, task: str, ended: Outcome | BaseException) -> str:
    """Return the report of a subagent as a message to its parent."""
    if isinstance(ended, BaseException):
        how, text = "failed", str(ended) or type(ended).__name__
    elif ended.state == "done":
        how, text = "is done", ended.text
    else:
        how = _STOPPED.get(ended.state, "failed")
        waits = "".join(f"\n{w['text']}" for w in ended.waiting if w["kind"] == "approval")
        after = f"\n{GOES_ON}" if waits else ""
        text = f"{ended.reason or ended.state}{waits}{after}\n{ended.text}".strip()
    return f"{REPORT}{label!r} {how}.]\nIts task: {task}\nIts report:\n{text}"


class SpawnTool(Tool):
    """Give a task to a subagent that works on it in the background, and go on with your own work.

    It has files, search, shell and web, but it does not know this conversation: put everything that it needs into the
    task. Its report comes to you as a message. With `wait` you get the report as the result of this call.
    """

    name = "spawn"
    category = ToolCategory.MEMORY
    read_only = makes_calls = True
    open_world = False
    timeout = None
    title = "Start a subagent"

    def __init__(self, subagents: Subagents) -> None:
        super().__init__()
        self._subagents = subagents

    async def execute(
        self,
        task: Annotated[str, Field(min_length=1, max_length=20_000, description="The whole task.")],
        label: Annotated[str | None, Field(max_length=60, description="A short name for the person.")] = None,
        wait: Annotated[bool, Field(description="Wait for the report instead of working in the background.")] = False,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Start it."""
        if not task.strip():
            raise ToolError("task is blank: write all that the subagent has to do and to know")
        shown = label or clip(one_line(task), 30)
        if wait:
            return await self._subagents.report_of(task, shown, ctx)
        hand_over = self._subagents.hand_over
        if hand_over is not None:
            subagent_id, fresh = await self._subagents.submit(task, shown, ctx, hand_over)
            return _started(shown, subagent_id, fresh=fresh)
        subagent_id, fresh = await self._subagents.start(task, shown, ctx)
        return _started(shown, subagent_id, fresh=fresh)


def _started(label: str, subagent_id: str, *, fresh: bool) -> ToolOutput:
    if not fresh:
        return ToolOutput(f"Subagent [{label}] already works on this task (id: {subagent_id}).")
    return ToolOutput.async_task(f"Subagent [{label}] started (id: {subagent_id}). I'll notify you when it completes.")


def allowed(name: str, arguments: Any, resolve: Callable[[str, Any], tuple[Any, str, Any]]) -> bool:
    """Return whether a subagent may call this tool; a call by `call_tool` counts as the call inside."""
    try:
        _, inner, _ = resolve(name, arguments)
    except Exception:  # refused by the pipeline, with the reason
        inner = name
    return inner in TOOLS
