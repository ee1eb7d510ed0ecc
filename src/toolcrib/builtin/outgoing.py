"""The shared parts of the web tools: the guard, the checks of redirects, and the marks around untrusted text."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from ..boundary.network.exchange import Hop
from ..boundary.network.url import DEFAULT_PORTS, scheme_of
from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.extras import how_to_add
from ..core.threads import shared_threads
from ..core.verdict import Judgement

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..boundary.network.url import Target

USER_AGENT = "Mozilla/5.0 (compatible; Toolcrib/0.1; +https://github.com/toolcrib/toolcrib)"

Gate = Callable[[str, Mapping[str, Any], ToolContext], Judgement | None]
"""Returns the policy's judgement of a call with other arguments. It is asked for each address of a redirect."""

Resolve = Callable[..., str]
"""`resolve(text=…, asker=…)` replaces each `${secret:NAME}` with the granted secret. Raises ToolError."""


def _bare(url: str) -> str:
    scheme = scheme_of(url)
    slashes = scheme not in DEFAULT_PORTS or url.startswith("//", len(scheme) + 1)
    if scheme is None or not slashes or url[-1].isspace():
        raise ValueError("the URL should begin with https://, as in https://example.com/page, with nothing around it")
    return url


Url = Annotated[str, AfterValidator(_bare), Field(json_schema_extra={"format": "uri"})]
"""A URL as the argument of a tool. One in quotes, brackets or blanks does not fit: then `core/coerce` unwraps it."""

_KEY = secrets.token_bytes(16)
_SIGNS = "◆◇●○■□▲△"  # not letters: so a count or search of words does not find them


@dataclass(frozen=True, slots=True)
class OutgoingRequests:
    """The way in which requests are sent. If `gate` is None, only the guard judges redirects. Without `resolve`,
    no request can have secrets."""

    guard: Callable[[], AddressGuard]
    gate: Gate | None = None
    user_agent: str = USER_AGENT
    resolve: Resolve | None = None

    async def with_secrets(self, text: str, asker: str) -> str:
        """Return a text with its secrets in place. A thread reads them, because a program may give one."""
        if self.resolve is None:
            raise ToolError("no secrets are granted here; the configuration grants them, as [secrets.NAME]")
        return await shared_threads.run(self.resolve, text, asker)

    def hop(self, tool: str, arguments: Mapping[str, Any], ctx: ToolContext) -> Hop:
        """Return a check that judges each address after the first by the rules, like a call with that address."""
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
    """Return a mark for a text from outside that the text cannot contain. It is made from the text and a secret key.

    The same text gets the same mark in one process, so that a repeated call gives an equal result.
    """
    digest = hmac.digest(_KEY, text.encode("utf-8", "surrogatepass"), "sha256")
    return f"⟦{''.join(_SIGNS[byte % len(_SIGNS)] for byte in digest[:12])}⟧"


def why_missing(*modules: str, extra: str = "web") -> str | None:
    """Return why tools that need these modules are not available; None if they are. Does not import anything."""
    absent = any(find_spec(name) is None for name in modules)
    return f"needs the extra `{extra}`: {how_to_add(extra)}" if absent else None
