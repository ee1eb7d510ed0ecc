"""A conversation at the terminal: what a line that a person enters does to the session and its running turn."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ...agent.events import Outcome
from ...agent.history import Content, UserTurn
from ...agent.waiting import POLL_SECONDS, Waits, news_of, waits_of, when_free
from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from .. import show
from ..exit_codes import drop_stdout
from .attachments import mentioned, read_files
from .display import AnswerLines
from .screen import Screen

if TYPE_CHECKING:
    from ...agent import Agent, AgentSession
    from ...core.context import ToolContext

MAX_SHOWN = 2_000  # characters of the last answer that a resumed session shows


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command of a conversation. `while_running`: it can be given while a turn runs."""

    name: str
    arguments: str
    help: str
    run: Callable[[Conversation, str], Awaitable[None]]
    while_running: bool = False


class Conversation:
    """One session at a time, and the turn of it that runs. A line is a message, or a command (`/help`). `ask` is called
    at the end of a turn, to show that a line can be typed."""

    def __init__(
        self, agent: Agent, session: AgentSession, screen: Screen, display: AnswerLines, ctx: ToolContext,
        command_of: Callable[[str], ChatCommand | None], ask: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self.agent, self.box = agent, agent.box
        self.screen, self.display, self.ctx = screen, display, ctx
        self._command_of, self._ask = command_of, ask
        self.outcome: Outcome | None = None
        self.session = session
        self.used: set[str] = set()
        """The ids of the sessions of this conversation."""
        self.waiting: tuple[Waits, ...] = ()
        self.draft = ""
        """A text to begin the next line with."""
        self.leaving = False
        self._turn: asyncio.Task[None] | None = None
        self._interrupted = False  # since the last line that was entered
        display.totals = self.totals

    @property
    def is_running(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    # --- what a person does

    async def enter(self, text: str) -> None:
        """Do what a line says."""
        self._interrupted = False
        text = text.strip()
        if not text:
            return
        try:
            command = self._command_of(text)
            if command is None:
                await self.send(text)
            elif self.is_running and not command.while_running:
                self.note(f"{command.name} waits for the end of the turn; Ctrl-C interrupts it")
            else:
                await command.run(self, text.partition(" ")[2].strip())
        except BrokenPipeError:
            self._reader_ended()
        except (ToolcribError, OSError) as error:
            self.screen.line(f"toolcrib: {error}", "red")

    async def send(self, text: str, *, queue: bool = False) -> None:
        """Give the session a message: it starts a turn, or goes to the running one, or waits for that one's end."""
        # A line of a pipe may be anyone's text: there the agent reads files with its tools, under their rules.
        names, missing = mentioned(text, self.box.workspace.root) if sys.stdin.isatty() else ([], [])
        files = read_files(names, self.box.workspace.root)
        for name in missing:
            self.note(f"there is no file {name}; @{name} is sent as text")
        if self.is_running:
            await self.session.do(self.session.queue if queue else self.session.steer, text, *files)
            if not queue and sys.stdin.isatty():
                self.display.typed.append(text)
            self.note("queued: it is sent after this turn" if queue else "sent: the agent reads it at its next step")
            return
        self.start(self._run(text, *files))

    def go_on(self) -> None:
        """Go on with a turn that did not end."""
        self.start(self._run(None))

    def interrupt(self, typed: str = "") -> Literal["clear", "leave", ""]:
        """Ctrl-C: interrupt the turn; without one clear what is typed, or leave at the second time."""
        if self._turn is not None and not self._interrupted:
            self._interrupted = True
            self._turn.cancel()
            return ""
        if typed:
            return "clear"
        if self._interrupted:
            self.leaving = True
            return "leave"
        self._interrupted = True
        self.note("Ctrl-C again, Ctrl-D or /exit leaves")
        return ""

    async def wait(self) -> None:
        """Wait for the end of the turn."""
        while self._turn is not None:
            await asyncio.wait([self._turn])

    async def close(self) -> None:
        """Interrupt the turn, and wait for its end."""
        if self._turn is not None:
            self._turn.cancel()
            await self.wait()

    # --- the turn

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a turn, or other work that a person may interrupt."""
        self._turn = asyncio.create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self.display.stop()
            waits = await self.session.do(self.agent.store.waiting, self.session.id, ("steer", "queue"))
            more = "; what was sent meanwhile goes with your next message" if waits else ""
            self.screen.line(f"(interrupted; the session is kept{more})", "yellow")
            self.outcome = Outcome("interrupted")
        except BrokenPipeError:
            self._reader_ended()
        except (ToolcribError, OSError) as error:
            self.display.stop()
            self.screen.line(f"toolcrib: {error}", "red")
            self.outcome = Outcome("error", reason=str(error))
        finally:
            self._turn = None
            if not self.leaving:
                self._ask()

    def _reader_ended(self) -> None:
        """Leave: the program that reads our output has ended, as in `toolcrib chat | head`."""
        drop_stdout()
        self.leaving, self.outcome = True, None

    async def watch(self) -> None:
        """Go on with the session as soon as what it waits for was answered elsewhere, also for a subagent; and when a
        job, or a subagent that is one, has reported."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            session = self.session
            with contextlib.suppress(ToolcribError):
                if self.is_running or self.leaving:
                    continue
                news = await session.do(news_of, self.box, self.agent.store, session.id, self.waiting)
                if news and not self.is_running and not self.leaving and session is self.session:
                    if news == "answer":
                        self.note("the answer came: the agent goes on")
                    self.start(self._run(None, by_report=news != "answer", by_itself=True))

    async def _run(self, text: str | None, *files: Content, by_report: bool = False, by_itself: bool = False) -> None:
        self.waiting = ()
        run = partial(
            self.agent.run, text, self.session, files=files, emit=self.display.show,
            ctx=replace(self.ctx, channel="agent"), by_report=by_report,
        )  # fmt: skip
        self.outcome = await (when_free(run) if by_itself else run())
        self.waiting = self.outcome.waiting
        if self.outcome.state in ("error", "limit", "interrupted"):
            self.note("/continue goes on from here")
        elif self.outcome.waiting:
            asked = any(waits["kind"] == "question" for waits in self.outcome.waiting)
            self.note("your next message is the answer" if asked else "after the approval the agent goes on by itself")

    # --- the session

    async def switch(self, session: AgentSession) -> None:
        """Go on with another session, and show where it is."""
        await self.use(session)
        self.show_end_of_session()

    async def use(self, session: AgentSession) -> None:
        """Take another session as that of the conversation."""
        waits = () if session.is_open else await session.do(waits_of, self.agent.store, session.id)
        self.session, self.waiting = session, waits
        self.used.add(session.id)

    def show_end_of_session(self) -> None:
        """Show the last message and answer, and what the session waits for."""
        entries = self.session.entries
        said = next((e for e in reversed(entries) if isinstance(e, UserTurn) and e.source == "user"), None)
        self.note(f"session {self.session.id}: {self.session.row.title or 'new'}")
        if said is not None:
            self.screen.line(f"› {spoken(said)[:MAX_SHOWN]}", "bold")
        if self.session.answer:
            self.display.answer(self.session.answer[-MAX_SHOWN:])
        if self.session.plan:
            self.screen.line(self.session.plan)
        self.display.show_waiting(self.waiting)
        if self.session.is_open:
            self.note("the last turn did not end: /continue resumes it")

    def totals(self) -> str:
        """Return what the whole session has cost, in words."""
        row = self.session.row
        cost = "" if row.cost is None else f", ${row.cost:.4f}"
        return f"session: {row.usage.input + row.usage.output} tokens{cost}"

    # --- writing

    def note(self, text: str) -> None:
        """Write a line about the conversation."""
        self.screen.line(f"({text})", "dim")

    def say(self, text: str, style: str | None = None) -> None:
        """Write what a command answers."""
        for line in show.clean(text).split("\n"):
            self.screen.answer((show.paint(line, style) if style and line else line) + "\n")


def spoken(turn: UserTurn) -> str:
    """Return what a person said in a turn, without the note with the time and without files."""
    said, found, _ = turn.words.rpartition("\n\n(It is ")
    return said if found else turn.words
