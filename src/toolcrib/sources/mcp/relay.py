"""Whether a toolbox passes on what its servers say beside answers, and to whom: a gateway listens here.

Without a listener nothing is passed on, and servers are not told that anybody behind us can do more than we can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import mcp_types

    from .upstream import Upstream


@dataclass(frozen=True, slots=True)
class Changed:
    """A server's list of resources or prompts has changed."""

    server: Upstream
    kind: Literal["resources", "prompts"]


@dataclass(frozen=True, slots=True)
class Updated:
    """A resource that was subscribed to has changed; `uri` is the server's own."""

    server: Upstream
    uri: str


@dataclass(frozen=True, slots=True)
class Logged:
    """A log message that belongs to no call, or nobody knows to which."""

    server: Upstream
    params: mcp_types.LoggingMessageNotificationParams


@dataclass(frozen=True, slots=True)
class Told:
    """Another notification for whoever it concerns."""

    server: Upstream
    notification: Any


Event = Changed | Updated | Logged | Told
Listener = Callable[[Event], None]


@dataclass(slots=True)
class Relay:
    """The listeners, called on the loop of the server that speaks; `seen` hears of addresses in results, and says what
    clients know them by."""

    listeners: list[Listener] = field(default_factory=list[Listener])
    seen: Callable[[Upstream, str], str] | None = None

    @property
    def on(self) -> bool:
        """Whether anything is passed on."""
        return bool(self.listeners)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Be told of everything; what is returned ends that."""
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def changed(self, server: Upstream, kind: Literal["resources", "prompts"]) -> None:
        """A list has changed."""
        self._tell(Changed(server, kind))

    def updated(self, server: Upstream, uri: str) -> None:
        """A resource has changed."""
        self._tell(Updated(server, uri))

    def logged(self, server: Upstream, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """A server logs."""
        self._tell(Logged(server, params))

    def told(self, server: Upstream, notification: Any) -> None:
        """A server tells something else."""
        self._tell(Told(server, notification))

    def _tell(self, event: Event) -> None:
        for listener in tuple(self.listeners):
            listener(event)
