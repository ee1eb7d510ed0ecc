"""An agent: a toolbox, a model and stored sessions, as a host uses them.

async with Toolbox.open(".") as box, Agent.open(box) as agent:
    outcome = await agent.run("What does this project do?")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ..builtin.ask_user import AskUserTool
from ..core.context import SUBAGENT
from ..core.errors import ConfigError
from ..core.output import LABELS
from ..core.threads import shared_threads
from ..core.tool import Tool
from . import loop
from .choose import ModelPlace, model_of
from .cost import Prices
from .events import AgentEvent, Emit, Outcome
from .history import Content, Entry, ModelCall, ModelTurn, UserTurn, user
from .limits import RunLimits, Spent
from .loop_parts import LoopParts
from .model import Model, ToolDefinition
from .prompt import now, system_prompt
from .reply_calls import left_result
from .session import AgentSession
from .session_labels import note_changes, note_entries, note_history, note_message, note_record, note_report
from .session_lock import NoSuchSession
from .session_rows import SessionRow
from .skill_limits import SkillLimits
from .skills import ReadSkillTool, find_skills, left_out, plugin_skills, skills_prompt
from .stopping import TurnCancelled, stoppable
from .store import SessionStore
from .structured import AnswerForm, AnswerSchema
from .subagents import MAX_ITERATIONS, PROMPT, TOOLS, SpawnTool, Subagents, allowed
from .todo import TodoTool
from .waiting import POLL_SECONDS, Waits, is_answered, state_of, subagent_waits

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.context import ToolContext
    from ..toolbox import Toolbox
    from .bus import MessageBus


class Agent:
    """Runs sessions with the tools of a toolbox. Make one with `Agent.open`."""

    def __init__(self, box: Toolbox, models: Sequence[Model], bus: MessageBus | None = None) -> None:
        self.box, self.models = box, list(models)
        self.settings = box.settings.agent
        self.store = SessionStore(box.state, box.redactor.redact)
        if bus is None and box.settings.channels:
            from .bus import MessageBus
            from .channels import channels_of

            bus = MessageBus(channels_of(box, self.store))
        self.bus = bus
        self.prices = Prices(self.settings.prices)
        self.limits = RunLimits(
            self.settings.max_iterations, self.settings.max_tokens, self.settings.max_seconds, self.settings.max_cost
        )
        self.skills = find_skills(
            box.workspace.root,
            self.settings.skills,
            plugins=self._plugin_skills(),
            writable=box.settings.sandbox.writable(box.workspace.root),
        )
        self.skill_limits = SkillLimits(self.skills, box)
        self.subagents = Subagents(
            partial(self.store.do, self._subagent),
            self._run_subagent,
            lambda session, work: self.store.do(self.store.set_extra, session, "background", work),
            self._report,
            lambda session: self.box.session(session).labels,
            self.settings.max_subagents,
        )
        self._live: dict[str, Spent] = {}
        self._tools: tuple[ToolDefinition, ...] | None = None
        self._check_prices()
        self._register(
            AskUserTool(),
            TodoTool(lambda session, items: self.store.do(self.store.set_extra, session, "todo", items)),
            SpawnTool(self.subagents),
            *([ReadSkillTool(self.skills)] if any(not skill.problem for skill in self.skills) else []),
            *([_message_tool(bus, box)] if bus is not None and bus.channels else []),
        )

    @classmethod
    async def open(
        cls,
        box: Toolbox,
        model: str | Model | None = None,
        *,
        say: Callable[[str], object] = lambda text: None,
        bus: MessageBus | None = None,
    ) -> Self:
        """Make an agent with the model of this name, of the settings, or the first one found; `say` gets its name.

        `bus` has the channels of the tool `message`; by default those of the settings. The agent closes it. Raises
        ConfigError if there is no model.
        """
        settings = box.settings.agent
        place = ModelPlace(box.settings.web, settings.base_url, settings.idle_timeout)
        name = model or settings.model
        if name is None:
            from .find_model import find_model

            first = await find_model(place, say)
        else:
            first = model_of(name, place) if isinstance(name, str) else name
        return cls(box, [first, *(model_of(name, place) for name in settings.fallback)], bus)

    async def aclose(self) -> None:
        """End the subagents and close the models' connections. The toolbox stays open, without the agent's tools."""
        await self.subagents.cancel()
        if self.bus is not None:
            await self.bus.aclose()
        for name in self._own_tools:
            self.box.registry.unregister(name)
        for model in self.models:
            await model.aclose()
        self.store.close()

    def left_out(self) -> list[str]:
        """Return which texts of the project the model does not follow, or is not offered, and why; a line each."""
        root, writable = self.box.workspace.root, self.box.settings.sandbox.writable(self.box.workspace.root)
        return left_out(root, self.skills, self._plugin_skills(), self.settings.skills, writable)

    def _plugin_skills(self) -> list[Path]:
        return plugin_skills(self.box.plugins) if self.box.settings.plugins.enabled else []

    async def use_model(self, name: str) -> None:
        """Ask the model of this name from now on. Raises ConfigError for an unknown name."""
        settings = self.box.settings.agent
        place = ModelPlace(self.box.settings.web, settings.base_url, settings.idle_timeout)
        before, self.models[0] = self.models[0], model_of(name, place)
        try:
            self._check_prices()
        except ConfigError:
            before, self.models[0] = self.models[0], before
            raise
        finally:
            await before.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- sessions

    def new_session(self, title: str = "") -> AgentSession:
        """Store a new session."""
        system = system_prompt(self.box, self.settings.instructions, skills_prompt(self.skills))
        return AgentSession(self.store, self.store.create(model=self.models[0].name, system=system, title=title))

    def session(self, session_id: str) -> AgentSession:
        """Return a stored session by its id, the beginning of it, or `last`. Raises SessionError."""
        session = AgentSession(self.store, self.store.get(session_id))
        note_history(self.box, session)
        return session

    def sessions(self, limit: int = 50) -> list[SessionRow]:
        """Return stored sessions, the one used last first."""
        return self.store.list(limit)

    # --- running

    async def run(
        self,
        text: str | None,
        session: AgentSession | None = None,
        *,
        files: Sequence[Content] = (),
        emit: Emit = lambda event: None,
        limits: RunLimits | None = None,
        ctx: ToolContext | None = None,
        schema: AnswerSchema | None = None,
        by_report: bool = False,
    ) -> Outcome:
        """Give a session a message, and run it until it is answered, waits for a person, or reaches a limit.

        `files` are images, and texts with the name of their file, which do not count as the person's words. If the
        session waits for the answer to a question, `text` is that answer; a call that waits for approval does not run
        after another message, and its request ends. Without `text` the session goes on where it is. Cancel it to
        interrupt it; its history stays valid. If a person cancels it from elsewhere, the outcome is `interrupted`. With
        `schema`, a JSON Schema or a type (a pydantic model, a dataclass), the answer is data of that form in
        `Outcome.data`, of a type an instance. `by_report`: not a person lets it go on, but the report of a job or a
        subagent, so what it has used since the last message of a person counts for the limits.
        """
        session = session or await self.store.do(self.new_session)
        async with session.within(session.running()):
            await session.do(note_changes, self.box, session)
            await self._take_over(session)
            if session.row.model != self.models[0].name:
                await session.do(session.set_model, self.models[0].name)
            asked = session.question
            if text is not None and asked is not None:
                await session.do(session.answer_question, asked["run_id"], text, *files)
            elif text is not None:
                for waits in session.row.waiting:  # these calls do not run any more
                    await shared_threads.run(self.box.approvals.expire, waits.get("approval") or "")
                closed = await session.do(session.close_calls, partial(left_result, self.box, session))
                await session.do(note_entries, self.box, closed, session.id, len(session.entries) - len(closed))
                said = await session.do(session.say, text, *files, note=now())
                self.box.new_turn(session.id)
                note_message(self.box, session.id, said)
            return await self._run(session, emit, limits, ctx, schema, by_report=by_report)

    async def _run(
        self,
        session: AgentSession,
        emit: Emit,
        limits: RunLimits | None,
        ctx: ToolContext | None,
        schema: AnswerSchema | None,
        *,
        by_report: bool,
    ) -> Outcome:
        parts = replace(self.parts(), form=None if schema is None else AnswerForm(schema))
        spent = Spent(
            limits or self.limits, self.prices, earlier=await session.do(self._spent_before, session, by_report)
        )
        ctx = ctx or replace(self.box.context, channel="agent")
        ctx = replace(ctx, metadata={**ctx.metadata, SUBAGENT: self.subagents.report_of})
        self._live[session.id] = spent
        inner = replace(ctx, session_id=session.id)
        await self._resume_subagents(session, inner, lambda waits: state_of(self.box, waits) != "pending")
        watch = asyncio.create_task(self._watch_subagents(session, inner))
        try:
            async with session.within(session.working()):
                outcome = await _or_cancelled(session, spent, self._turn(parts, session, ctx, spent, emit))
                emit(outcome)
                return outcome
        finally:
            watch.cancel()
            self._live.pop(session.id, None)
            await self.subagents.cancel(session.id)

    def _spent_before(self, session: AgentSession, by_report: bool) -> Spent | None:
        """Return what a session used since the last message of a person, if a report lets it go on: a session that
        starts a job in each turn, and is woken by its end, would run for ever. None for a run that a person began."""
        waits = self.store.waiting(session.id, ("steer", "queue"))
        if waits is not None:
            by_report = waits[1].source in ("job", "subagent")
        if not by_report:  # else another run may have taken the report, and ended at a limit
            return None
        spent = Spent(RunLimits(), self.prices)
        for turn in reversed(session.entries):
            if isinstance(turn, UserTurn) and turn.source in ("user", "schedule"):
                break
            if isinstance(turn, ModelTurn):
                spent.requests += 1
                spent.add(turn.usage, session.row.model)
        return spent

    async def _turn(
        self, parts: LoopParts, session: AgentSession, ctx: ToolContext, spent: Spent, emit: Emit
    ) -> Outcome:
        while True:
            outcome = await loop.run_session(parts, session, ctx, spent, emit)
            working = self.subagents.of(session.id)
            if working and outcome.state in ("done", "waiting"):  # their reports come as messages
                done = outcome.state == "done"
                each = done and spent.has_requests_for(len(working))  # else it gets all reports in one request
                await asyncio.wait(working, return_when="FIRST_COMPLETED" if each else "ALL_COMPLETED")
                if done:
                    continue
            if outcome.state != "done" or await session.do(session.end_turn):
                waits = subagent_waits(await session.do(self.store.children, session.id))
                return replace(outcome, waiting=(*outcome.waiting, *waits))

    async def events(
        self, text: str | None, session: AgentSession | None = None, **more: object
    ) -> AsyncGenerator[AgentEvent]:
        """Do the same as `run`, and yield the events as they come; the last one is the `Outcome`."""
        queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        loop_ = asyncio.get_running_loop()

        def put(event: AgentEvent | None) -> None:
            loop_.call_soon_threadsafe(queue.put_nowait, event)

        task = asyncio.create_task(self.run(text, session, emit=put, **more))  # type: ignore[arg-type]
        task.add_done_callback(lambda _: put(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def compact(self, session: AgentSession, emit: Emit = lambda event: None) -> bool:
        """Make the history of a session shorter now. Returns whether it is. Raises ModelError."""
        async with session.within(session.running()):
            return await loop.compact(self.parts(), session, Spent(self.limits, self.prices), emit, force=True)

    def parts(self) -> LoopParts:
        """Return what the loop needs. The tools are the same for the agent's life, so that providers can cache them:
        tools that a search finds are called through `call_tool`."""
        if self._tools is None:
            found = self.box.definitions("flat", session_id="")
            tools = (ToolDefinition(t["name"], t["description"], t["input_schema"]) for t in found)
            self._tools = tuple(sorted(tools, key=lambda tool: tool.name))
        settings = self.settings
        return LoopParts(
            self.box, self.models, self._tools, settings.context_window, settings.max_output_tokens, settings.effort,
            refusal=self.skill_limits.refusal,
        )  # fmt: skip

    # --- subagents

    def _subagent(self, parent: str, label: str, call: str | None) -> AgentSession:
        for row in self.store.children(parent) if call else ():
            if row.extra.get("call") == call:
                return self.session(row.id)
        system = system_prompt(self.box, PROMPT)
        made_by: dict[str, Any] = {"call": call} if call else {}
        if parent:  # what the person says to it later does not end the limits of its skills here
            made_by["above"] = len(self.store.turns(parent))
        row = self.store.create(model=self.models[0].name, system=system, title=label, parent=parent, **made_by)
        return AgentSession(self.store, row)

    async def _report(self, session_id: str, text: str, approvals: Sequence[str]) -> None:
        """Send the report of a background subagent to its parent, which now has read what it read."""
        row = await self.store.do(self.store.get, session_id)
        labels = self.box.session(session_id).labels
        note_report(self.box, labels, row.parent or "", text)
        turn = replace(user(text, source="subagent"), labels=labels.pair)
        await self.store.do(self.store.report, session_id, turn, approvals)

    async def _run_subagent(self, session: AgentSession, task: str | None, ctx: ToolContext) -> Outcome:
        resolve = self.box.registry.resolve_forward

        def may(name: str, arguments: Any) -> bool:
            return allowed(name, arguments, resolve)

        above = await session.do(self.store.turns, session.row.parent) if session.row.parent else []
        above = above[: session.row.extra.get("above")]

        def refusal(entries: Sequence[Entry], call: ModelCall, ctx: ToolContext) -> str:
            limits = self.skill_limits  # those of the skills that its parent used when it began hold for it too
            return limits.refusal(above, call, ctx) or limits.refusal(entries, call, ctx)

        parts = replace(
            self.parts(),
            tools=tuple(tool for tool in self.parts().tools if tool.name in TOOLS),
            allowed=may,
            refusal=refusal,
        )
        await self._take_over(session)
        live = self._live.get(session.row.parent or "")
        most = self.limits.iterations if live is None else live.limits.iterations
        if most is not None and await session.do(self.store.number_in_run, session.row) > most:
            return Outcome("limit", reason=f"the limit of {most} subagents in one run (agent.max_iterations)")
        spent = Spent(RunLimits(iterations=MAX_ITERATIONS), self.prices, live)
        async with session.within(session.running(), session.working()):
            await session.do(note_changes, self.box, session)
            if task is not None:
                await session.do(session.say, task, note=now(), source="parent")
            turn = loop.run_session(parts, session, ctx, spent, lambda event: None)
            return await _or_cancelled(session, spent, turn)

    async def _take_over(self, session: AgentSession) -> None:
        """Note that a subagent has read what its parent has read, who wrote its task, and that its calls count for the
        run of its parent; also where an earlier process began it, and where only a worker runs it. A copy of it has
        read the same."""
        parent: str | None = session.row.parent or session.row.extra.get("task_from")
        if parent is None:
            return
        if parent not in self._live:
            try:
                await shared_threads.run(self.session, parent)
                await session.do(note_record, self.box, parent)
            except NoSuchSession:  # it was removed
                self.box.flow.inherit(LABELS[True, True], session.id, elsewhere=True)
        self.box.flow.share(parent, session.id)
        if self.box.policy.limits is not None and session.row.parent:
            self.box.policy.limits.share(parent, session.id)

    async def _watch_subagents(self, session: AgentSession, ctx: ToolContext) -> None:
        """Go on with background subagents that waited for a person, as soon as they have the answer."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self._resume_subagents(session, ctx, lambda waits: is_answered(self.box, self.store, [waits]))

    async def _resume_subagents(
        self, session: AgentSession, ctx: ToolContext, goes_on: Callable[[Waits], bool]
    ) -> None:
        """Go on with the background subagents of a session that do not run; one that waits for a person only if it
        `goes_on` with one of its calls."""

        def found() -> list[AgentSession]:
            left = filter(_has_work, self.store.children(session.id))
            rows = [row for row in left if not self.subagents.runs(row.id)]
            return [AgentSession(self.store, r) for r in rows if not r.waiting or any(map(goes_on, r.waiting))]

        for subagent in await session.do(found):
            if not self.subagents.runs(subagent.id):
                work: dict[str, str] = subagent.row.extra["background"]
                self.subagents.resume(subagent, work["label"], work["task"], ctx)

    def _register(self, *tools: Tool) -> None:
        has = self.box.settings.tools.has
        self._own_tools = [
            each.name for each in tools if has(each.every_name) and self.box.registry.find(each.name) is None
        ]
        for tool in tools:
            if tool.name in self._own_tools:
                self.box.registry.register(tool)

    def _check_prices(self) -> None:
        if self.settings.max_cost is None:
            return
        unknown = [model.name for model in self.models if not self.prices.known(model.name)]
        if unknown:
            raise ConfigError(
                f"agent.max_cost cannot be enforced: the price of {', '.join(unknown)} is not known. Set agent.prices "
                "(dollars for a million tokens: [input, output]), or install genai-prices"
            )


async def _or_cancelled(session: AgentSession, spent: Spent, turn: Awaitable[Outcome]) -> Outcome:
    """Return how a turn ended, also if a person cancelled it from elsewhere."""
    try:
        return await stoppable(session, turn)
    except TurnCancelled as error:
        return loop.ended(session, spent, "interrupted", reason=str(error))


def _has_work(subagent: SessionRow) -> bool:
    """Return whether a subagent has work in the background, and is not a job."""
    work: dict[str, Any] | None = subagent.extra.get("background")
    return work is not None and "job" not in work


def _message_tool(bus: MessageBus, box: Toolbox) -> Tool:
    from .message import MessageTool

    return MessageTool(bus, box)
