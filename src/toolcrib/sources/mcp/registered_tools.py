"""The tools of all servers in a toolbox's registry: under unique names, and marked for review if they changed.

A server's resources and prompts are tools, too: one tool for each, which lists them and returns one by its name.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Iterator, Mapping

from ...core.errors import ToolConflictError, ToolcribError
from ...core.registry import ToolRegistry
from ...core.text import matches
from ...core.tool_spec import Definition
from .cache import Pins
from .config import ServerConfig
from .listed import Json, Kind, ListedTool, ServerListing
from .mcp_tool import McpTool
from .tool_names import free_name, is_exact, own_name, shown_name, tool_name
from .upstream import Upstream

log = logging.getLogger("toolcrib.mcp")

READ_ONLY: Json = {"readOnlyHint": True}
_ARGUMENTS: Json = {
    "type": "object", "additionalProperties": {"type": "string"}, "description": "Its arguments, each a text.",
}  # fmt: skip
EXTRAS: Mapping[Kind, tuple[str, Json]] = {
    "resources": (
        (
            "Resources of MCP server {}: without a uri, lists them and the templates of their addresses; with one, "
            "reads it."
        ),
        {"uri": {"type": "string", "description": "The address of the resource to read."}},
    ),
    "prompts": (
        "Prompts of MCP server {}: without a name, lists them with their arguments; with one, fills it in.",
        {"name": {"type": "string", "description": "The prompt to fill in."}, "arguments": _ARGUMENTS},
    ),
}
"""The tools for a server's resources and prompts: the description and the properties of the arguments."""


class RegisteredTools:
    """Registers the tools of servers.

    `pins` stores what was accepted of servers; without it no tool is marked for review.
    """

    def __init__(self, registry: ToolRegistry, pins: Pins | None) -> None:
        self.registry, self._pins = registry, pins
        self._tools: dict[str, dict[str, McpTool]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._warned: set[tuple[str, str]] = set()

    def of(self, server: str) -> list[McpTool]:
        """Return the tools of a server that are in the registry."""
        return list(self._tools.get(server, {}).values())

    def get(self, server: str, listed: str) -> McpTool | None:
        """Return one tool of a server, by the server's own name for it; None if it is not registered."""
        return self._tools.get(server, {}).get(listed)

    def set(self, server: Upstream, listing: ServerListing) -> None:
        """Set a server's tools: new, changed and removed ones are updated in the registry."""
        tools = self._tools.setdefault(server.name, {})
        self._warn(server.config, listing)
        wanted = {tool.name: tool for tool in _wanted(server.config, listing)}
        for name in [name for name, tool in tools.items() if tool.listed != wanted.get(name)]:
            self._withdraw(tools.pop(name))
        if self._pins is not None:
            try:
                self._pins.trust_first(server.identity, listing.tools)
            except OSError as error:
                log.warning("MCP server %s: its listing cannot be stored, so its tools ask: %s", server.name, error)
        new = [listed for name, listed in wanted.items() if name not in tools]
        if not new:
            return
        taken, config = {tool.name for tool in self.registry}, server.config
        spelled = Counter(tool_name(config.name, name, config.prefix) for name in wanted)
        for listed in new:
            plain = tool_name(config.name, listed.name, config.prefix)
            # not the first one of those that are spelled alike: their order is the server's
            alone = spelled[plain] == 1 or is_exact(plain, listed.name, config.prefix)
            self._register(server, listed, taken, plain if alone else None)

    def _warn(self, config: ServerConfig, listing: ServerListing) -> None:
        """Warn once of names in the settings that no tool of the server has."""
        from ...core.near import unknown

        names = [tool.name for tool in (*listing.tools, *extra_tools(config, listing))]
        known = {*names, *(tool_name(config.name, name, config.prefix) for name in names)}
        for setting, given in (
            ("tools", config.tools or ()), ("disabled_tools", config.disabled_tools), ("per_tool", config.per_tool)
        ):  # fmt: skip
            for said in unknown(given, known):
                if (config.name, said) not in self._warned:
                    self._warned.add((config.name, said))
                    log.warning("mcp_servers.%s.%s: this server has no tool %s", config.name, setting, said)

    def remove(self, server: str) -> None:
        """Remove a server's tools from the registry."""
        for tool in self._tools.pop(server, {}).values():
            self._withdraw(tool)

    def forget(self, server: str) -> None:
        """Remove a server's tools, and the names that they had: its settings may give them others."""
        self.remove(server)
        self._names = {key: name for key, name in self._names.items() if key[0] != server}

    def accept(self, server: Upstream) -> None:
        """Accept the tools of a server that are in the registry: a person sees no others. Raises OSError if that cannot
        be stored."""
        if self._pins is None:
            return
        tools = self.of(server.name)
        self._pins.accept(server.identity, (tool.listed for tool in tools if tool.listed.kind == "tool"))
        for tool in tools:
            tool.needs_review, tool.unaccepted = None, False
        self.registry.policy_changed()

    def _withdraw(self, tool: McpTool) -> None:
        """Remove a tool from the registry. A question about a call of it that is still open is over, too."""
        self.registry.unregister(tool.name)
        if tool.definition is not None:
            tool.definition.replaced = True

    def _register(self, server: Upstream, listed: ListedTool, taken: set[str], plain: str | None) -> None:
        """Register one tool under a unique name: `plain`, if it may have that. It has it until the toolbox closes."""
        config = server.config
        key = (config.name, listed.name)
        own = own_name(config.name, listed.name, config.prefix)
        while True:
            name = self._names.get(key) or plain or own
            if name in taken:
                name = free_name(own, taken)
            taken.add(name)
            shown = shown_name(listed.name, config.prefix)
            if shown is not None and self.registry.find(shown) is not None:
                shown = None
            tool = McpTool(name, listed, config, server.call, shown)
            tool.definition = Definition(f"{server.identity} {listed.digest}")
            if server.start is not None:
                tool.judge, tool.would_start = functools.partial(server.judge, listed), server.would_start
            if self._pins is not None and listed.kind == "tool":
                tool.needs_review = self._pins.doubt(server.identity, config.name, listed)
                tool.unaccepted = tool.needs_review is not None
            try:
                self.registry.register(tool)
            except ToolConflictError:  # another tool also uses this name
                continue
            except ToolcribError as error:
                log.warning("MCP server %s: its tool %r is left out: %s", config.name, listed.name[:80], error)
                return
            break
        if name != plain and self._names.get(key) != name:
            text = "MCP server %s: its tool %r is %s here, because another tool is spelled alike"
            log.warning(text, config.name, listed.name[:80], name)
        self._names[key] = name
        self._tools[config.name][listed.name] = tool


def _wanted(config: ServerConfig, listing: ServerListing) -> list[ListedTool]:
    """Return the tools of a listing that the configuration selects."""

    def chosen(tool: ListedTool) -> bool:
        names = tool.name, tool.known_as
        spelled = (*names, *(tool_name(config.name, name, config.prefix) for name in names))
        if config.tools is not None and not matches(spelled, config.tools):
            return False
        return not matches(spelled, config.disabled_tools) and not config.of_tool(tool.known_as).disabled

    return [tool for tool in (*listing.tools, *extra_tools(config, listing)) if chosen(tool)]


def extra_tools(config: ServerConfig, listing: ServerListing) -> Iterator[ListedTool]:
    """Yield the tools for a server's resources and prompts."""
    taken = {tool.name for tool in listing.tools}
    offered = {
        "resources": listing.has_resources and config.resources, "prompts": listing.has_prompts and config.prompts,
    }  # fmt: skip
    for kind, (description, properties) in EXTRAS.items():
        if offered[kind]:
            first, second = extra_names(kind)
            schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
            text = description.format(config.name)
            name = second if first in taken else first
            yield ListedTool(name, text, schema, hints=READ_ONLY, kind=kind, unlisted=kind in listing.lists_none)


def extra_names(kind: str) -> tuple[str, str]:
    """Return the two possible names of such a tool.

    The second is used if the server has its own tool with the first name.
    """
    return kind, f"server_{kind}"
