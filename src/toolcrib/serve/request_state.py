"""The `requestState` of the 2026-07-28 protocol: encrypted, and bound to one tool, its arguments, session and expiry.

The client carries it from a question to the retry with the answer, so it is untrusted. The state only names an
approval or a waiting call. Single use is enforced there: the approval is in the record, the waiting call in memory.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Literal

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from ..core.dataclass import dataclass

Kind = Literal["approval", "question"]


class StateRefused(Exception):
    """The request state is not from this server, not for this call, or too late. The text may go to the client."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The content of a state: which approval or waiting question it answers."""

    kind: Kind
    id: str


class RequestStates:
    """Creates and checks request states with one key, of 32 bytes or more."""

    def __init__(self, key: bytes) -> None:
        self._codec = AESGCMRequestStateCodec([key])

    def seal(
        self, kind: Kind, ident: str, *, tool: str, arguments: Mapping[str, Any], session: str, expires: float
    ) -> str:
        """Return the state for a question about this call. `expires` is in Unix seconds."""
        claims = [kind, ident, expires, _binding(tool, arguments, session)]
        return self._codec.seal(json.dumps(claims, separators=(",", ":")).encode())

    def open(self, state: str, *, tool: str, arguments: Mapping[str, Any], session: str) -> Claims:
        """Check a state and return its content. Raises StateRefused if it is not valid for this call."""
        try:
            kind, ident, expires, binding = json.loads(self._codec.unseal(state))
        except InvalidRequestState:
            raise StateRefused("it was not made by this server, or was changed") from None
        if binding != _binding(tool, arguments, session):
            raise StateRefused("it belongs to another tool, other arguments or another session")
        if time.time() >= expires:
            raise StateRefused("it has expired; call the tool again")
        return Claims(kind, ident)


def _binding(tool: str, arguments: Mapping[str, Any], session: str) -> str:
    text = json.dumps([tool, arguments, session], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
