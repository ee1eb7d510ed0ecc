"""The resources and prompts of all servers, under unique names, with the server that each belongs to.

An address is passed on unchanged, because results name it too. If two servers offer the same address, in a list or by
a template, the later one's is `mcp+SERVER:ADDRESS`: of who offered it later, else of who comes later in the settings.
That form always works, even if it is not needed. Prompts get the prefix of their server's tools.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Literal, NamedTuple

from ...core.dataclass import dataclass
from ...core.recent import Recent
from ...core.text import lazy_regex, wildcard
from ...core.tool import Tool
from ...sources.mcp.downstream import Downstream
from ...sources.mcp.registered_tools import extra_names
from ...sources.mcp.relay import ContentChanged
from ...sources.mcp.servers import McpServers
from ...sources.mcp.tool_names import free_name, tool_name
from ...sources.mcp.upstream import Upstream
from .server_content import KEYS, ContentSource, Json, ServerContent, SingleFlight, no_content

MAX_SEEN = 10_000
"""How many addresses from results are remembered."""
MAX_ADDRESS = 8_192
"""The longest address from a result that is remembered, in characters."""
MAX_CLAIMS = 500
"""How many templates of a server take addresses."""
MAX_COMPARED = 50
"""How many of them take addresses that others list: each of these is compared with each of them."""
_EXPRESSION = lazy_regex(r"\{[^{}]*\}")
_SCHEME = lazy_regex(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NAMED = lazy_regex(r"mcp\+([a-z0-9.+-]+):(.*)", re.DOTALL | re.IGNORECASE)

Kind = Literal["resources", "prompts"]
KINDS: tuple[Kind, ...] = ("resources", "prompts")


@dataclass(frozen=True, slots=True)
class ContentPlace:
    """The place of a resource or prompt: its server, the server's own name for it, and our tool that reaches it."""

    server: Upstream
    own: str
    tool: Tool


Entry = tuple["Upstream", str, Json]
"""The server, its own name for the content, and the entry as shown."""


Lists = dict[str, dict[str, Entry]]
"""The `resources`, `templates` and `prompts` that were listed last, each by shown name."""


Offer = tuple["Upstream", str, str]
"""What a server lists: the server, in which list, and its own name for it."""


class Claim(NamedTuple):
    """A template that takes addresses. `rank`: the place of its server in the settings; -1 if it was listed before;
    infinite if it takes none that others list."""

    rank: float
    pieces: list[str]


Hides = Callable[[Tool, "Downstream | None"], bool]


def _empty_lists() -> Lists:
    return {what: {} for what in KEYS}


class Catalogue:
    """The content of all servers.

    `hides` says whether policy denies one of our tools to everybody, or to a client; content that only a denied tool
    reaches is not listed, and has no place.
    """

    def __init__(self, servers: McpServers, hides: Hides = lambda tool, who: False) -> None:
        self._servers, self._hides = servers, hides
        self._lists = _empty_lists()
        self._claims: dict[Offer, Claim] = {}
        """The templates that take addresses. The first one that fits an address has it."""
        self._listed = self._asked = False
        self._asking: SingleFlight[Lists] = SingleFlight()
        self._sources: dict[Upstream, ContentSource] = {}
        self._seen = Recent[str, str](MAX_SEEN)
        """Addresses from results, each with the server that named it first."""

    # --- lists

    async def entries(self, what: str, who: Downstream | None = None) -> list[Json]:
        """Return all `resources`, `templates` or `prompts`, as they are sent."""
        kind: Kind = "prompts" if what == "prompts" else "resources"
        listed = (await self._refreshed(who))[what].values()
        shown = {server for server in {server for server, _, _ in listed} if self._tool_of(server, kind, who)}
        return [entry for server, _, entry in listed if server in shown]

    async def _refreshed(self, who: Downstream | None) -> Lists:
        """Return the current lists."""
        return await self._asking.get(lambda: self._ask(who))

    async def _ask(self, who: Downstream | None) -> Lists:
        servers = [
            each for each in self._servers.enabled if self._tool_of(each, "resources") or self._tool_of(each, "prompts")
        ]
        contents = await asyncio.gather(*(self._source(server).get(who) for server in servers))
        self._take(dict(zip(servers, contents, strict=True)))
        self._listed = self._asked = True
        return self._lists

    def _source(self, server: Upstream) -> ContentSource:
        if server not in self._sources:
            self._sources[server] = ContentSource(server, partial(self._came_late, server.name))
        return self._sources[server]

    def _came_late(self, server: str) -> None:
        """Announce content that arrived too late for the clients' lists."""
        for kind in KINDS:
            self._servers.relay.tell(ContentChanged(server, kind))

    def _tool_of(self, server: Upstream, kind: Kind, who: Downstream | None = None) -> Tool | None:
        """Return our tool that reaches a server's resources or prompts; None if it is switched off, or denied to
        everybody or to a client."""
        for name in extra_names(kind):
            tool = self._servers.registered.get(server.name, name)
            if tool is not None and tool.listed.kind == kind:
                return None if self._hides(tool, who) else tool
        return None

    def _take(self, contents: Mapping[Upstream, ServerContent]) -> None:
        """Name what is listed now. What was listed before keeps its name."""
        before, self._lists, names = self._lists, _empty_lists(), self._names()
        listed = [
            (rank, (server, what, str(entry[key])), entry)
            for rank, (server, content) in enumerate(contents.items())
            for what, key in KEYS.items()
            if server in names and self._tool_of(server, "prompts" if what == "prompts" else "resources") is not None
            for entry in content[what]
        ]
        self._claims = _claims(listed, self._claims)
        had = {(server, what, own): shown for what in KEYS for shown, (server, own, _) in before[what].items()}
        shown = {offer: had[offer] for _, offer, _ in listed if offer in had}
        taken = {what: {name for (_, each, _), name in shown.items() if each == what} for what in KEYS}
        for rank, offer, entry in listed:
            server, what, own = offer
            if offer not in shown:
                shown[offer] = self._new_name(rank, names[server], offer, taken[what])
                taken[what].add(shown[offer])
            self._lists[what].setdefault(shown[offer], (server, own, {**entry, KEYS[what]: shown[offer]}))

    def _new_name(self, rank: int, name: str, offer: Offer, taken: Container[str]) -> str:
        server, what, own = offer
        if what == "prompts":
            return free_name(shown_prompt(server, own), taken)
        another = what == "resources" and self._claimed(own, rank) not in (None, server)
        return f"mcp+{name}:{own}" if another or own in taken else own

    def _claimed(self, uri: str, rank: float = math.inf) -> Upstream | None:
        """Return the first server with a template for this address, up to this rank; None if there is none."""
        claims = self._claims.items()
        return next((offer[0] for offer, each in claims if each.rank <= rank and wildcard(each.pieces, uri)), None)

    def stale(self) -> None:
        """Mark the lists as outdated: the servers are asked before the next answer."""
        self._listed = False

    # --- owners of addresses and prompts

    def note(self, server: str, uri: str) -> str:
        """Return the address that clients use for an address in this server's result.

        The address belongs to this server from now on, unless another server has it already: no server takes over
        another's address. That of a page of a server without `trust` is changed, so that clients do not show the page:
        it could call the tools of all servers.
        """
        if len(uri) > MAX_ADDRESS or _NAMED.fullmatch(uri):
            return uri
        if not self._asked:
            self._asked = True
            self._take({each: self._source(each).known or no_content() for each in self._servers.enabled})
        own = next((each for each in self._servers.enabled if each.name == server), None)
        listed = self._lists["resources"].get(uri)
        having = listed[0].name if listed is not None else self._seen.get(uri)
        if having is None:
            claimed = self._claimed(uri)
            having = server if claimed is None else claimed.name
        is_page = uri[:3].lower() == "ui:" and (own is None or own.config.trust == "none")
        if having != server or is_page:
            return f"mcp+{self._names()[own] if own is not None else ''}:{uri}"
        if listed is None:
            self._seen[uri] = server
        return uri

    async def at(self, uri: str, who: Downstream | None = None) -> ContentPlace | None:
        """Return the place of an address; None if no server, or more than one, could have it.

        Checked in this order: a server that lists the address, one that named it, one whose template fits, the only
        one with addresses of this scheme.
        """
        named = _NAMED.fullmatch(uri)
        if named is not None:
            server = next((each for each, name in self._names().items() if name == named[1].lower()), None)
            if server is not None:
                return self._place(server, named[2], who)
        lists = self._lists if self._listed else await self._refreshed(who)
        found = lists["resources"].get(uri)
        if found is not None:
            return self._place(found[0], uri, who)
        if uri in self._seen:
            owner = next((each for each in self._servers.enabled if each.name == self._seen[uri]), None)
            return self._place(owner, uri, who) if owner is not None else None
        fitting = self._claimed(uri)
        return self._place(fitting, uri, who) if fitting is not None else self._alone(lists, uri, who)

    def _alone(self, lists: Lists, uri: str, who: Downstream | None) -> ContentPlace | None:
        having = [each for each in self._servers.enabled if self._tool_of(each, "resources") is not None]
        if len(having) > 1:
            scheme = uri.split(":", 1)[0].lower()
            known = {
                id(server)
                for table in (lists["resources"], lists["templates"])
                for server, own, _ in table.values()
                if own.split(":", 1)[0].lower() == scheme
            }
            having = [each for each in having if id(each) in known]
        return self._place(having[0], uri, who) if len(having) == 1 else None

    async def template(self, template: str, who: Downstream | None = None) -> ContentPlace | None:
        """Return the place of a template; an address works too."""
        lists = self._lists if self._listed else await self._refreshed(who)
        found = lists["templates"].get(template)
        return self._place(found[0], found[1], who) if found is not None else await self.at(template, who)

    async def prompt(self, shown: str, who: Downstream | None = None) -> ContentPlace | None:
        """Return the place of a prompt."""
        found = self._lists["prompts"].get(shown) if self._listed else None
        if found is None:  # the list may be old
            found = (await self._refreshed(who))["prompts"].get(shown)
        if found is not None:
            tool = self._tool_of(found[0], "prompts", who)
            return ContentPlace(found[0], found[1], tool) if tool is not None else None
        # a prompt that is not listed: it belongs to the only server with this prefix
        places: list[ContentPlace] = []
        for server in self._servers.enabled:
            prefix, tool = server.config.prefix, self._tool_of(server, "prompts", who)
            if prefix is not None and tool is not None and shown.startswith(prefix):
                places.append(ContentPlace(server, shown[len(prefix) :], tool))
        return places[0] if len(places) == 1 else None

    def _names(self) -> dict[Upstream, str]:
        """Return a unique name for each server, for use in addresses."""
        names: dict[str, Upstream] = {}
        for server in self._servers.enabled:
            plain = re.sub(r"[^a-z0-9.-]", "-", server.name.lower())
            names[free_name(plain, names, "-")] = server
        return {server: name for name, server in names.items()}

    def _place(self, server: Upstream, own: str, who: Downstream | None) -> ContentPlace | None:
        tool = self._tool_of(server, "resources", who)
        return ContentPlace(server, own, tool) if tool is not None else None


def shown_prompt(server: Upstream, own: str) -> str:
    """Return the shown name of a prompt: its own name with the prefix of its server's tools."""
    prefix = server.config.prefix
    return f"{prefix}{own}" if prefix is not None else tool_name(server.name, own, None)


def _claims(listed: Iterable[tuple[int, Offer, Json]], before: Mapping[Offer, Claim]) -> dict[Offer, Claim]:
    """Return the templates that take addresses, those of before first. One without its scheme at the start (`{+any}`)
    takes none: it would take those of all servers."""
    found: dict[Offer, Claim] = {}
    count = Counter[Upstream]()
    for rank, offer, _ in listed:
        pieces = _EXPRESSION.split(offer[2])
        if offer[1] == "templates" and _SCHEME.match(pieces[0]) and count[offer[0]] < MAX_CLAIMS:
            count[offer[0]] += 1
            place = -1 if offer in before else rank
            found[offer] = Claim(place if count[offer[0]] <= MAX_COMPARED else math.inf, pieces)
    kept = {offer: found.pop(offer) for offer in before if offer in found}
    return {**kept, **found}
