"""What clients behind us want to hear of a server: changes of resources, and its log from some level on.

It is asked for over one connection of the server at a time, and again over the next when that one is lost.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Link
    from .line import Line

log = logging.getLogger("toolcrib.mcp")


class Watch:
    """For one server; `lines` are the ways to it."""

    def __init__(self, lines: Callable[[], Sequence[Line]]) -> None:
        self.level: str | None = None
        self._lines = lines
        self._uris: Counter[str] = Counter()

    @property
    def unheard(self) -> tuple[str, ...]:
        """What somebody wants to hear of while there is no connection to hear it over."""
        return tuple(self._uris) if self._over() is None else ()

    async def add(self, uri: str, line: Line, link: Link) -> None:
        """Listen for changes of a resource, over this connection if over none yet. Raises what the server raises."""
        over = self._over() or link
        self._uris[uri] += 1
        try:
            await over.listening.watch(self._uris)
        except BaseException:
            self._forget(uri)
            raise

    async def remove(self, uri: str) -> None:
        """Stop listening, once this was called as often as `add`."""
        self._forget(uri)
        over = self._over()
        if over is not None:
            await over.listening.watch(self._uris)

    async def tell_level(self) -> None:
        """Tell the level to whoever has not heard it."""
        for line in self._lines():
            if self.level is not None and line.alive and line.link is not None:
                await line.link.listening.level(self.level)

    async def take_up(self, line: Line, link: Link) -> None:
        """A new connection: what was listened for over one that is gone is listened for again."""
        from mcp.shared.exceptions import MCPError

        try:
            if self.level is not None:
                await link.listening.level(self.level)
            if self._uris and self._over() is None:
                await link.listening.watch(self._uris)
        except (MCPError, TimeoutError) as error:
            log.warning("MCP server %s does not tell what it told before: %s", link.name, error)

    def _over(self) -> Link | None:
        """The connection that is listened over."""
        for line in self._lines():
            if line.alive and line.link is not None and line.link.listening.watching:
                return line.link
        return None

    def _forget(self, uri: str) -> None:
        self._uris[uri] -= 1
        if self._uris[uri] <= 0:
            del self._uris[uri]
