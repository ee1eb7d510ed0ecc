"""Stores what was sent to sessions of the handshake era, so that a client whose stream broke gets the rest.

Each session has a store of its own, so an event id of one session opens nothing in another. All stores of a server
share a limit on their memory: the oldest events of all are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from ...core.text import lazy_regex

MAX_EVENTS = 500
"""The most events that are stored for a session."""
MAX_BYTES = 64 * 2**20
"""The most memory for the events of all sessions, as JSON."""
MAX_EVENT = 2 * 2**20
"""A larger message is not stored: a client that missed it calls again."""
RETRY_MS = 1_000
"""After this time a client opens a broken stream again."""
_NUMBER = lazy_regex("[0-9]{1,18}")
_OVERHEAD = 300
"""About the bytes that an event needs besides its message."""

Entry = tuple[StreamId, str | None]
"""The stream of an event, and its message as JSON; None where there is none, or where it was too large."""


class EventMemory:
    """The memory of all stores of a server. `store()` makes the store of a new session."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._order: OrderedDict[tuple[SessionEvents, int], int] = OrderedDict()
        self.size = 0

    def store(self) -> EventStore:
        """Return an empty store."""
        return SessionEvents(self)

    def add(self, store: SessionEvents, number: int, size: int) -> None:
        """Count an event, and drop the oldest ones if there are too many."""
        self._order[store, number] = size
        self.size += size
        while self.size > self._limit:
            oldest, its = next(iter(self._order))
            oldest.drop(its)

    def removed(self, store: SessionEvents, number: int) -> None:
        """Note that an event is not stored any more."""
        self.size -= self._order.pop((store, number), 0)


class SessionEvents(EventStore):
    """The events of one session, by number."""

    def __init__(self, memory: EventMemory) -> None:
        self._memory = memory
        self._events: OrderedDict[int, Entry] = OrderedDict()
        self._last = 0

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Store an event, and return its id."""
        text = None if message is None else message.model_dump_json(by_alias=True, exclude_unset=True)
        if text is not None and len(text) > MAX_EVENT:
            text = None
        self._last += 1
        self._events[self._last] = stream_id, text
        self._memory.add(self, self._last, len(text or "") + _OVERHEAD)
        if len(self._events) > MAX_EVENTS:
            self.drop(next(iter(self._events)))
        return str(self._last)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        """Send what came after an event of the same stream. None if that event is not stored any more."""
        number = int(last_event_id) if _NUMBER.fullmatch(last_event_id) else 0
        known = self._events.get(number)
        if known is None:
            return None
        stream = known[0]
        missed = [(each, text) for each, (its, text) in self._events.items() if each > number and its == stream]
        for each, text in missed:
            if text is not None:
                await send_callback(EventMessage(jsonrpc_message_adapter.validate_json(text), str(each)))
        return stream

    def drop(self, number: int) -> None:
        """Remove an event."""
        del self._events[number]
        self._memory.removed(self, number)

    def close(self) -> None:
        """Remove all events: the session is over."""
        for number in list(self._events):
            self.drop(number)
