"""An assistant at the terminal that keeps reminders and can be steered while it works.

It shows a conversation, a tool with a file of its own, the tools `ask_user` and `message`, and steering: a line
that you type while the agent works reaches the running turn; while it asks you something, your line is the answer.

    python examples/assistant.py --model anthropic:NAME
    > remind me to call Ann tomorrow at nine
    python examples/assistant.py --model anthropic:NAME --session last       # goes on with that conversation

A reminder is shown when it is due, as long as this program runs; one that was due before, at the next start. Jobs that
run without an open program are not part of this example.
"""

import argparse
import asyncio
import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from toolcrib import Toolbox, ToolcribError, ToolError, safe, tool
from toolcrib.agent import Agent, AgentEvent, AgentSession, MessageBus
from toolcrib.agent.channels.terminal import TerminalChannel
from toolcrib.agent.events import MessageTaken, Outcome
from toolcrib.agent.model import TextDelta


class Reminders:
    """Reminders in a file: a list of {"at": …, "text": …}."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            found = json.loads(file.read_text()) if file.exists() else []
            self._all = [(datetime.fromisoformat(each["at"]).astimezone(), str(each["text"])) for each in found]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ToolcribError(f"{file} has no reminders: {error}") from None

    def take_due(self) -> list[str]:
        """Remove the reminders that are due, and return their texts."""
        now = datetime.now().astimezone()
        due = [text for at, text in self._all if at <= now]
        if due:
            self._store([each for each in self._all if each[0] > now])
        return due

    def _store(self, every: list[tuple[datetime, str]]) -> None:
        self._all = sorted(every)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps([{"at": at.isoformat(), "text": text} for at, text in self._all], indent=1))
        os.replace(new, self._file)

    def tools(self) -> list[Any]:
        """Return the tools that the model gets."""

        @tool(category="memory", sequential=True)
        def remind(text: str, at: datetime) -> str:
            """Remind the person of something at a time.

            Args:
                text: What the person reads then.
                at: Date and time; without an offset it is local time.
            """
            if at.astimezone() <= datetime.now().astimezone():
                raise ToolError("that time is over; give one in the future")
            self._store([*self._all, (at.astimezone(), text)])
            return f"Stored for {at.astimezone():%A %Y-%m-%d %H:%M}."

        @tool(category="memory", read_only=True)
        def list_reminders() -> str:
            """The reminders, each with its number."""
            lines = (f"{number}. {at:%A %Y-%m-%d %H:%M}: {text}" for number, (at, text) in enumerate(self._all, 1))
            return "\n".join(lines) or "There are no reminders."

        @tool(category="memory", sequential=True)
        def remove_reminder(number: int) -> str:
            """Remove a reminder by its number in list_reminders."""
            if not 0 < number <= len(self._all):
                raise ToolError(f"there is no reminder {number}; list_reminders shows them")
            removed = self._all[number - 1]
            self._store([each for each in self._all if each is not removed])
            return f"Removed: {removed[1]}"

        return [remind, list_reminders, remove_reminder]


class Terminal:
    """Reads lines, and gives each to whoever waits for it: a question, the running turn, or a new turn."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.answer: asyncio.Future[str] | None = None
        self._ended = False
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        rest = b""
        with suppress(RuntimeError, OSError):  # the program has ended, or the terminal
            while data := os.read(0, 65536):
                *lines, rest = (rest + data).split(b"\n")
                loop.call_soon_threadsafe(self._put, *(line.decode(errors="replace").strip() for line in lines))
            loop.call_soon_threadsafe(self._put, rest.decode(errors="replace").strip(), None)

    def _put(self, *lines: str | None) -> None:
        for line in lines:
            self._ended = self._ended or line is None
            if self.answer is None or self.answer.done():
                self.lines.put_nowait(line)
            elif line is None:
                self.answer.set_exception(ToolError("the person has left"))
                self.lines.put_nowait(None)
            elif line:
                self.answer.set_result(line)

    async def ask(self, question: str, options: Sequence[str]) -> str:
        """Ask the person for a tool. Raises ToolError at the end of input."""
        print(safe(f"\n? {question}" + "".join(f"\n  - {option}" for option in options)), flush=True)
        if self._ended:
            raise ToolError("the person has left")
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    def show(self, event: AgentEvent) -> None:
        """Print the reply as it comes."""
        if isinstance(event, TextDelta):
            print(safe(event.text), end="", flush=True)
        elif isinstance(event, MessageTaken):
            print(safe(f"\n(it reads: {event.text})"), flush=True)
        elif isinstance(event, Outcome):
            print(f"\n({event.reason})" if event.reason else "", flush=True)


async def talk(agent: Agent, session: AgentSession, terminal: Terminal) -> None:
    """Give each line to the agent, until the input ends."""
    ctx = replace(agent.box.context, channel="terminal", ask=terminal.ask)
    turn: asyncio.Task[None] | None = None

    async def answer(line: str) -> None:
        try:
            await agent.run(line, session, emit=terminal.show, ctx=ctx)
        except ToolcribError as error:
            print(safe(f"\n({error})"), flush=True)

    try:
        while (line := await terminal.lines.get()) is not None:
            if not line:
                continue
            if turn is not None and not turn.done():
                session.steer(line)
            else:
                turn = asyncio.create_task(answer(line))
        if turn is not None:
            await turn
    finally:  # at Ctrl-C the turn ends before its toolbox does; the session keeps what was done
        if turn is not None:
            turn.cancel()
            await asyncio.wait([turn])


async def say_what_is_due(reminders: Reminders) -> None:
    """Print each reminder when it is due."""
    while True:
        for text in reminders.take_due():
            print(safe(f"\n⏰ {text}"), flush=True)
        await asyncio.sleep(1)


async def main() -> int:
    parser = argparse.ArgumentParser(description="Talk to an assistant that keeps reminders.")
    parser.add_argument("--model", help="for example anthropic:NAME, ollama:NAME; by default the first one found")
    parser.add_argument("--folder", type=Path, default=Path("reminders"), help="where the reminders are kept")
    parser.add_argument("--session", help="go on with this conversation; `last` is the newest")
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    reminders, terminal = Reminders(args.folder / "reminders.json"), Terminal()
    bus = MessageBus({"terminal": TerminalChannel("terminal", lambda text: print(safe(f"\n✉ {text}"), flush=True))})
    async with (
        Toolbox.open(args.folder, builtin=False, tools=reminders.tools()) as box,
        await Agent.open(box, args.model, bus=bus, say=print) as agent,
    ):
        session = agent.session(args.session) if args.session else agent.new_session("Assistant")
        clock = asyncio.create_task(say_what_is_due(reminders))
        try:
            await talk(agent, session, terminal)
        finally:
            clock.cancel()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except ToolcribError as error:
        sys.exit(f"assistant: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
