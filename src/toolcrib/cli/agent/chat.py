"""`toolcrib chat`: talk with an agent at a terminal, or line by line in a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from ...core.context import COMMAND_OUTPUT
from ...core.extras import how_to_add
from .. import show
from ..exit_codes import OK, Usage
from ..options import Model, OfSession, Options
from ..reader import CliCommand, Option

if TYPE_CHECKING:
    from ...agent import Agent, AgentSession
    from ...config import Settings
    from .conversation import Conversation

HISTORY = "chat_history"


async def chat(
    options: Options,
    model: Model = None,
    session: OfSession = None,
    newest: Annotated[bool, Option("--continue", "-c", help="Go on with the session that was used last.")] = False,
    max_cost: Annotated[str | None, Option("--max-cost", metavar="DOLLARS", help="Stop a turn at this cost.")] = None,
) -> int:
    """Talk with an agent. /help lists the commands within the conversation.

    Without a terminal each line of stdin is a message; the answers go to stdout, all else goes to stderr. The exit code
    is then that of the last turn: 0 if it was answered, 1 for an error or a limit, 3 if a call waits for approval.
    """
    from ...agent import Agent
    from ...serve.server_reloading import Reloader, reloading
    from .run import agent_jobs, opened_session, stored_model, with_cost

    if session == "":
        raise Usage("--session needs the id of a session, or `last`; `toolcrib sessions` lists them")
    if newest and session:
        raise Usage("--continue and --session exclude each other")
    if _can_edit():
        with contextlib.suppress(ImportError):
            import_module(f"{__package__}.prompt_screen")  # 0.3 s, which would block the loop later
    session_id = "last" if newest else session

    def load(*, quiet: bool = True) -> Settings:
        return with_cost(options.settings(quiet=quiet), max_cost)

    async with options.open(load(quiet=False), warm_up=True) as box:
        chosen = model or await stored_model(box, session_id)
        async with await Agent.open(box, chosen, say=show.note) as agent:
            for line in agent.left_out():
                show.note(line, "dim")
            opened = await opened_session(agent, session_id)
            async with agent_jobs(agent):
                with reloading(Reloader(box, load)):
                    return await _talk(agent, opened)


async def _talk(agent: Agent, session: AgentSession) -> int:
    from ..terminal_approver import ask_at_terminal
    from .chat_commands import command_of
    from .conversation import Conversation
    from .display import AnswerLines
    from .file_changes import file_changes
    from .run import code_of

    door = _Door()
    reader = door.reader(agent)
    display = AnswerLines(reader.screen, partial(file_changes, agent.box.journal))
    metadata = {**agent.box.context.metadata, COMMAND_OUTPUT: display.hear}
    ctx = replace(agent.box.context, ask=ask_at_terminal(agent.box, floor=reader.floor), metadata=metadata)
    talk = door.talk = Conversation(agent, session, reader.screen, display, ctx, command_of, reader.ask)
    await talk.use(session)
    if session.entries:
        talk.show_end_of_session()
    elif sys.stdin.isatty():
        talk.note(f"{agent.models[0].name}, {agent.box.policy.mode} mode; /help lists the commands")
        if door.missing:
            talk.note(door.missing)
    watch = asyncio.create_task(talk.watch())
    with door.signals():
        try:
            await _lines(talk, reader, door)
        finally:
            watch.cancel()
            await talk.close()
    for row in agent.sessions():  # not those in which another chat waits for its first message
        if row.id in talk.used and not row.title and not agent.store.turns(row.id):
            agent.store.remove(row.id)
    if talk.session.entries:
        where = f"toolcrib chat --session {talk.session.id}"
        talk.screen.line(f"(session {talk.session.id}; go on with: {where})", "dim")
    at_terminal = sys.stdin.isatty()
    return OK if at_terminal or talk.outcome is None else code_of(talk.outcome)


async def _lines(talk: Conversation, reader: Any, door: _Door) -> None:
    """Read lines and do what they say, until the end of the input, or until the person leaves."""
    while not talk.leaving:
        if not talk.is_running:
            reader.ask()
        draft, talk.draft = talk.draft, ""
        reading: asyncio.Future[str] = asyncio.ensure_future(reader.read(draft))
        door.reading = reading
        try:
            text = await reading
        except EOFError:
            break
        except asyncio.CancelledError:
            if talk.leaving:
                break
            raise
        await talk.enter(text)
        if reader.wants_turn_end:
            await talk.wait()
            if talk.outcome is not None and talk.outcome.state == "interrupted":
                break


def _can_edit() -> bool:
    """Return whether the terminal can draw a line that is edited."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) and os.environ.get("TERM") != "dumb"


class _Door:
    """The terminal or the pipes of a chat: who reads its lines, and what Ctrl-C does."""

    talk: Conversation
    """It is there before the first line is read."""

    def __init__(self) -> None:
        self.reading: asyncio.Future[str] | None = None
        self.missing = ""

    def reader(self, agent: Agent) -> Any:
        """Return what reads the lines: an edited line at a terminal that can draw one, else plain lines."""
        from .line_reader import PlainReader
        from .screen import PlainScreen

        if _can_edit():
            try:
                from .prompt_screen import PromptScreen
            except ImportError:
                self.missing = f"for line editing, history and completion: {how_to_add('chat')}"
            else:
                history = agent.box.state.path / HISTORY
                return PromptScreen(history, self._complete, self._interrupt, self._more, self._about)
        return PlainReader(PlainScreen())

    @contextlib.contextmanager
    def signals(self) -> Any:
        """Have Ctrl-C interrupt the turn, and leave at the second time."""
        loop = asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, self._on_signal)
        except (NotImplementedError, ValueError):  # Windows; not the main thread
            yield
            return
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _on_signal(self) -> None:
        if self.talk.interrupt() == "leave" and self.reading is not None:
            self.reading.cancel()

    def _complete(self, before: str) -> Any:
        from .chat_commands import words_for

        return words_for(self.talk, before)

    def _interrupt(self, typed: str) -> str:
        return self.talk.interrupt(typed)

    def _more(self) -> None:
        from .chat_commands import show_last

        show_last(self.talk)

    def _about(self) -> str:
        talk = self.talk
        return f"{talk.agent.models[0].name}  {talk.box.policy.mode}  {talk.session.id}"


COMMAND = CliCommand(chat, without=("json",))
