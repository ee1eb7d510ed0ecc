"""The states of a server as tables: which event leads from which state to which. Nothing else decides a state.

A connector changes its state only through CONNECTOR. A server has one connector, or two if clients of both protocol
eras use it. SERVER defines the shown state of the server, from the states of its connectors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

State = Literal["idle", "connecting", "connected", "failed", "closed"]
Event = Literal["connect", "opened", "failed", "cancelled", "lost", "abandon", "close"]
ServerState = Literal["idle", "connecting", "connected", "failed", "disabled"]

CONNECTOR: Mapping[State, Mapping[Event, State]] = {
    # No connection; the next use makes one.
    "idle": {"connect": "connecting", "abandon": "idle", "close": "closed"},
    # A task starts the server and negotiates.
    "connecting": {
        "opened": "connected", "failed": "failed", "cancelled": "idle", "abandon": "idle", "close": "closed",
    },
    # Calls may be tried. "lost": the stream ended, the server forgot the session, or it was not used for long.
    "connected": {"lost": "idle", "abandon": "idle", "close": "closed"},
    # The last attempt failed; the first use after the delay tries again.
    "failed": {"connect": "connecting", "abandon": "failed", "close": "closed"},
    # Permanent. Operations that were running on the loop may still end.
    "closed": {"failed": "closed", "cancelled": "closed", "lost": "closed", "abandon": "closed", "close": "closed"},
}  # fmt: skip
"""The events of a connector.

`connect`: the server is needed. `opened`, `failed`, `cancelled`: an attempt ended this way. `lost`: the connection
is over. `abandon`: the event loop has ended, with everything on it. `close`: the toolbox closes.
"""

SERVER: tuple[Literal["connected", "connecting"], ...] = ("connected", "connecting")
"""The server's state while one of its connectors is in the same state; the first that applies.

Otherwise it is "failed" if the last attempt or listing failed, else "idle".
"""


def next_state(state: State, event: Event) -> State:
    """Return the state after an event. Raises RuntimeError if the event cannot happen in this state."""
    try:
        return CONNECTOR[state][event]
    except KeyError:
        raise RuntimeError(f"an MCP connector that is {state} cannot take the event {event!r}") from None


def server_state(connectors: Collection[State], *, disabled: bool, failed: bool) -> ServerState:
    """Return the shown state of a server with connectors in these states."""
    if disabled:
        return "disabled"
    for state in SERVER:
        if state in connectors:
            return state
    return "failed" if failed else "idle"
