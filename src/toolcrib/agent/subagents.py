"""Subagents: the tool `spawn` gives a task to a second loop with fewer tools, in the background or until it is done.

A subagent has files, search, shell and web only: it does not ask, send messages or spawn. Its calls go through the same
pipeline, so what is denied to its parent is denied to it, and approvals of its parent do not count for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ..core.context import SUBAGENT, ToolContext
from ..core.output import Labels, ToolOutput
from ..core.text import clip, one_line
from ..core.tool import Tool, ToolCategory
from .events import Outcome

if TYPE_CHECKING:
    from .session import AgentSession

MAX_ITERATIONS = 15
TOOLS = frozenset({
    "read_file", "write_file", "edit_file", "apply_patch", "list_dir", "delete_file", "glob", "grep", "exec",
    "exec_session", "web_search", "web_fetch", "read_skill",
})  # fmt: skip
"""The tools of a subagent."""

PROMPT = """You are a subagent: another agent gave you one task, and you do this task only.

- Do not send messages and do not start other subagents; you have no tools for that.
- You cannot ask anybody. If something is missing, say so in your report.
- Your last reply is your report to the other agent: what you did, what you found, what is left."""

Run = Callable[["AgentSession", str | None, ToolContext], Awaitable[Outcome]]


@dataclass(slots=True)
class _Running:
    parent: str
    task_text: str
    task: asyncio.Task[Outcome] = field(init=False)


class Subagents:
    """The subagents of one agent. `begin(parent, label, call)` makes a session for one, or returns the one that this
    call made in an earlier process. `run` runs it, `remember` stores what a background one works on, `report` gets its
    session's id and its report, and `labels` returns the labels of what a session has read."""

    def __init__(
        self,
        begin: Callable[[str, str, str | None], AgentSession],
        run: Run,
        remember: Callable[[str, dict[str, Any]], object],
        report: Callable[[str, str], object],
        labels: Callable[[str], Labels],
        limit: int,
    ) -> None:
        self._begin, self._run, self._remember, self._report = begin, run, remember, report
        self._labels = labels
        self._slots = asyncio.Semaphore(limit)
        self._running: dict[str, _Running] = {}

    def of(self, parent: str) -> list[asyncio.Task[Outcome]]:
        """Return the tasks of a session's subagents that run."""
        return [each.task for each in self._running.values() if each.parent == parent]

    def start(self, task: str, label: str, ctx: ToolContext) -> tuple[str, asyncio.Task[Outcome] | None]:
        """Start a subagent. Returns its id and its task; no task if the same one runs already, or has reported.

        A call that is repeated, because a process ended within it, goes on with the subagent that it started.
        """
        parent = ctx.session_id or ""
        for known, each in self._running.items():
            if each.parent == parent and each.task_text == task:
                return known, None
        session = self._begin(parent, label, _key(task, ctx))
        if session.entries and "background" not in session.row.extra:
            return session.id, None
        return session.id, self._go(session, parent, task, None if session.entries else task, ctx)

    async def report_of(self, task: str, label: str, ctx: ToolContext) -> ToolOutput:
        """Let a subagent do a task, and return its report. A call that is repeated in another process goes on with the
        subagent that it began."""
        parent = ctx.session_id or ""
        session = self._begin(parent, label, _key(task, ctx))
        running = self._go(session, parent, task, None if session.entries else task, ctx)
        try:
            outcome = await asyncio.shield(running)
        except asyncio.CancelledError:
            running.cancel()
            raise
        return ToolOutput(
            report_text(label, task, outcome), is_error=outcome.state not in ("done", "waiting"),
            labels=self._labels(session.id),
        )  # fmt: skip

    def resume(self, session: AgentSession, task: str, ctx: ToolContext) -> asyncio.Task[Outcome]:
        """Go on with a subagent that another process began."""
        return self._go(session, ctx.session_id or "", task, None, ctx)

    def _go(
        self, session: AgentSession, parent: str, task: str, message: str | None, ctx: ToolContext
    ) -> asyncio.Task[Outcome]:
        running = self._running[session.id] = _Running(parent, task)
        running.task = asyncio.create_task(self._one(session, message, ctx), name=f"subagent {session.id}")
        running.task.add_done_callback(lambda _: self._running.pop(session.id, None))
        return running.task

    async def _one(self, session: AgentSession, task: str | None, ctx: ToolContext) -> Outcome:
        metadata = {key: value for key, value in ctx.metadata.items() if key != SUBAGENT}
        inner = replace(ctx, session_id=session.id, agent_id=session.id, ask=None, call_id=None, metadata=metadata)
        async with self._slots:
            return await self._run(session, task, inner)

    def in_background(self, session_id: str, running: asyncio.Task[Outcome], label: str, task: str) -> None:
        """Let a subagent work in the background, also in later processes if this one ends."""
        self._remember(session_id, {"label": label, "task": task})
        self.report_when_done(session_id, running, label, task)

    def report_when_done(self, session_id: str, task: asyncio.Task[Outcome], label: str, text: str) -> None:
        """Send the report of a background subagent to the session that started it. One that is cancelled has no
        report: the next run of its parent goes on with it."""

        def done(ended: asyncio.Task[Outcome]) -> None:
            if not ended.cancelled():
                error = ended.exception()
                self._report(session_id, report_text(label, text, ended.result() if error is None else error))

        task.add_done_callback(done)

    async def cancel(self, parent: str | None = None) -> None:
        """End the subagents of a session, or all, and wait for their end."""
        tasks = [each.task for each in self._running.values() if parent is None or each.parent == parent]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(task: str, ctx: ToolContext) -> str | None:
    """Return the same for a call that is repeated after a crash: it wants its subagent, one of perhaps several."""
    return f"{ctx.call_id} {sha256(task.encode('utf-8', 'replace')).hexdigest()[:12]}" if ctx.call_id else None


def report_text(label: str, task: str, ended: Outcome | BaseException) -> str:
    """Return the report of a subagent as a message to its parent."""
    if isinstance(ended, BaseException):
        how, text = "failed", str(ended) or type(ended).__name__
    elif ended.state == "done":
        how, text = "is done", ended.text
    else:
        how = {"waiting": "waits for an approval", "limit": "stopped at a limit"}.get(ended.state, "failed")
        waits = "".join(f"\n{w['text']}" for w in ended.waiting if w["kind"] == "approval")
        text = f"{ended.reason or ended.state}{waits}\n{ended.text}".strip()
    return f"[The subagent {label!r} {how}.]\nIts task: {task}\nIts report:\n{text}"


class SpawnTool(Tool):
    """Give a task to a subagent that works on it in the background, and go on with your own work.

    It has files, search, shell and web, but it does not know this conversation: put everything that it needs into the
    task. Its report comes to you as a message. With `wait` you get the report as the result of this call.
    """

    name = "spawn"
    category = ToolCategory.MEMORY
    read_only = True
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
        shown = label or clip(one_line(task), 30)
        if wait:
            return await self._subagents.report_of(task, shown, ctx)
        subagent_id, running = self._subagents.start(task, shown, ctx)
        if running is None:
            return ToolOutput(f"Subagent [{shown}] already works on this task (id: {subagent_id}).")
        self._subagents.in_background(subagent_id, running, shown, task)
        return ToolOutput.async_task(
            f"Subagent [{shown}] started (id: {subagent_id}). I'll notify you when it completes."
        )


def allowed(name: str, arguments: Any, resolve: Callable[[str, Any], tuple[Any, str, Any]]) -> bool:
    """Return whether a subagent may call this tool; a call by `call_tool` counts as the call inside."""
    try:
        _, inner, _ = resolve(name, arguments)
    except Exception:  # refused by the pipeline, with the reason
        inner = name
    return inner in TOOLS
