"""Limits how many tools a model sees.

Up to a limit, all tools are listed. Above it, only the host's own tools and the tools that a session has found are
listed; `search_tools` finds the rest. An unlisted tool can still be called: the list grants and refuses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from .recent import Recent

if TYPE_CHECKING:
    from .caller import Caller
    from .registry import ToolRegistry
    from .tool import Tool

log = logging.getLogger("toolcrib.core")

LIST_LIMIT = 40
"""Most tools that are shown without a search."""
MAX_FOUND = 100
"""The most found tools that a session sees: the latest ones."""
MAX_SESSIONS = 1_000
_NOBODY = "\0"


class Exposure:
    """Decides which tools of a registry are listed.

    `doors` makes the tools that lead to the others: they are registered while
    some are not listed. A `limit` of 0 lists everything, always."""

    def __init__(
        self, registry: ToolRegistry, doors: Callable[[Exposure], Iterable[Tool]], limit: int = LIST_LIMIT,
        always: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.registry, self.limit, self.always = registry, limit, frozenset(always)
        self.active = False
        self._make_doors = doors
        self._doors: tuple[Tool, ...] = ()
        self._found = Recent[str | None, Recent[str, None]](MAX_SESSIONS)
        self._listeners: list[Callable[[str | None], None]] = []
        self._busy = False
        registry.on_change(self._changed)
        self._changed()

    def show_all(self) -> None:
        """List everything from now on."""
        self.limit = 0
        self._changed()

    def listed(self, session_id: str | None = None, caller: Caller | None = None) -> list[Tool]:
        """Return the tools that a session, or a session of a caller, sees, in the registry's order."""
        tools = self.registry.listed(caller)
        if not self.active:
            return tools
        found = self._found.get(session_id) or ()
        own = [tool for tool in tools if tool.source == "own" and not tool.is_meta]
        shown = {tool.name for tool in own} if len(own) <= self.limit else self.always
        return [tool for tool in tools if tool.is_meta or tool.name in shown or tool.name in found]

    def hidden(self, caller: Caller | None = None) -> list[Tool]:
        """Return the tools that a session, or a session of a caller, does not see before it searches."""
        shown = {tool.name for tool in self.listed(_NOBODY, caller)}
        return [tool for tool in self.registry.listed(caller) if tool.name not in shown]

    def reveal(self, session_id: str | None, tools: Iterable[Tool]) -> None:
        """Show a session these found tools from now on; call the listeners if its list changes."""
        shown = {tool.name for tool in self.listed(session_id)}
        known = self._found.get(session_id)
        found = self._found[session_id] = Recent[str, None](MAX_FOUND) if known is None else known
        new = False
        for tool in tools:
            new = new or tool.name not in shown
            found[tool.name] = None
        if new:
            for listener in tuple(self._listeners):
                listener(session_id)

    def forget(self, session_id: str | None) -> None:
        """Forget a session that has ended."""
        self._found.pop(session_id, None)

    def on_reveal(self, listener: Callable[[str | None], None]) -> Callable[[], None]:
        """Call `listener(session_id)` when a session's list has grown; returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _changed(self) -> None:
        """Register the doors while some tools are not listed, else remove them."""
        if self._busy:
            return
        there = sum(door.name in self.registry for door in self._doors) if self.active else 0
        active = self.limit > 0 and len(self.registry) - there > self.limit
        if active == self.active:
            return
        if not self._doors:
            self._doors = tuple(self._make_doors(self))
        self._busy = True
        try:
            for door in self._doors:
                if not active:
                    self.registry.unregister(door.name)
                elif self.registry.register(door, on_conflict="keep") is not door:
                    log.warning("a tool named %r is there already: ours of that name is not offered", door.name)
            self.active = active
        finally:
            self._busy = False
