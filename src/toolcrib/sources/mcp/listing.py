"""Asks a server what it has: every page, with an end even where the server knows none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp.shared.exceptions import MCPError

from ...core.errors import ToolDefinitionError
from ...core.schema import RawArguments, compile_schema
from .listed import Json, ListedTool, Listing

if TYPE_CHECKING:
    import mcp_types
    from mcp.client import Client

log = logging.getLogger("toolcrib.mcp")

MAX_PAGES = 1_000
MAX_ITEMS = 50_000

P = TypeVar("P")
T = TypeVar("T")


async def every_page(
    fetch: Callable[[str | None], Awaitable[P]], items: Callable[[P], list[T]], faults: list[str], what: str
) -> list[T]:
    """The items of all pages. A cursor that comes back, and a list without end, end it with a word in `faults`."""
    found: list[T] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await fetch(cursor)
        found += items(page)
        cursor = cast("str | None", getattr(page, "next_cursor", None))
        if cursor is None:
            return found
        if cursor in seen:
            faults.append(f"its list of {what} goes in circles; what came before counts")
            return found
        if len(found) > MAX_ITEMS:
            break
        seen.add(cursor)
    faults.append(f"its list of {what} has no end; the first {min(len(found), MAX_ITEMS):,} count")
    return found[:MAX_ITEMS]


async def list_server(client: Client) -> Listing:
    """What the server at the other end has. Raises MCPError, or ValidationError for a list that is not one."""
    faults: list[str] = []
    capabilities = client.server_capabilities
    try:
        tools = await every_page(
            lambda cursor: client.list_tools(cursor=cursor), lambda page: list(page.tools), faults, "tools"
        )
    except MCPError:
        if capabilities.tools is not None:
            raise
        tools = []  # it never said that it had any
    info = client.server_info
    return Listing(
        tuple(await asyncio.to_thread(_usable, tools, faults)),
        client.protocol_version,
        f"{info.name} {info.version}".strip()[:200] if info else None,
        client.instructions,
        capabilities.resources is not None,
        capabilities.prompts is not None,
        tuple(faults),
    )


def _listed(tool: mcp_types.Tool) -> ListedTool:
    hints: Json = {}
    if tool.annotations is not None:
        hints = tool.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    title = tool.title or hints.get("title")
    return ListedTool(
        tool.name, tool.description or "", _closed(tool.input_schema), title if isinstance(title, str) else None,
        tool.output_schema, hints,
    )  # fmt: skip


def _closed(schema: Mapping[str, Any]) -> Json:
    """A schema that says it is one of an object: some servers leave that out."""
    if schema.get("type") == "object" or "$ref" in schema:
        return dict(schema)
    return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}


def _usable(tools: list[mcp_types.Tool], faults: list[str]) -> list[ListedTool]:
    """Without those that nobody could call: no name, the name of another, a schema that is none."""
    found: dict[str, ListedTool] = {}
    for tool in map(_listed, tools):
        if not tool.name:
            faults.append("a tool without a name was left out")
        elif tool.name in found:
            faults.append(f"it lists the tool {tool.name[:80]!r} twice; the first counts")
        else:
            try:
                RawArguments(tool.schema, tool.name[:80])
                if tool.output_schema is not None:
                    compile_schema(dict(tool.output_schema), f"{tool.name[:80]}: its output schema")
            except ToolDefinitionError as error:
                faults.append(f"a tool was left out: {error}")
            else:
                found[tool.name] = tool
    return list(found.values())
