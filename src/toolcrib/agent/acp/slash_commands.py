"""The commands that a person may type in an editor's prompt: `/compact`, `/cost`, `/undo` and `/continue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp.schema import AvailableCommand

from ..history import UserTurn
from ..rewind import rewind_session

if TYPE_CHECKING:
    from ..agent import Agent
    from ..session import AgentSession

CONTINUE = "/continue"
"""It runs the agent; the others only answer."""
COMMANDS = [
    AvailableCommand(name="compact", description="Make the history shorter now."),
    AvailableCommand(name="cost", description="Show the tokens and the cost of this session."),
    AvailableCommand(
        name="undo", description="Take back the last message: its file changes, and it and what followed."
    ),
    AvailableCommand(name="continue", description="Go on with a turn that did not end."),
]


async def answer_command(agent: Agent, session: AgentSession, text: str) -> str | None:
    """Run a command and return what it says; None if the text is not one. Raises ModelError or SessionError."""
    match text.strip():
        case "/compact":
            shorter = await agent.compact(session)
            return "The history is shorter now." if shorter else "The history cannot be made shorter."
        case "/cost":
            return _cost(session)
        case "/undo":
            return await session.do(_undo, agent, session)
        case _:
            return None


def _cost(session: AgentSession) -> str:
    row = session.row
    price = "its price is not known" if row.cost is None else f"${row.cost:.4f}"
    return f"{row.usage.input} tokens in ({row.usage.cache_read} cached), {row.usage.output} out: {price}."


def _undo(agent: Agent, session: AgentSession) -> str:
    last = [n for n, entry in enumerate(session.entries) if isinstance(entry, UserTurn) and entry.source == "user"]
    if not last:
        return "There is no message to take back."
    done = rewind_session(agent.box, session, last[-1])
    lines = [*done.undone, *(f"not taken back: {line}" for line in done.left)]
    listed = "".join(f"\n- {line}" for line in lines) or "\n- no files were changed"
    return f"Took back the last message; the agent no longer knows it and what followed.{listed}"
