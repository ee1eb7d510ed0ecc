"""Pass notifications of servers on to listeners, such as a gateway.

Without a listener nothing is passed on. Servers then also do not learn that downstream clients may have more
capabilities than we have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ...core.dataclass import dataclass

ListKind = Literal["tools", "resources", "prompts"]


@dataclass(frozen=True, slots=True)
class ContentChanged:
    """A server's list of resources or prompts has changed."""

    server: str
    kind: Literal["resources", "prompts"]


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A subscribed resource has changed. `uri` is the server's own address."""

    server: str
    uri: str


@dataclass(frozen=True, slots=True)
class ServerLogged:
    """A log message that belongs to no call (`LoggingMessageNotificationParams`)."""

    server: str
    params: Any


@dataclass(frozen=True, slots=True)
class ServerNotified:
    """Another notification, for all clients that it concerns."""

    server: str
    notification: Any


Event = ContentChanged | ResourceChanged | ServerLogged | ServerNotified
Listener = Callable[[Event], None]
ShowUri = Callable[[str, str], str]
"""`show(server, uri)` gets an address from a result of this server, and returns the address that clients use for it."""


class Relay:
    """The listeners of all servers of a toolbox. They are called on the loop of the server that sends the event."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, ShowUri | None]] = []
        self.expected = False
        """Whether there will be a listener before any client gets an answer."""

    @property
    def on(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def listen(self, listener: Listener, show_uri: ShowUri | None = None) -> Callable[[], None]:
        """Call `listener` with every event, and let `show_uri` change the addresses in results.

        Returns a function that stops both.
        """
        entry = (listener, show_uri)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    def tell(self, event: Event) -> None:
        """Send an event to all listeners."""
        for listener, _ in tuple(self._listeners):
            listener(event)

    def shown_uri(self, server: str, uri: str) -> str:
        """Return the address that clients use for an address in a result."""
        for _, show in self._listeners:
            uri = show(server, uri) if show is not None else uri
        return uri
