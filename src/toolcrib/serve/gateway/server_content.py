"""The content of a server other than tools: resources, address templates and prompts, in wire form.

It is fetched when a client wants it, and stored on disk. It is fetched again whenever the server is already
connected. So a client that reads a list does not start a server that was asked before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from ...core.errors import ToolError
from ...sources.mcp.downstream import Downstream
from ...sources.mcp.fetch_lists import list_all
from ...sources.mcp.fields import MAX_CHARS, size_of
from ...sources.mcp.operations import plain
from ...sources.mcp.upstream import Upstream

log = logging.getLogger("toolcrib.serve")

Json = dict[str, Any]
T = TypeVar("T")
MAX_LIST = 4 * 2**20
"""The most characters of one list of one server, as JSON. The limit for one entry is MAX_CHARS."""
BRIEF_SECONDS = 0.5
"""How long a list waits for a server that failed, or did not answer in time, at the last request."""
_KEPT = "offers"
"""The name of its file in the cache of lists."""


ServerContent = dict[str, list[Json]]
"""The lists of one server: its `resources`, `templates` and `prompts`."""
KEYS = {"resources": "uri", "templates": "uriTemplate", "prompts": "name"}
"""The lists, with the field that names an entry."""


def no_content() -> ServerContent:
    return {what: [] for what in KEYS}


class SingleFlight(Generic[T]):
    """Does work once for several callers that ask at the same time. No answer is older than its question.

    A caller that asks during a run gets the answer of the next run, because the current run may have looked before
    the question came. Used on one event loop.
    """

    def __init__(self) -> None:
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer. A caller that stops waiting does not end the work for the others."""
        loop = asyncio.get_running_loop()
        if self._next is None and (self._running is None or self._running.done()):
            self._running = loop.create_task(work())
            return await asyncio.shield(self._running)
        if self._next is None:
            self._next = loop.create_task(self._then(work))
        return await asyncio.shield(self._next)

    async def _then(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._running is not None:
            await asyncio.wait({self._running})
        self._running, self._next = self._next, None
        return await work()


class ContentSource:
    """Gives the content of one server: the lists from last time, or the current ones.

    `late` is called if the server answers after the clients' lists were sent without it.
    """

    def __init__(self, server: Upstream, late: Callable[[], None]) -> None:
        self._server, self._when_late = server, late
        self._known: ServerContent | None = None
        self._asking: SingleFlight[ServerContent | None] = SingleFlight()
        self._late = False

    @property
    def known(self) -> ServerContent | None:
        """The lists from the last request; None if there are none."""
        if self._known is None:
            self._known = self._server.services.cache.kept(self._server.identity, _KEPT, checked_content)
        return self._known

    async def get(self, who: Downstream | None) -> ServerContent:
        """Return the current lists, or the last known ones if the server does not answer."""
        task = asyncio.get_running_loop().create_task(self._asking.get(lambda: self._ask(who)))
        await asyncio.wait({task}, timeout=BRIEF_SECONDS if self._late else None)
        if task.done() and not task.cancelled() and (found := task.result()) is not None:
            return found
        self._late = True
        return self.known or no_content()

    async def _ask(self, who: Downstream | None) -> ServerContent | None:
        """Return the current lists; None if the server failed."""
        server, known = self._server, self.known
        listing = server.tools.listing
        if listing is not None and not listing.has_resources and not listing.has_prompts:
            found = no_content()
        elif known is not None and server.state != "connected":
            found = known
        else:
            faults: list[str] = []
            try:
                found = await server.use(lambda client: ask_content(client, faults), who)
            except ToolError as error:
                log.warning("%s", error)
                return None
            except Exception as error:  # an invalid list
                log.warning("MCP server %s: what it has could not be listed: %s", server.name, error)
                return None
            for fault in faults:
                log.warning("MCP server %s: %s", server.name, fault)
            if found != known:
                self._known = found
                server.services.cache.keep(server.identity, _KEPT, found)
        if self._late:
            self._late = False
            if found != (known or no_content()):
                self._when_late()
        return found


def checked_content(value: Any) -> ServerContent:
    """Return the lists as they were stored. Raises KeyError, TypeError or AttributeError for anything else."""
    for what, key in KEYS.items():
        if not all(isinstance(entry.get(key), str) for entry in value[what]):
            raise TypeError(f"not a list of entries with {key}")
    return value


async def ask_content(client: Client, faults: list[str]) -> ServerContent:
    """Ask the connected server for its current lists. A list that it refuses is empty, with a sentence in `faults`."""

    async def entries(what: str, offered: object) -> list[Json]:
        if offered is None:
            return []
        try:
            found = await list_all(client, what if what != "templates" else "resourceTemplates", faults)
            return await asyncio.to_thread(_bounded, list(map(plain, found)), what, faults)
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:  # many servers with resources do not support templates
                faults.append(f"list_{what}: {error.message}")
            return []
        except ToolError as error:
            faults.append(str(error))
            return []

    offered = client.server_capabilities
    capabilities = (offered.resources, offered.resources, offered.prompts)
    return dict(zip(KEYS, await asyncio.gather(*map(entries, KEYS, capabilities)), strict=True))


def _bounded(entries: list[Json], what: str, faults: list[str]) -> list[Json]:
    """Return the entries that are not too large, as many as fit: all servers share one list."""
    kept: list[Json] = []
    room = MAX_LIST
    for entry in entries:
        size = size_of(entry)
        if size <= min(MAX_CHARS, room):
            room -= size
            kept.append(entry)
    if len(kept) < len(entries):
        faults.append(f"{len(entries) - len(kept):,} of its {len(entries):,} {what} are left out: they are too large")
    return kept
