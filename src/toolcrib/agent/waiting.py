"""What waits for a person: calls of a session, and of the subagents that work for it in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from .session_lock import SessionTaken

if TYPE_CHECKING:
    from ..toolbox import Toolbox
    from .events import Outcome
    from .session_rows import SessionRow
    from .store import SessionStore

Waits = dict[str, Any]
"""One call that waits: its `kind` (approval or question), `run_id`, `tool`, and the `approval` with its `reason`, or
the `question`."""
POLL_SECONDS = 1.0
"""Seconds between two looks for answers that were given elsewhere, for example by `toolcrib approvals`."""


def waits_of(store: SessionStore, session_id: str) -> tuple[Waits, ...]:
    """Return what a session waits for, and what its background subagents wait for, from the store."""
    return (*store.get(session_id).waiting, *subagent_waits(store.children(session_id)))


def subagent_waits(children: Iterable[SessionRow]) -> tuple[Waits, ...]:
    """Return what the background subagents among these sessions wait for."""
    return tuple(
        {**waits, "subagent": row.title, **({"job": True} if "job" in work else {})}
        for row in children
        if (work := row.extra.get("background"))
        for waits in row.waiting
    )


def without_jobs(waiting: Iterable[Waits]) -> list[Waits]:
    """Return the calls that a run of their session goes on with: not those of subagents that are jobs."""
    return [waits for waits in waiting if not waits.get("job")]


def is_answered(box: Toolbox, store: SessionStore, waiting: Iterable[Waits]) -> bool:
    """Return whether a person answered one of these calls, here or anywhere. Blocks."""
    return any(
        store.result(waits["run_id"]) is not None or state_of(box, waits) in ("approved", "denied") for waits in waiting
    )


def news_of(
    box: Toolbox, store: SessionStore, session_id: str, waiting: Iterable[Waits]
) -> Literal["answer", "report", ""]:
    """Return why a session that runs nowhere goes on by itself: a person answered what it waits for, or a report of a
    job came. Blocks."""
    answered = is_answered(box, store, without_jobs(waiting))
    if (not answered and session_id not in store.told()) or store.is_running(session_id):
        return ""
    return "answer" if answered else "report"


async def when_free(run: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Go on with a session as soon as nothing else runs it: a job may do so first."""
    while True:
        try:
            return await run()
        except SessionTaken:
            await asyncio.sleep(POLL_SECONDS)


def state_of(box: Toolbox, waits: Waits) -> str | None:
    """Return the state of the approval that a call waits for. Blocks."""
    row = box.approvals.get(waits.get("approval") or "")
    return None if row is None else row["state"]
