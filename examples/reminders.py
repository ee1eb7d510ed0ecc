"""An assistant with reminders: a tool notes what to say and when; the reminder comes as a message of the session.

    python reminders.py                       # a script
    python reminders.py --model ollama:qwen3  # any model; type messages, an empty line ends

The session is stored in the folder's record, so the assistant knows the conversation when the reminder comes. The
reminders live in this program: they end with it.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable

from toolcrib import Toolbox, tool
from toolcrib.agent import Agent, AgentEvent, AgentSession, Model
from toolcrib.agent.model import TextDelta
from toolcrib.testing import ScriptedModel

SCRIPT = [
    {"calls": [{"name": "remind", "arguments": {"seconds": 0.2, "text": "take the bread out of the oven"}}]},
    {"text": "I will remind you of the bread."},
    {"text": "With the milk from this morning, a soup."},
    {"text": "The bread! Take it out of the oven now.", "after": "take the bread out of the oven"},
]
TYPED = ["Remind me of the bread in the oven in a moment.", "What can I cook meanwhile?"]


class Assistant:
    """One conversation. Messages of the person and reminders come in one queue, and are answered one at a time."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.reminders: list[asyncio.Task[None]] = []
        self.waiting = 0  # reminders that have not been said
        self.remind = tool(category="memory", name="remind")(self._remind)

    async def _remind(self, seconds: float, text: str) -> str:
        """Remind the person later, by a message in this conversation.

        Args:
            seconds: In how many seconds, from 0 to 86400.
            text: What to remind of.
        """
        if not 0 <= seconds <= 86_400:
            return "seconds is a number from 0 to 86400"

        async def later() -> None:
            await asyncio.sleep(seconds)
            self.inbox.put_nowait(("reminder", f"A reminder is due. Tell the person: {text}"))

        self.reminders.append(asyncio.create_task(later()))
        self.waiting += 1
        return f"noted: in {seconds:g} s, {text}"

    async def talk(self, agent: Agent, session: AgentSession, show: Callable[[AgentEvent], None]) -> None:
        """Answer messages until the person ends, and no reminder waits."""
        person_left = False
        while not (person_left and not self.waiting and self.inbox.empty()):
            source, text = await self.inbox.get()
            if source == "end":
                person_left = True
            elif source == "user":
                print(f"you: {text}")
                await agent.run(text, session, emit=show)
                print()
            else:  # not the person's words, so they are not trusted as such
                self.waiting -= 1
                session.say(text, source=source)
                await agent.run(None, session, emit=show)
                print()


def show(event: AgentEvent) -> None:
    if isinstance(event, TextDelta):
        print(event.text, end="", flush=True)


async def type_messages(inbox: asyncio.Queue[tuple[str, str]], typed: list[str] | None) -> None:
    """Put what the person types into the inbox."""
    if typed is not None:
        for text in typed:
            inbox.put_nowait(("user", text))
    else:
        while text := (await asyncio.to_thread(sys.stdin.readline)).strip():
            inbox.put_nowait(("user", text))
    inbox.put_nowait(("end", ""))


async def assist(model: str | Model, typed: list[str] | None) -> None:
    assistant = Assistant()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Toolbox.open(folder, mode="observer", tools=[assistant.remind], builtin=False) as box,
            await Agent.open(box, model) as agent,
        ):
            typing = asyncio.create_task(type_messages(assistant.inbox, typed))
            await assistant.talk(agent, agent.new_session(), show)
            await typing


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", help="anthropic:NAME, openai:NAME, ollama:NAME … Default: a script.")
    given = options.parse_args()
    asyncio.run(assist(given.model or ScriptedModel(SCRIPT), None if given.model else TYPED))


if __name__ == "__main__":
    main()
