"""What the web tools share: the guard, who has a say in redirects, how untrusted text is marked."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..boundary.network.exchange import Hop
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.verdict import Judgement

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.network.url import Target

USER_AGENT = "Mozilla/5.0 (compatible; Toolcrib/0.1; +https://github.com/toolcrib/toolcrib)"

Gate = Callable[[str, Mapping[str, Any], ToolContext], Judgement | None]
"""What policy says of a call with other arguments: asked for each address that a request is redirected to."""

_KEY = secrets.token_bytes(16)
_SIGNS = "◆◇●○■□▲△"  # no letters: whoever counts or looks for words does not find them here


@dataclass(frozen=True, slots=True)
class OutgoingRequests:
    """How requests go out. `gate` None: only the guard judges redirects."""

    guard: Callable[[], AddressGuard]
    gate: Gate | None = None
    user_agent: str = USER_AGENT

    def hop(self, tool: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Hop:
        """Holds each address after the first against the rules, as if it had been called with that address."""
        seen: list[Target] = []

        def judge(target: Target) -> None:
            seen.append(target)
            if len(seen) == 1 or self.gate is None:
                return
            found = self.gate(tool, {**arguments, "url": target.url}, ctx)
            if found is None or found.verdict == "allow":
                return
            if found.verdict == "deny":
                raise ToolError(f"{seen[-2].authority} redirects to {target.url}, which is denied: {found.reason}")
            if target.host != seen[0].host:
                raise ToolError(
                    f"{seen[-2].authority} redirects to {target.url}, which is asked about first ({found.reason}); "
                    f"call {tool} with that address"
                )

        return judge


def mark(text: str) -> str:
    """A mark around a text from outside that the text cannot hold: made of it and of a key of this process.

    The same text gets the same mark, so that a repeated call gives a repeated result.
    """
    digest = hmac.digest(_KEY, text.encode("utf-8", "surrogatepass"), "sha256")
    return f"⟦{''.join(_SIGNS[byte % len(_SIGNS)] for byte in digest[:12])}⟧"
