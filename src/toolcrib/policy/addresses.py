"""Judge whether a tool may be called with a URL, for tools whose arguments contain the address of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..core.dataclass import dataclass
from ..core.errors import AddressRefused
from ..core.verdict import Judgement

if TYPE_CHECKING:
    from ..boundary.network.address_guard import AddressGuard
    from ..core.context import ToolContext

RULE_ALLOWED_DOMAIN = "web.allowed_domains"

# The web tools that `check --bare` can judge by their address alone, whether they are built or not: name -> category.
WEB_TOOLS = {"web_fetch": "network_read", "http_request": "network_write", "browser_open": "network_read"}


@dataclass(frozen=True)
class UrlJudge:
    """A `Tool.judge` for tools with URLs in their arguments: `judge=UrlJudge(guard)`, or `judge=judge_url`.

    Returns deny for an address that the guard refuses, and allow with the rule `web.allowed_domains` if every URL is in
    an allowed domain; otherwise None. It resolves no names, because it runs on the event loop: the addresses of a name
    are judged when the connection is made. `look_up` resolves the names before, for callers that want the complete
    answer without a request (`toolcrib check`).

    From the context's `metadata` it reads `resolve` (names to lists of addresses) and `bare` (judge without any grant).
    """

    guard: AddressGuard | Callable[[], AddressGuard] | None = None
    arguments: Sequence[str] = ("url",)

    def __call__(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        guard, urls = self._guard_for(ctx), self._urls(arguments)
        try:
            judgements = self._known(arguments, ctx)
        except AddressRefused as error:
            return Judgement("deny", str(error), error.rule)
        for judgement in judgements:
            if judgement is not None and judgement.verdict == "deny":
                return judgement
        if urls and guard.settings.allowed_domains and all(guard.allowed_domain(guard.target(u).host) for u in urls):
            return Judgement("allow", "its domain is one of web.allowed_domains", RULE_ALLOWED_DOMAIN)
        return None

    def wants_lookup(self, arguments: Mapping[str, Any], ctx: ToolContext) -> bool:
        """Return whether `look_up` would answer something that the judgement leaves open."""
        try:
            return None in self._known(arguments, ctx)
        except AddressRefused:
            return False

    def _known(self, arguments: Mapping[str, Any], ctx: ToolContext) -> list[Judgement | None]:
        """Return the guard's judgement of each URL; None if it depends on a name that is not resolved. Raises
        AddressRefused for wrong pins."""
        from ..boundary.network.address_guard import pinned

        guard, answers = self._guard_for(ctx), pinned(ctx.metadata.get("resolve") or {})
        return [guard.judge_known(url, answers) for url in self._urls(arguments)]

    async def look_up(self, arguments: Mapping[str, Any], ctx: ToolContext) -> ToolContext:
        """Return the context with the addresses of all names. A name without an address after 2 s gets none, and is
        refused."""
        try:
            found = await self._guard_for(ctx).answers(self._urls(arguments), ctx.metadata.get("resolve"))
        except AddressRefused:  # wrong pins: the judgement reports them
            return ctx
        plain = {name: [str(address) for address in addresses] for name, addresses in found.items()}
        return replace(ctx, metadata={**ctx.metadata, "resolve": plain})

    def _guard_for(self, ctx: ToolContext) -> AddressGuard:
        from ..boundary.network.address_guard import AddressGuard

        if self.guard is None or ctx.metadata.get("bare"):
            return AddressGuard()
        return self.guard() if callable(self.guard) else self.guard

    def _urls(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return every URL in the arguments: a text, or a list of texts."""
        found: list[str] = []
        for name in self.arguments:
            value: Any = arguments.get(name)
            if isinstance(value, str):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in cast("list[Any]", value) if isinstance(each, str)]
        return found


judge_url = UrlJudge()
