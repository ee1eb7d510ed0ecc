"""The resources and prompts of all servers, under names that no two share, and the server that each belongs to.

An address is passed on as it is: results name it, too. Where two servers offer the same, the later one's is
`mcp+SERVER:ADDRESS`, which is understood whether or not it is needed. Prompts have the prefix of their server's tools.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from ...sources.mcp.extras import extra_names
from ...sources.mcp.names import tool_name
from ...sources.mcp.relay import ContentChanged
from .server_content import ContentSource, Json, ServerContent
from .single_flight import SingleFlight

if TYPE_CHECKING:
    from ...core.tool import Tool
    from ...sources.mcp import McpServers
    from ...sources.mcp.downstream import Downstream
    from ...sources.mcp.upstream import Upstream

MAX_SEEN = 10_000
"""How many addresses of results are remembered."""
MAX_ADDRESS = 8_192
"""Characters of an address of a result that is remembered."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")
_NAMED = re.compile(r"mcp\+([a-z0-9.+-]+):(.*)", re.DOTALL | re.IGNORECASE)

Kind = Literal["resources", "prompts"]
KINDS: tuple[Kind, ...] = ("resources", "prompts")


@dataclass(frozen=True, slots=True)
class ContentPlace:
    """Where something is: its server, the server's own name for it, and the tool of ours that reaches it."""

    server: Upstream
    own: str
    tool: Tool


def _table() -> dict[str, tuple[Upstream, str, Json]]:
    return {}


@dataclass(slots=True)
class _Lists:
    """What was listed last: by shown name, whose it is and the entry as it is shown."""

    resources: dict[str, tuple[Upstream, str, Json]] = field(default_factory=_table)
    templates: dict[str, tuple[Upstream, str, Json]] = field(default_factory=_table)
    prompts: dict[str, tuple[Upstream, str, Json]] = field(default_factory=_table)


class Catalogue:
    """The content of all servers. `hides` says that a tool of ours is denied: what only it reaches is not listed."""

    def __init__(self, servers: McpServers, hides: Callable[[Tool], bool] = lambda tool: False) -> None:
        self._servers, self._hides = servers, hides
        self._lists = _Lists()
        self._listed = False
        self._asking: SingleFlight[_Lists] = SingleFlight()
        self._sources: dict[Upstream, ContentSource] = {}
        self._seen: OrderedDict[str, str] = OrderedDict()
        """Addresses of results, and the server that named each."""

    # --- lists

    async def resources(self, who: Downstream | None = None) -> list[Json]:
        """All resources, as they travel."""
        return [entry for _, _, entry in (await self._refreshed(who)).resources.values()]

    async def templates(self, who: Downstream | None = None) -> list[Json]:
        """All templates of addresses."""
        return [entry for _, _, entry in (await self._refreshed(who)).templates.values()]

    async def prompts(self, who: Downstream | None = None) -> list[Json]:
        """All prompts."""
        return [entry for _, _, entry in (await self._refreshed(who)).prompts.values()]

    async def _refreshed(self, who: Downstream | None) -> _Lists:
        """The lists now."""
        return await self._asking.get(lambda: self._ask(who))

    async def _ask(self, who: Downstream | None) -> _Lists:
        servers = [
            each for each in self._servers.enabled if self._tool_of(each, "resources") or self._tool_of(each, "prompts")
        ]
        contents = await asyncio.gather(*(self._source(server).get(who) for server in servers))
        self._lists = lists = _Lists()
        self._listed = True
        for server, content in zip(servers, contents, strict=True):
            self._take(lists, server, content)
        return lists

    def _source(self, server: Upstream) -> ContentSource:
        if server not in self._sources:
            self._sources[server] = ContentSource(server, partial(self._came_late, server.name))
        return self._sources[server]

    def _came_late(self, server: str) -> None:
        """Clients hear of content that came too late for their lists."""
        for kind in KINDS:
            self._servers.relay.tell(ContentChanged(server, kind))

    def _tool_of(self, server: Upstream, kind: Kind) -> Tool | None:
        """The tool of ours that reaches a server's resources or prompts; None where it is switched off, or denied."""
        for name in extra_names(kind):
            tool = self._servers.registered.get(server.name, name)
            if tool is not None and tool.listed.kind == kind:
                return None if self._hides(tool) else tool
        return None

    def _take(self, lists: _Lists, server: Upstream, content: ServerContent) -> None:
        if self._tool_of(server, "resources") is not None:
            name = self._names()[server]
            _put(lists.resources, server, name, content.resources, "uri")
            _put(lists.templates, server, name, content.templates, "uriTemplate")
        if self._tool_of(server, "prompts") is not None:
            for entry in content.prompts:
                own = str(entry["name"])
                shown = plain = shown_prompt(server, own)
                number = 2
                while shown in lists.prompts:
                    shown, number = f"{plain}_{number}", number + 1
                lists.prompts[shown] = (server, own, {**entry, "name": shown})

    def stale(self) -> None:
        """Some list has changed: ask before the next answer."""
        self._listed = False

    # --- whose is it

    def note(self, server: str, uri: str) -> str:
        """A result of this server named an address: what clients know it by. It is the server's from now on, if it is
        nobody else's: no server takes an address over from another."""
        if len(uri) > MAX_ADDRESS or _NAMED.fullmatch(uri):
            return uri
        listed = self._lists.resources.get(uri)
        owner = listed[0].name if listed is not None else self._seen.setdefault(uri, server)
        if owner != server:
            name = next((name for each, name in self._names().items() if each.name == server), "")
            return f"mcp+{name}:{uri}"
        if listed is None:
            self._seen.move_to_end(uri)
            if len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
        return uri

    async def at(self, uri: str, who: Downstream | None = None) -> ContentPlace | None:
        """Whose address it is: of those that list it, that named it, whose template it fits, or the only one that has
        addresses of its kind. None where there is no such server, or several."""
        named = _NAMED.fullmatch(uri)
        if named is not None:
            server = next((each for each, name in self._names().items() if name == named[1].lower()), None)
            if server is not None:
                return self._place(server, named[2])
        lists = self._lists if self._listed else await self._refreshed(who)
        found = lists.resources.get(uri)
        if found is None and uri not in self._seen:
            found = _fitting(lists.templates, uri)
        if found is None and uri in self._seen:
            owner = next((each for each in self._servers.enabled if each.name == self._seen[uri]), None)
            return self._place(owner, uri) if owner is not None else None
        if found is not None:
            return self._place(found[0], uri)
        return self._alone(lists, uri)

    def _alone(self, lists: _Lists, uri: str) -> ContentPlace | None:
        having = [each for each in self._servers.enabled if self._tool_of(each, "resources") is not None]
        if len(having) > 1:
            scheme = uri.split(":", 1)[0].lower()
            known = {
                id(server)
                for table in (lists.resources, lists.templates)
                for server, own, _ in table.values()
                if own.split(":", 1)[0].lower() == scheme
            }
            having = [each for each in having if id(each) in known]
        return self._place(having[0], uri) if len(having) == 1 else None

    async def template(self, template: str, who: Downstream | None = None) -> ContentPlace | None:
        """Whose template it is; an address will do, too."""
        lists = self._lists if self._listed else await self._refreshed(who)
        found = lists.templates.get(template)
        return self._place(found[0], found[1]) if found is not None else await self.at(template, who)

    async def prompt(self, shown: str, who: Downstream | None = None) -> ContentPlace | None:
        """Whose prompt it is."""
        found = self._lists.prompts.get(shown) if self._listed else None
        if found is None:  # the list may be old
            found = (await self._refreshed(who)).prompts.get(shown)
        if found is not None:
            tool = self._tool_of(found[0], "prompts")
            return ContentPlace(found[0], found[1], tool) if tool is not None else None
        # one that is not listed: of the only server whose prompts begin like this
        places: list[ContentPlace] = []
        for server in self._servers.enabled:
            prefix, tool = server.config.prefix, self._tool_of(server, "prompts")
            if prefix is not None and tool is not None and shown.startswith(prefix):
                places.append(ContentPlace(server, shown[len(prefix) :], tool))
        return places[0] if len(places) == 1 else None

    def _names(self) -> dict[Upstream, str]:
        """What each server is called in an address: no two the same."""
        names: dict[Upstream, str] = {}
        taken: set[str] = set()
        for server in self._servers.enabled:
            name = plain = address_name(server)
            number = 1
            while name in taken:
                number += 1
                name = f"{plain}-{number}"
            taken.add(name)
            names[server] = name
        return names

    def _place(self, server: Upstream, own: str) -> ContentPlace | None:
        tool = self._tool_of(server, "resources")
        return ContentPlace(server, own, tool) if tool is not None else None


def _put(
    table: dict[str, tuple[Upstream, str, Json]], server: Upstream, name: str, entries: Iterable[Json], key: str
) -> None:
    for entry in entries:
        own = shown = str(entry[key])
        if shown in table:
            if table[shown][0] is server:
                continue  # twice on its own list
            shown = f"mcp+{name}:{own}"
        table[shown] = (server, own, {**entry, key: shown} if shown != own else entry)


def address_name(server: Upstream) -> str:
    """A server's name in the form that an address has."""
    return re.sub(r"[^a-z0-9.-]", "-", server.name.lower())


def shown_prompt(server: Upstream, own: str) -> str:
    """The name of a prompt: with the prefix of its server's tools."""
    prefix = server.config.prefix
    return f"{prefix}{own}" if prefix is not None else tool_name(server.name, own, None)


def _fitting(table: dict[str, tuple[Upstream, str, Json]], uri: str) -> tuple[Upstream, str, Json] | None:
    """The template that an address fits; of several the one with most text of its own."""
    best: tuple[int, tuple[Upstream, str, Json]] | None = None
    for entry in table.values():
        literal = _EXPRESSION.split(entry[1])
        if not fits(uri, literal):
            continue
        weight = sum(map(len, literal))
        if best is None or weight > best[0]:
            best = (weight, entry)
    return best[1] if best is not None else None


def fits(uri: str, literal: list[str]) -> bool:
    """Whether an address has these texts in this order, from its beginning to its end: in time linear in its length,
    whatever the template."""
    if len(literal) == 1:
        return uri == literal[0]
    if not uri.startswith(literal[0]):
        return False
    at = len(literal[0])
    for text in literal[1:-1]:
        found = uri.find(text, at)
        if found < 0:
            return False
        at = found + len(text)
    return len(uri) - at >= len(literal[-1]) and uri.endswith(literal[-1])
