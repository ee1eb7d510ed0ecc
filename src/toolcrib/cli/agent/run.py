"""`toolcrib run`: give an agent a task, and show what it does."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from ...core.context import COMMAND_OUTPUT
from ...core.errors import ToolcribError
from ...core.wings import has_wing
from .. import show
from ..exit_codes import FAILED, INTERRUPTED, OK, REFUSED, Usage
from ..options import CassetteOptions, Model, OfSession, Options
from ..reader import Argument, CliCommand, Option
from .attachments import MAX_INPUT, read_files

if TYPE_CHECKING:
    from ...agent import Agent, AgentEvent, AgentSession, Outcome, RunLimits
    from ...config import Settings
    from ...toolbox import Toolbox
    from .display import AnswerLines, JsonLines

_CODES = {"done": OK, "waiting": REFUSED, "refused": REFUSED, "interrupted": INTERRUPTED}


async def run(
    options: Options,
    cassette: CassetteOptions,
    task: Annotated[list[str] | None, Argument(metavar="TASK", help="The task. - reads it from stdin.")] = None,
    model: Model = None,
    session: OfSession = None,
    files: Annotated[
        list[str] | None, Option("--file", "-f", metavar="FILE", help="Add a text or an image to the task.")
    ] = None,
    max_cost: Annotated[str | None, Option("--max-cost", metavar="DOLLARS", help="Stop at this cost.")] = None,
    max_iterations: Annotated[
        int | None, Option("--max-iterations", help="Stop after this many requests to the model.", minimum=1)
    ] = None,
) -> int:
    """Give an agent a task. Its answer goes to stdout; what it does, and questions, go to stderr.

    With --json every event is a line of JSON on stdout. Exit code 0 if it answered, 1 if a limit or an error stopped
    it, 3 if a call waits for approval: approve with `toolcrib approvals`, then `toolcrib run --session ID`.
    """
    if session == "":
        raise Usage("--session needs the id of a session, or `last`; `toolcrib sessions` lists them")
    text = _task(task or [])
    if text is None and session is None:
        raise Usage("TASK is missing; for example: toolcrib run 'What does this project do?'")
    return code_of(await _run(options, cassette, text, model, session, files or [], max_cost, max_iterations))


def code_of(outcome: Outcome) -> int:
    """Return the exit code of a turn. An answer while a subagent waits for approval counts as waiting."""
    return REFUSED if outcome.state == "done" and outcome.waiting else _CODES.get(outcome.state, FAILED)


async def _run(
    options: Options,
    cassette: CassetteOptions,
    text: str | None,
    model: str | None,
    session_id: str | None,
    files: list[str],
    max_cost: str | None,
    max_iterations: int | None,
) -> Outcome:
    from ...agent import Agent
    from ...agent.waiting import when_free
    from ..terminal_approver import ask_at_terminal
    from .display import AnswerLines, JsonLines
    from .file_changes import file_changes

    settings = with_cost(options.settings(), max_cost)
    async with options.open(settings, **{"warm_up": False, **cassette.opening()}) as box:
        cassette.insert(box)
        display = JsonLines() if options.json else AnswerLines(changes=partial(file_changes, box.journal))
        ask = ask_at_terminal(box, floor=display.floor)
        async with await Agent.open(box, model or await stored_model(box, session_id), say=show.note) as agent:
            for line in agent.left_out():
                show.note(line, "dim")
            given = read_files(files)
            session = await opened_session(agent, session_id)
            said = "" if text is None and given else text
            if said is None and session.last is None:
                raise Usage(f"the session {session.id} has no message yet; give it a task")
            ctx = replace(box.context, channel="agent", ask=ask)
            if isinstance(display, AnswerLines):
                ctx = replace(ctx, metadata={**ctx.metadata, COMMAND_OUTPUT: display.hear})
            limits = _limits(agent.limits, max_iterations)
            reader = EventPrinter(display)
            go = partial(agent.run, session=session, emit=reader.show, limits=limits, ctx=ctx)
            try:
                async with agent_jobs(agent, stays=False) as next_end:
                    outcome = await go(said, files=given)
                    while outcome.state == "done" and await next_end(session.id):
                        outcome = await when_free(partial(go, None))
                if text is None and outcome.state == "done" and not outcome.requests and not outcome.waiting:
                    show.say(f"The session {session.id} has nothing left to do; give it a message.")
                elif outcome.state == "done" and not outcome.text.strip() and not outcome.waiting:
                    show.say("The model ended without an answer.", "yellow")
            except asyncio.CancelledError:
                reader.check()
                raise
            finally:
                reader.show_end(session.id)
            return outcome


@asynccontextmanager
async def agent_jobs(agent: Agent, *, stays: bool = True) -> AsyncGenerator[Callable[[str], Awaitable[bool]]]:
    """Let an agent work in the background within this block, if that is installed. Yields a function that waits until a
    call in the background of a session has ended; it returns False if there is none. If the process `stays` between the
    turns, background subagents are jobs, too, and schedules run when they are due."""
    if not has_wing("jobs"):
        yield lambda session_id: asyncio.sleep(0, False)
        return
    from ..jobs.hosted_jobs import hosted_jobs

    async def opened() -> Agent:
        return agent

    async with hosted_jobs(agent.box, opened, attached=agent if stays else None, schedules=stays) as host:
        try:
            yield host.next_end
        finally:
            with suppress(ToolcribError):
                if left := await host.left():
                    show.say(left, "yellow")


class EventPrinter:
    """Shows events. When the program that reads our output has ended (`toolcrib run … | head`), it ends the run."""

    def __init__(self, display: JsonLines | AnswerLines) -> None:
        self._display = display
        self._task = asyncio.current_task()
        self._gone = False

    def show(self, event: AgentEvent) -> None:
        """Show an event."""
        self._try(lambda: self._display.show(event))

    def show_end(self, session_id: str) -> None:
        """Show how to go on with the session."""
        self._try(lambda: self._display.end(session_id))

    def check(self) -> None:
        """Raise BrokenPipeError if the reader has ended."""
        if self._gone:
            raise BrokenPipeError

    def _try(self, write: Callable[[], None]) -> None:
        if self._gone:
            return
        try:
            write()
        except BrokenPipeError:
            self._gone = True
            if self._task is not None:
                self._task.cancel()


def with_cost(settings: Settings, max_cost: str | None) -> Settings:
    """Return the settings with a limit in dollars. Raises Usage."""
    if max_cost is None:
        return settings
    try:
        dollars = float(max_cost.removeprefix("$"))
    except ValueError:
        dollars = 0.0
    if not 0 < dollars < 1e9:
        raise Usage(f"--max-cost {max_cost!r} should be dollars, for example 0.50")
    return replace(settings, agent=replace(settings.agent, max_cost=dollars))


def _limits(limits: RunLimits, iterations: int | None) -> RunLimits:
    return limits if iterations is None else replace(limits, iterations=iterations)


async def opened_session(agent: Agent, session_id: str | None) -> AgentSession:
    """Return a stored session, or a new one. Raises SessionError."""
    return await agent.store.do(partial(agent.session, session_id) if session_id else agent.new_session)


async def stored_model(box: Toolbox, session_id: str | None) -> str | None:
    """Return the model of a session; None for one that was found on this machine: it is looked for again.

    Raises SessionError.
    """
    from ...agent.store import SessionStore

    if not session_id:
        return None
    store = SessionStore(box.state)
    name = (await store.do(store.get, session_id)).model
    await store.do(store.close)
    at_url = name.startswith(("chat:", "responses:"))
    return None if at_url and not (box.settings.agent.base_url or os.environ.get("OPENAI_BASE_URL")) else name


def _task(words: list[str]) -> str | None:
    """Return the task of the command line; `-`, or no word and a pipe, reads stdin."""
    if words == ["-"] or (not words and not sys.stdin.isatty()):
        text = sys.stdin.read(MAX_INPUT + 1)
        if len(text) > MAX_INPUT:
            raise Usage(f"stdin holds more than {MAX_INPUT} characters; name a file in the task instead")
        return text.strip() or None
    return " ".join(words).strip() or None


COMMAND = CliCommand(run)
