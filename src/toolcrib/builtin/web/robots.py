"""Checks whether robots.txt allows us to fetch a page. By RFC 9309, the longest matching rule of our group decides."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ...boundary.network.exchange import ExchangeLimits, WebRequest, exchange
from ...core.errors import AddressRefused, ToolError
from ...core.recent import Recent
from ...core.text import wildcard

if TYPE_CHECKING:
    from ...boundary.network.url import Target
    from ..outgoing import OutgoingRequests

AGENT = "toolcrib"
MAX_BYTES = 500 * 1024  # RFC 9309 §2.5: a reader must read at least this many
SECONDS = 10.0
KEEP_SECONDS = 3600.0
MAX_SITES = 256
MAX_RULES = 5_000


Rule = tuple[str, bool]
"""A path with `*` and `$`, and whether it is allowed. The longest rule wins; of equal ones, the one that allows."""


class Robots:
    """Stores the robots.txt of each site for an hour."""

    def __init__(self, outgoing: OutgoingRequests) -> None:
        self._outgoing = outgoing
        self._known = Recent[str, tuple[float, list[Rule]]](MAX_SITES)

    async def ask(self, target: Target) -> None:
        """Check a page. Raises ToolError if the site forbids robots to fetch it, or if robots.txt cannot be read."""
        site = f"{target.scheme}://{target.authority}"
        known = self._known.get(site)
        if known is None or known[0] < time.monotonic():
            known = (time.monotonic() + KEEP_SECONDS, await self._rules(site))
            self._known[site] = known
        if not allowed(known[1], target.path):
            raise ToolError(
                f"{site}/robots.txt asks robots not to fetch {target.path[:200]}; web.fetch.robots says to obey"
            )

    async def _rules(self, site: str) -> list[Rule]:
        request = WebRequest("GET", f"{site}/robots.txt", {"User-Agent": self._outgoing.user_agent})
        try:
            answer = await exchange(self._outgoing.guard(), request, ExchangeLimits(MAX_BYTES, SECONDS, tries=1))
            if answer.status >= 500:  # RFC 9309 §2.3.1.4: in this case everything is disallowed
                raise ToolError(f"status {answer.status}")
        except AddressRefused:
            raise
        except ToolError as error:
            raise ToolError(f"{site}/robots.txt could not be read, so nothing is fetched there: {error}") from None
        if answer.status >= 400:
            return []
        return parse(answer.body.decode("utf-8", "replace"))


def parse(text: str, agent: str = AGENT) -> list[Rule]:
    """Return the rules for one robot: those of the groups that name it, else those of the groups for `*`."""
    groups: dict[str, list[Rule]] = {}
    current: list[str] = []
    in_rules = False
    for line in text.removeprefix("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            if in_rules:
                current, in_rules = [], False
            name = re.match(r"[a-zA-Z_-]*|\*", value)
            current.append("*" if value.startswith("*") else name[0].lower() if name else "")
            groups.setdefault(current[-1], [])
        elif key in ("allow", "disallow"):
            in_rules = True
            if value:
                for name in current:
                    if len(groups[name]) < MAX_RULES:
                        groups[name].append((value, key == "allow"))
    return groups.get(agent, groups.get("*", []))


def allowed(rules: list[Rule], path: str) -> bool:
    """Return whether a path (with its query) may be fetched. /robots.txt may always be fetched."""
    if path == "/robots.txt":
        return True
    return max(((len(pattern), allow) for pattern, allow in rules if fits(pattern, path)), default=(0, True))[1]


def fits(pattern: str, path: str) -> bool:
    """Return whether a path begins with the pattern. `*` matches anything, a final `$` the end. Takes linear time."""
    path, pattern = unquote(path), unquote(pattern)
    open_end = "" if pattern.endswith("$") else "*"
    return wildcard(f"{pattern.removesuffix('$')}{open_end}".split("*"), path)
