"""Fetch a server's lists: every page, with a limit in case the server never stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import mcp_types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...core.errors import ToolDefinitionError, ToolError
from .described import MAX_EXTRA, described
from .listed import Json, ListedTool, ServerListing
from .sdk_private import know_tools, send_raw

if TYPE_CHECKING:
    from mcp.client import Client

log = logging.getLogger("toolcrib.mcp")

MAX_PAGES = 1_000
MAX_ITEMS = 50_000
MAX_FAULTS = 50
"""How many messages about invalid tools are stored."""

P = TypeVar("P")
T = TypeVar("T")


async def every_page(
    fetch: Callable[[str | None], Awaitable[P]], items: Callable[[P], list[T]], faults: list[str], what: str
) -> list[T]:
    """Return the items of all pages. A repeated cursor, or an endless list, stops this with a message in `faults`."""
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


class _Page(NamedTuple):
    tools: list[Any]
    next_cursor: str | None


async def list_server(client: Client) -> ServerListing:
    """Return everything that the connected server lists. Raises MCPError, or ToolError if a list is invalid."""
    faults: list[str] = []
    capabilities = client.server_capabilities
    try:
        tools = await read_tools(client, faults)
    except MCPError:
        if capabilities.tools is not None:
            raise
        tools = []  # it never declared any tools
    info = client.server_info
    if len(faults) > MAX_FAULTS:
        faults[MAX_FAULTS:] = [f"and {len(faults) - MAX_FAULTS:,} more of that kind"]
    return ServerListing(
        tuple(tools),
        client.protocol_version,
        f"{info.name} {info.version}".strip()[:200] if info else None,
        client.instructions,
        capabilities.resources is not None,
        capabilities.prompts is not None,
        tuple(faults),
    )


async def read_tools(client: Client, faults: list[str]) -> list[ListedTool]:
    """Return every tool that can be called. Each is read separately; errors in the others go into `faults`.

    The SDK's session gets the tools too: it sends some arguments in headers, as the schemas define. Raises the same
    errors as `list_server`.
    """

    async def fetch(cursor: str | None) -> _Page:
        params = mcp_types.PaginatedRequestParams(cursor=cursor)
        raw = await send_raw(client.session, mcp_types.ListToolsRequest(params=params))
        return _page(raw, faults)

    entries = await every_page(fetch, lambda page: page.tools, faults, "tools")
    headers = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    tools, schemas = await asyncio.to_thread(_usable, entries, faults, headers)
    known = [
        mcp_types.Tool.model_construct(name=tool.name, input_schema=schema, output_schema=tool.output_schema)
        for tool, schema in zip(tools, schemas, strict=True)
    ]
    know_tools(client.session, known)
    return tools


def _page(raw: Json, faults: list[str]) -> _Page:
    tools, cursor = raw.get("tools"), raw.get("nextCursor")
    if not isinstance(tools, list):
        raise ToolError(f"its answer to tools/list has no list of tools, but {str(raw)[:200]}")
    if cursor is not None and not isinstance(cursor, str):
        faults.append("its list of tools has an invalid cursor; only the tools before it count")
    return _Page(cast("list[Any]", tools), cursor if isinstance(cursor, str) and cursor else None)


def _usable(entries: list[Any], faults: list[str], headers: bool) -> tuple[list[ListedTool], list[Json]]:
    """Return the tools that can be called, and the schemas as the server wrote them.

    `headers`: arguments may travel in headers, and a schema with an invalid header definition is refused, as
    2026-07-28 requires.
    """
    found: dict[str, tuple[ListedTool, Json]] = {}
    room = MAX_EXTRA
    for entry in entries:
        try:
            tool, size = described(entry, room, faults)
            schema: Json = entry["inputSchema"]
            if headers and (reason := find_invalid_x_mcp_header(schema)) is not None:
                raise ToolError(f"{tool.name[:80]}: {reason[:300]}")
        except RecursionError:
            faults.append("a tool was left out: it is nested too deeply")
        except (ToolError, ToolDefinitionError) as error:
            faults.append(f"a tool was left out: {error}")
        else:
            if tool.name in found:
                faults.append(f"it lists the tool {tool.name[:80]!r} twice; the first counts")
                continue
            room -= size
            found[tool.name] = tool, schema
    return [tool for tool, _ in found.values()], [schema for _, schema in found.values()]
