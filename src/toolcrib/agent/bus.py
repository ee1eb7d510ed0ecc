"""The message bus: messages between people and the agent, over channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from ..core.dataclass import dataclass
from ..core.errors import ConfigError, ToolcribError
from ..policy.replies import without_ids

MAX_WAITING = 1_000
"""Messages from people that wait for the agent. A channel waits when there are more."""


class MessageNotSent(ToolcribError):
    """A message could not be sent. The text says why."""


class NotSetUp(MessageNotSent, ConfigError):
    """A message cannot be sent with these settings."""


def not_sent(text: str, error: Exception) -> MessageNotSent:
    """Return what a channel raises where this error kept a message from being sent."""
    return NotSetUp(text) if isinstance(error, ConfigError) else MessageNotSent(text)


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message from a person. `media` are paths of files, `metadata` has the channel's `message_id` if it has one, and
    `forwarded` if the person did not write it."""

    channel: str
    sender_id: str
    chat_id: str
    content: str
    media: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """A message to a chat. `media` are paths of files; `metadata` may have the `message_id` that it replies to. `asked`
    are the requests for approval that it is about: numbers of others are removed from it."""

    channel: str
    chat_id: str
    content: str
    media: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    asked: tuple[str, ...] = ()


Deliver = Callable[[InboundMessage], Awaitable[None]]


class MessageChannel(Protocol):
    """One way to reach people. Sending needs no `listen`: a channel connects at its first message."""

    async def send(self, message: OutboundMessage) -> None:
        """Send a message. Raises MessageNotSent."""

    async def listen(self, deliver: Deliver) -> None:
        """Deliver messages until it is cancelled; return at once if nobody can write through this channel.

        Raises ConfigError if it cannot begin.
        """

    async def aclose(self) -> None:
        """End its processes and connections."""


class MessageBus:
    """Carries messages between the agent and its channels. All methods must be called on one event loop."""

    def __init__(self, channels: Mapping[str, MessageChannel]) -> None:
        self.channels = dict(channels)
        self._inbound: asyncio.Queue[InboundMessage] = asyncio.Queue(MAX_WAITING)
        self._sending = {name: asyncio.Lock() for name in self.channels}

    async def publish_inbound(self, message: InboundMessage) -> None:
        """Put a message from a person on the bus."""
        await self._inbound.put(message)

    async def next_inbound(self) -> InboundMessage:
        """Return the next message from a person."""
        return await self._inbound.get()

    async def publish_outbound(self, message: OutboundMessage) -> None:
        """Send a message through its channel, in the order of the calls. Raises MessageNotSent."""
        channel = self.channels.get(message.channel)
        if channel is None:
            known = ", ".join(sorted(self.channels)) or "none"
            raise NotSetUp(f"there is no channel {message.channel!r}; the settings have: {known}")
        message = replace(message, content=without_ids(message.content, message.asked))
        async with self._sending.setdefault(message.channel, asyncio.Lock()):
            await channel.send(message)

    async def aclose(self) -> None:
        """Close all channels."""
        for channel in self.channels.values():
            await channel.aclose()
