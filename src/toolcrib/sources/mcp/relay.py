"""What servers say besides answers, and who hears it: a gateway listens here.

Without a listener nothing is passed on, and servers do not learn that clients downstream may be able to do more
than we are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ContentChanged:
    """A server's list of resources or prompts has changed."""

    server: str
    kind: Literal["resources", "prompts"]


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A resource that was subscribed to has changed; `uri` is the server's own."""

    server: str
    uri: str


@dataclass(frozen=True, slots=True)
class ServerLogged:
    """A log message that belongs to no call (`LoggingMessageNotificationParams`)."""

    server: str
    params: Any


@dataclass(frozen=True, slots=True)
class ServerNotified:
    """Another notification, for whomever it concerns."""

    server: str
    notification: Any


Event = ContentChanged | ResourceChanged | ServerLogged | ServerNotified
Listener = Callable[[Event], None]
ShowUri = Callable[[str, str], str]
"""`show(server, uri)`: a result of this server named an address; returns the one that clients know it by."""


class Relay:
    """The listeners of all servers of a toolbox. They are called on the loop of the server that speaks."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, ShowUri | None]] = []

    @property
    def on(self) -> bool:
        """Whether somebody listens."""
        return bool(self._listeners)

    def listen(self, listener: Listener, show_uri: ShowUri | None = None) -> Callable[[], None]:
        """Call `listener` with every event, and let `show_uri` change the addresses in results. Returns what ends
        that."""
        entry = (listener, show_uri)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    def tell(self, event: Event) -> None:
        """Pass an event on."""
        for listener, _ in tuple(self._listeners):
            listener(event)

    def shown_uri(self, server: str, uri: str) -> str:
        """The address that clients know an address in a result by."""
        for _, show in self._listeners:
            uri = show(server, uri) if show is not None else uri
        return uri
