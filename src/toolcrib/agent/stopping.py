"""How does a person stop a turn that another process runs? What they want is in the row of its session; the process
that runs the turn looks there while it works, and before each step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ..core.errors import ToolcribError

if TYPE_CHECKING:
    from .limits import Spent
    from .session import AgentSession

T = TypeVar("T")

LOOK_SECONDS = 0.5
"""Seconds between two looks."""


class TurnCancelled(ToolcribError):
    """A person cancelled the turn from elsewhere. The history stays valid."""


async def stoppable(session: AgentSession, turn: Awaitable[T]) -> T:
    """Run a turn, and cancel it as soon as a person wants that. Raises TurnCancelled."""
    person: str | None = None

    async def look(scope: asyncio.Timeout) -> None:
        nonlocal person
        while person is None:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(ToolcribError):  # the record cannot be read at present
                person = await session.do(session.cancelled_by)
        scope.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as scope:
            looking = asyncio.create_task(look(scope))
            try:
                return await turn
            finally:
                looking.cancel()
    except TimeoutError:
        if person is None:
            raise
        raise TurnCancelled(f"{person} cancelled the turn") from None


async def pause(session: AgentSession, spent: Spent, tell: Callable[[str], object]) -> bool:
    """Wait while a person has the turn paused. Returns whether somebody had. `tell` gets the person, at the begin. The
    time does not count for the limits of the turn."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    person = None
    with contextlib.suppress(ToolcribError):  # the record cannot be read at present: the turn goes on, as without this
        person = await session.do(session.paused_by)
    if person is None:
        return False
    tell(person)
    while person is not None:
        await asyncio.sleep(LOOK_SECONDS)
        with contextlib.suppress(ToolcribError):
            person = await session.do(session.paused_by)
    spent.leave_out(loop.time() - begun)
    return True
