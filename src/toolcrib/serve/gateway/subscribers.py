"""Pass notifications of servers on to client sessions and streams: subscribed resources, and logs from a level on.

Notifications are separate for each session, arrive in order, and wait in an `Outbox` of limited size.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, LoggingMessageNotification

from ...core.caller import Caller
from ...core.errors import ToolError
from ...sources.mcp.relay import ContentChanged, Event, ResourceChanged, ServerLogged, ServerNotified
from ...sources.mcp.servers import McpServers
from ..calls import CallHandler
from ..outbox import Outbox
from ..peer import LEVELS, Peer, wants
from ..sanitize import sanitize_model
from ..transport_state import HandshakeSession, TransportState
from .catalogue import Catalogue, ContentPlace

log = logging.getLogger("toolcrib.serve")

RESOURCE_NOT_FOUND = -32002
"""The handshake era's error code for an unknown resource. Later revisions use INVALID_PARAMS."""
MAX_WATCHED = 1_000
"""How many resources one session or stream may listen for."""
MAX_ADDRESS = 8_192
"""The longest address that is kept, in characters. It may be made from a template that any text fits."""


class Subscribers:
    """The sessions and streams of one of our MCP servers."""

    def __init__(self, servers: McpServers, catalogue: Catalogue, calls: CallHandler) -> None:
        self._servers, self._catalogue, self._calls = servers, catalogue, calls
        self._level = LEVELS[0]
        self._sessions: dict[HandshakeSession, dict[str, ContentPlace]] = {}
        """Those of the handshake era, with the resources that each listens for, by the addresses it knows."""
        self._streams: dict[TransportState, Outbox] = {}
        self.watched: dict[tuple[str, str], Counter[str]] = {}
        """By server and its own address: how many listeners each shown address has."""

    # --- transports and sessions

    async def listen(self, transport: TransportState) -> Callable[[], None]:
        """Pass unsolicited notifications of servers on to the sessions and streams of a transport.

        Returns a function that stops this.
        """

        def heard(event: Event) -> None:
            transport.loop.call_soon_threadsafe(self._tell, transport, event)

        self._streams[transport] = Outbox(transport.spawn)
        end = await self._servers.pass_on(heard, self._catalogue.note)

        def stop() -> None:
            end()
            self._streams.pop(transport, None)

        return stop

    def begin(self, transport: TransportState, session: HandshakeSession) -> None:
        """Add a session of the handshake era."""
        self._sessions[session] = {}
        if self._level != LEVELS[0]:
            transport.spawn(self._tell_level())

    def forget(self, transport: TransportState, session: HandshakeSession) -> None:
        """Remove a session of the handshake era."""
        if watched := self._sessions.pop(session, None):
            transport.spawn(self._unwatch(watched))

    # --- subscriptions

    async def subscribe(self, session: HandshakeSession | None, uri: str, who: Peer) -> None:
        """Handle `resources/subscribe`.

        Raises MCPError if there is no session, too many resources or no such resource, or if the server fails.
        """
        watched = self._sessions.get(session) if session is not None else None
        if watched is None:
            raise MCPError(INVALID_REQUEST, "there is no session for notifications")
        if uri not in watched:
            if len(watched) >= MAX_WATCHED:
                raise MCPError(INVALID_REQUEST, f"a session may listen for {MAX_WATCHED:,} resources")
            place = await self._watch(uri, who)
            if uri in watched or session not in self._sessions:
                await self._unwatch({uri: place})  # another request was quicker, or the session is over
            else:
                watched[uri] = place

    async def unsubscribe(self, session: HandshakeSession | None, uri: str) -> None:
        """Handle `resources/unsubscribe`."""
        watched = self._sessions.get(session, {}) if session is not None else {}
        if uri in watched:
            await self._unwatch({uri: watched.pop(uri)})

    @asynccontextmanager
    async def watching(self, transport: TransportState, who: Peer, uris: Iterable[str]) -> AsyncGenerator[list[str]]:
        """Watch these resources while a 2026-07-28 stream listens. Yields those that this client may read."""
        watched: dict[str, ContentPlace] = {}
        for uri in islice(dict.fromkeys(uris), MAX_WATCHED):
            try:
                watched[uri] = await self._watch(uri, who)
            except MCPError as error:
                log.debug("%s is not watched: %s", uri, error)
        try:
            yield list(watched)
        finally:
            if watched:
                transport.spawn(self._unwatch(watched))

    async def _watch(self, uri: str, who: Peer) -> ContentPlace:
        if len(uri) > MAX_ADDRESS:
            raise MCPError(INVALID_REQUEST, f"the address has more than {MAX_ADDRESS:,} characters")
        place = await self._catalogue.at(uri, who)
        if place is None:
            raise MCPError(RESOURCE_NOT_FOUND, f"Resource not found: {uri}", {"uri": uri})
        if not await self._calls.would_run(who, place.tool.name, {"uri": place.own}):
            raise MCPError(
                INVALID_REQUEST, f"reading {uri} is denied or asks a person, so its changes are not announced"
            )
        server = place.server
        try:
            await server.run(lambda: server.subscriptions.add(place.own, who))
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, self._calls.redact(str(error))) from error
        except MCPError as error:
            raise self._calls.shown_error(error) from error
        self.watched.setdefault((server.name, place.own), Counter())[uri] += 1
        return place

    async def _unwatch(self, places: Mapping[str, ContentPlace]) -> None:
        for uri, place in places.items():
            key = (place.server.name, place.own)
            shown = self.watched[key]
            shown[uri] -= 1
            if not shown[uri]:
                del shown[uri]
            if not shown:
                del self.watched[key]
            with contextlib.suppress(MCPError, ToolError):
                await place.server.run(partial(place.server.subscriptions.remove, place.own))

    # --- logs

    async def set_level(self, session: HandshakeSession, level: str) -> None:
        """Handle `logging/setLevel` of the handshake era: servers send the lowest level that any session wants."""
        session.level = level
        await self._tell_level()

    async def _tell_level(self) -> None:
        """Ask servers for the lowest level that any session wants. A session without a level wants everything."""
        levels = [each.level or LEVELS[0] for each in self._sessions]
        wanted = min(levels, key=LEVELS.index, default=LEVELS[0])
        if wanted != self._level:
            self._level = wanted
            await self._servers.log_level(wanted)

    # --- notifications of servers

    def _tell(self, transport: TransportState, event: Event) -> None:
        """Queue a notification for the sessions and streams that it concerns."""
        streams = self._streams.get(transport)
        if streams is None:
            return
        sessions = [each for each in transport.sessions.values() if each in self._sessions]
        match event:
            case ContentChanged(_, kind):
                self._catalogue.stale()
                resources = kind == "resources"
                changed = ResourcesListChanged() if resources else PromptsListChanged()
                streams.put(("list", kind), partial(transport.bus.publish, changed))
                for each in sessions:
                    to = each.session
                    send = to.send_resource_list_changed if resources else to.send_prompt_list_changed
                    each.outbox.put(("list", kind), send)
            case ResourceChanged(server, own):
                for uri in tuple(self.watched.get((server, own), ())):
                    streams.put(uri, partial(transport.bus.publish, ResourceUpdated(uri)))
                    for each in sessions:
                        place = self._sessions[each].get(uri)
                        if place is not None and place.server.name == server:
                            each.outbox.put(uri, partial(each.session.send_resource_updated, uri))
            case ServerLogged(server, params):
                wanting = [each for each in sessions if wants(each.level or LEVELS[0], params.level)]
                wanting = [each for each in wanting if self._is_for(server, each.caller)]
                if wanting:
                    said = sanitize_model(params, self._calls.redact)
                    _send(wanting, LoggingMessageNotification(params=said))
            case ServerNotified(server, notification):
                shown = sanitize_model(notification, self._calls.redact)
                _send([each for each in sessions if self._is_for(server, each.caller)], shown)

    def _is_for(self, server: str, caller: Caller | None) -> bool:
        """Return whether a caller may use a server: at least one of its tools."""
        hides = self._calls.registry.stages.hides
        return caller is None or any(not hides(tool, caller) for tool in self._servers.registered.of(server))


def _send(sessions: Iterable[HandshakeSession], note: Any) -> None:
    for each in sessions:
        each.outbox.put(None, partial(each.session.send_notification, note))
