"""An agent: a toolbox, a model and stored sessions, as a host uses them.

async with Toolbox.open(".") as box, Agent.open(box) as agent:
    outcome = await agent.run("What does this project do?")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ..core.context import SUBAGENT
from ..core.errors import ConfigError, ToolcribError
from ..core.output import ToolOutput
from ..core.tool import Tool
from . import loop
from .ask_user import AskUserTool
from .choose import ModelPlace, model_of
from .cost import Prices
from .events import AgentEvent, Outcome
from .history import CallResult, Entry, Image, ModelCall, ModelTurn, ResultTurn, UserTurn, user
from .limits import RunLimits, Spent
from .loop import LoopParts
from .model import Model, ToolDefinition
from .prompt import now, system_prompt
from .session import AgentSession
from .skill_limits import SkillLimits
from .skills import ReadSkillTool, find_skills, plugin_skills, skills_prompt
from .store import SessionRow, SessionStore
from .structured import AnswerForm
from .subagents import MAX_ITERATIONS, PROMPT, TOOLS, SpawnTool, Subagents, allowed
from .todo import TodoTool

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..toolbox import Toolbox
    from .bus import MessageBus

Emit = Callable[[AgentEvent], None]


class Agent:
    """Runs sessions with the tools of a toolbox. Make one with `Agent.open`."""

    def __init__(self, box: Toolbox, models: Sequence[Model], bus: MessageBus | None = None) -> None:
        self.box, self.models = box, list(models)
        self.settings = box.settings.agent
        self.store = SessionStore(box.state)
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
            plugins=plugin_skills(box.plugins) if box.settings.plugins.enabled else (),
        )
        self.skill_limits = SkillLimits(self.skills, box)
        self.subagents = Subagents(
            self._subagent,
            self._run_subagent,
            lambda session, work: self.store.set_extra(session, "background", work),
            self._report,
            lambda session: self.box.session(session).labels,
            self.settings.max_subagents,
        )
        self._live: dict[str, Spent] = {}
        self._tools: tuple[ToolDefinition, ...] | None = None
        self._check_prices()
        self._register(
            AskUserTool(),
            TodoTool(lambda session, items: self.store.set_extra(session, "todo", items)),
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

    async def use_model(self, name: str) -> None:
        """Ask the model of this name from now on. Raises ConfigError for a name that stands for none."""
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
        self._remember(session)
        return session

    def _remember(self, session: AgentSession) -> None:
        """Tell the policy what an earlier process knew of a session: what the person wrote, and what its calls read."""
        ctx = replace(self.box.context, session_id=session.id)
        calls: dict[str, ModelCall] = {}
        for entry in session.entries:
            if isinstance(entry, UserTurn) and entry.source == "user":
                self.box.session(session.id).trust(entry.text)
            elif isinstance(entry, ModelTurn):
                calls = {call.id: call for call in entry.calls}
            elif isinstance(entry, ResultTurn):
                for result in entry.results:
                    call = calls.get(result.call_id)
                    if call is not None:
                        self._remember_result(call, result, ctx)

    def _remember_result(self, call: ModelCall, result: CallResult, ctx: ToolContext) -> None:
        try:
            tool, _, arguments = self.box.registry.resolve_forward(call.name, call.object)
        except ToolcribError:  # it was refused
            return
        if tool is not None:
            self.box.flow.label(tool, arguments, ToolOutput(result.text), ctx)

    def sessions(self, limit: int = 50) -> list[SessionRow]:
        """Return stored sessions, the one used last first."""
        return self.store.list(limit)

    # --- running

    async def run(
        self,
        text: str | None,
        session: AgentSession | None = None,
        *,
        images: Sequence[Image] = (),
        emit: Emit = lambda event: None,
        limits: RunLimits | None = None,
        ctx: ToolContext | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Give a session a message, and run it until it is answered, waits for a person, or reaches a limit.

        Without `text` the session goes on where it is. Cancel it to interrupt it; its history stays valid. With
        `schema`, a JSON Schema, the answer is data of that form, in `Outcome.data`.
        """
        session = session or self.new_session()
        with session.running():
            if session.row.model != self.models[0].name:
                session.set_model(self.models[0].name)
            if text is not None:
                session.close_calls(partial(loop.known_result, self.box, session))
                session.say(text, *images, note=now())
                self.box.new_turn(session.id)
                self.box.session(session.id).trust(text)
            return await self._run(session, emit, limits, ctx, schema)

    async def _run(
        self,
        session: AgentSession,
        emit: Emit,
        limits: RunLimits | None,
        ctx: ToolContext | None,
        schema: Mapping[str, Any] | None,
    ) -> Outcome:
        parts = replace(self.parts(), form=None if schema is None else AnswerForm(schema))
        spent = Spent(limits or self.limits, self.prices)
        ctx = ctx or replace(self.box.context, channel="agent")
        ctx = replace(ctx, metadata={**ctx.metadata, SUBAGENT: self.subagents.report_of})
        self._live[session.id] = spent
        self._resume_subagents(replace(ctx, session_id=session.id))
        try:
            while True:
                outcome = await loop.run_session(parts, session, ctx, spent, emit)
                working = self.subagents.of(session.id)
                if working and outcome.state in ("done", "waiting"):  # their reports come as messages
                    done = outcome.state == "done"
                    await asyncio.wait(working, return_when="FIRST_COMPLETED" if done else "ALL_COMPLETED")
                    if done:
                        continue
                if outcome.state != "done" or not self.store.waiting(session.id, ("steer", "queue")):
                    emit(outcome)
                    return outcome
        finally:
            self._live.pop(session.id, None)
            await self.subagents.cancel(session.id)

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
        with session.running():
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
        row = self.store.create(model=self.models[0].name, system=system, title=label, parent=parent)
        if call:
            self.store.set_extra(row.id, "call", call)
        return AgentSession(self.store, self.store.get(row.id))

    def _report(self, session_id: str, text: str) -> None:
        """Send the report of a background subagent to its parent, which now has read what it read."""
        parent = self.store.get(session_id).parent or ""
        output = ToolOutput(text, labels=self.box.session(session_id).labels)
        spawn, ctx = self.box.registry.require(SpawnTool.name), replace(self.box.context, session_id=parent)
        self.box.flow.label(spawn, {}, output, ctx)
        self.store.report(session_id, user(text, source="subagent"))

    async def _run_subagent(self, session: AgentSession, task: str | None, ctx: ToolContext) -> Outcome:
        resolve = self.box.registry.resolve_forward

        def may(name: str, arguments: Any) -> bool:
            return allowed(name, arguments, resolve)

        above = self.store.turns(session.row.parent) if session.row.parent else []

        def refusal(entries: Sequence[Entry], call: ModelCall, ctx: ToolContext) -> str:
            limits = self.skill_limits  # those of the skills that its parent used when it began hold for it too
            return limits.refusal(above, call, ctx) or limits.refusal(entries, call, ctx)

        parts = replace(
            self.parts(),
            tools=tuple(tool for tool in self.parts().tools if tool.name in TOOLS),
            allowed=may,
            refusal=refusal,
        )
        spent = Spent(RunLimits(iterations=MAX_ITERATIONS), self.prices, self._live.get(session.row.parent or ""))
        with session.running():
            if task is not None:
                session.say(task, note=now(), source="parent")
            return await loop.run_session(parts, session, ctx, spent, lambda event: None)

    def _resume_subagents(self, ctx: ToolContext) -> None:
        """Go on with the background subagents of a session that an earlier process began."""
        for row in self.store.children(ctx.session_id or ""):
            work: dict[str, str] | None = row.extra.get("background")
            if work is not None:
                running = self.subagents.resume(AgentSession(self.store, row), work["task"], ctx)
                self.subagents.report_when_done(row.id, running, work["label"], work["task"])

    def _register(self, *tools: Tool) -> None:
        self._own_tools = [tool.name for tool in tools if self.box.registry.find(tool.name) is None]
        for tool in tools:
            if tool.name in self._own_tools:
                self.box.registry.register(tool)

    def _check_prices(self) -> None:
        if self.settings.max_cost is None:
            return
        unknown = [model.name for model in self.models if not self.prices.known(model.name)]
        if unknown:
            raise ConfigError(
                f"agent.max_cost cannot be kept: the price of {', '.join(unknown)} is not known. Set agent.prices "
                "(dollars for a million tokens: [input, output]), or install genai-prices"
            )


def _message_tool(bus: MessageBus, box: Toolbox) -> Tool:
    from .message import MessageTool

    return MessageTool(bus, box)
