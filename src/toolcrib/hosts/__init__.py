"""Stands in front of other agents: judges the calls that they announce by their hooks, and records what ran.

`answer` is the entry. `events` reads the hosts' events, `mapping` says which of our tools a host's tool is, `judging`
asks the policy, `answers` writes what the host reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .answers import HookAnswer, refusal
from .hook_events import HOSTS, EventError, HostEvent, HostName, UnreadableCall, read_event, workspace_of
from .mapping import calls_of

if TYPE_CHECKING:
    from ..config import Settings

__all__ = ["HOSTS", "EventError", "HookAnswer", "HostEvent", "HostName", "UnreadableCall", "answer", "concerns_us",
           "read_event", "refusal", "workspace_of"]  # fmt: skip


def concerns_us(event: HostEvent) -> bool:
    """Return whether an event is about a call that may be refused, or that did something: the others get no opinion."""
    return event.moment == "before" or (event.moment == "after" and calls_of(event) != [])


async def answer(event: HostEvent, settings: Settings) -> HookAnswer:
    """Return the reply to an event that concerns us. `settings` are those of its workspace."""
    from . import judging  # the toolbox, which most of the time goes into

    return await judging.answer(event, settings)
