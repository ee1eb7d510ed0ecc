"""Fetch a server's lists: every page, with a limit in case the server never stops.

Each tool is converted to our form by itself. Invalid optional fields are dropped, the tool stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import mcp_types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from ...core.empty import EMPTY
from ...core.errors import ToolDefinitionError, ToolError
from ...core.json_schema import compile_schema, without_slow_patterns
from ...core.nesting import has_more_values, levels
from ...core.output import foreign_meta
from ...core.schema import RawArguments
from .fields import INFINITE, MAX_CHARS, icons, size_of
from .listed import Json, ListedTool, ServerListing
from .sdk_private import know_tools, send_raw

MAX_PAGES = 1_000
MAX_ITEMS = 10_000
MAX_LISTED = 32 * 2**20
"""The most bytes of JSON of all items of a list. What comes after them is not asked for."""
MAX_LIST_VALUES = 500_000
"""The most values of all items of a list: 10,000 tools with a small schema. To count so many takes 0.3 s."""
MAX_SCHEMA = 10_000
"""The most values of a tool's schema: a tenth of a second to compile, and no model could read more of it."""
MAX_TEXT = 256 * 1024
"""The most characters of a tool's description and schemas as JSON: it is searched for secrets, and no model could read
more of it."""
MAX_FAULTS = 50
"""How many messages about invalid tools are stored."""

MAX_EXTRA = 4 * 2**20
"""The most characters of JSON that all tools of a server may have in extra fields, which a model does not read."""
_OURS = {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"}
"""The fields that are read, and `execution`: it offers the server's tasks, which we do not pass on."""

NONE_SECONDS = 1.0
"""How long a server may take, after its tools, to say whether it has any resources and prompts."""
_KINDS: dict[str, tuple[Callable[..., Any], str, type[BaseModel]]] = {
    "tools": (mcp_types.ListToolsRequest, "tools/list", mcp_types.Tool),
    "resources": (mcp_types.ListResourcesRequest, "resources/list", mcp_types.Resource),
    "resourceTemplates": (
        mcp_types.ListResourceTemplatesRequest, "resources/templates/list", mcp_types.ResourceTemplate,
    ),
    "prompts": (mcp_types.ListPromptsRequest, "prompts/list", mcp_types.Prompt),
}  # fmt: skip
"""By the key of a list in its answer: the request, its method, and the form of an item."""
T = TypeVar("T")


async def every_page(
    fetch: Callable[[str | None], Awaitable[tuple[list[T], str | None]]], faults: list[str], what: str
) -> list[T]:
    """Return the items of all pages. A repeated cursor, or a list that is endless or too large, stops this with a
    message in `faults`."""
    found: list[T] = []
    seen: set[str] = set()
    cursor: str | None = None
    room, values = MAX_LISTED, 0
    for _ in range(MAX_PAGES):
        items, cursor = await fetch(cursor)
        for item in items:
            if len(found) == MAX_ITEMS:
                faults.append(f"its list of {what} has more than {MAX_ITEMS:,}; the others are left out")
                return found
            room -= len(to_json(item, fallback=str))
            if room < 0:
                size = f"{MAX_LISTED >> 20} MiB"
                faults.append(f"its list of {what} has more than {size}; the first {len(found):,} count")
                return found
            values += sum(levels(item))
            if values > MAX_LIST_VALUES:
                faults.append(
                    f"its list of {what} has more than {MAX_LIST_VALUES:,} values; the first {len(found):,} count"
                )
                return found
            found.append(item)
        if cursor is None:
            return found
        if cursor in seen:
            faults.append(f"its list of {what} goes in circles; what came before counts")
            return found
        seen.add(cursor)
    faults.append(f"its list of {what} has no end; the first {len(found):,} count")
    return found


async def list_all(client: Client, what: str, faults: list[str]) -> list[Any]:
    """Return all "resources", "resourceTemplates" or "prompts" that a server lists, each read separately. Raises
    MCPError, or ToolError if an answer has no list."""
    _, _, form = _KINDS[what]
    found: list[Any] = []
    for entry in await _entries(client, what, faults):
        try:
            found.append(form.model_validate(entry, by_name=False))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            faults.append(f"one of its {what} was left out: {where}: {first['msg']}"[:300])
    _bound(faults)
    return found


def _bound(faults: list[str]) -> None:
    if len(faults) > MAX_FAULTS:
        faults[MAX_FAULTS:] = [f"and {len(faults) - MAX_FAULTS:,} more of that kind"]


async def _entries(client: Client, what: str, faults: list[str]) -> list[Any]:
    """Return the items of a list as the server wrote them."""
    request, method, _ = _KINDS[what]

    async def fetch(cursor: str | None) -> tuple[list[Any], str | None]:
        raw = await send_raw(client.session, request(params=mcp_types.PaginatedRequestParams(cursor=cursor)))
        items, after = raw.get(what), raw.get("nextCursor")
        if not isinstance(items, list):
            raise ToolError(f"its answer to {method} has no list of {what}, but {str(raw)[:200]}")
        if after is not None and not isinstance(after, str):
            faults.append(f"its list of {what} has an invalid cursor; only what came before it counts")
        return cast("list[Any]", items), after if isinstance(after, str) and after else None

    return await every_page(fetch, faults, what)


async def list_server(client: Client) -> ServerListing:
    """Return everything that the connected server lists. Raises MCPError, or ToolError if a list is invalid."""
    faults: list[str] = []
    capabilities = client.server_capabilities
    declared = {"resources": capabilities.resources, "prompts": capabilities.prompts}
    looking = {key: asyncio.create_task(_lists_none(client, key)) for key, each in declared.items() if each is not None}
    try:
        tools = await read_tools(client, faults)
        if looking:
            await asyncio.wait(looking.values(), timeout=NONE_SECONDS)
    except MCPError:
        if capabilities.tools is not None:
            raise
        tools = []  # it never declared any tools
    finally:
        for each in looking.values():
            each.cancel()
    info = client.server_info
    _bound(faults)
    return ServerListing(
        tuple(tools),
        client.protocol_version,
        f"{info.name} {info.version}".strip()[:200] if info else None,
        capabilities.resources is not None,
        capabilities.prompts is not None,
        tuple(key for key, each in looking.items() if each.done() and not each.cancelled() and each.result()),
        tuple(faults),
    )


async def _lists_none(client: Client, what: str) -> bool:
    """Whether the server says that it has no resources and no templates of their addresses, or no prompts."""
    page = mcp_types.PaginatedRequestParams()
    try:
        for key in ("resources", "resourceTemplates") if what == "resources" else (what,):
            answer = await send_raw(client.session, _KINDS[key][0](params=page))
            if answer.get("nextCursor") or answer[key]:
                return False
    except Exception:  # whatever is wrong, it shows again when they are used
        return False
    return True


async def read_tools(client: Client, faults: list[str]) -> list[ListedTool]:
    """Return every tool that can be called. Each is read separately; errors in the others go into `faults`.

    The SDK's session gets the tools too: it sends some arguments in headers, as the schemas define. Raises the same
    errors as `list_server`.
    """
    entries = await _entries(client, "tools", faults)
    headers = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    tools, schemas = await asyncio.to_thread(_usable, entries, faults, headers)
    known = [
        mcp_types.Tool.model_construct(name=tool.name, input_schema=schema, output_schema=tool.output_schema)
        for tool, schema in zip(tools, schemas, strict=True)
    ]
    know_tools(client.session, known)
    return tools


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
            schema: Json = entry.get("inputSchema") or dict(tool.schema)
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


def described(entry: Any, room: int, faults: list[str]) -> tuple[ListedTool, int]:
    """Return the tool, and how many of the `room` characters its extra fields took.

    Raises ToolError or ToolDefinitionError if the tool cannot be called: it has no name, or no valid schema. Other
    invalid parts are dropped, with a message in `faults`.
    """
    if not isinstance(entry, dict):
        raise ToolError(f"it is not an object, but {str(entry)[:80]!r}")
    wire = cast("Json", entry)
    name = wire.get("name")
    if not isinstance(name, str):
        raise ToolError(f"its name is not text, but {str(name)[:80]!r}")
    if not name:
        raise ToolError("it has no name")
    short = name[:80]
    if wire.get("inputSchema") is None:
        wire = cast("Json", {**wire, "inputSchema": {"type": "object", "properties": {}}})
        faults.append(f"{short}: its inputSchema is missing, so it takes no arguments")
    if not isinstance(wire["inputSchema"], dict):
        raise ToolError(f"{short}: its inputSchema is not an object")
    if MAX_TEXT < size_of([wire.get(key) for key in _OURS]) < INFINITE:
        raise ToolError(f"{short}: its description and schemas have more than {MAX_TEXT:,} characters")
    execution = wire.get("execution")
    if isinstance(execution, dict) and cast("Json", execution).get("taskSupport") == "required":
        raise ToolError(f"{short}: it runs only as a task of the protocol, and Toolcrib starts none")
    tool = _read(wire, short, faults)
    hints: Json = {}
    if tool.annotations is not None:
        hints = tool.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    title = tool.title or hints.get("title")
    schema = _checkable(_closed(tool.input_schema), short, lambda found: RawArguments(found, short), faults)
    output_schema = tool.output_schema
    if output_schema is not None:
        owner = f"{short}: its output schema"
        output_schema = _checkable(dict(output_schema), short, lambda found: compile_schema(found, owner), faults)
    extra, size = _extra(wire, short, room, faults)
    listed = ListedTool(
        name, tool.description or "", schema, title if isinstance(title, str) else None, output_schema, hints,
        extra=extra,
    )  # fmt: skip
    return listed, size


def _checkable(schema: Json, short: str, compiled: Callable[[Json], object], faults: list[str]) -> Json:
    """Return the schema as it can be compiled: without the patterns that cannot be matched in linear time.

    The server checks them itself. Raises ToolDefinitionError if it cannot be compiled either way, or is too large.
    """
    if has_more_values(schema, MAX_SCHEMA):
        raise ToolDefinitionError(f"{short}: a schema of it has more than {MAX_SCHEMA:,} values")
    try:
        schema, dropped = without_slow_patterns(schema)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"{short}: {error}") from None
    compiled(schema)
    if dropped:
        why = "has look-around or takes long"
        faults.append(f"{short}: its pattern {dropped[0][:200]!r} {why} and is left to the server to check")
    return schema


def _read(wire: Json, short: str, faults: list[str]) -> mcp_types.Tool:
    """Return the tool as the SDK reads it, without the fields that it cannot read."""
    wire = {key: value for key, value in wire.items() if key in _OURS and key != "execution"}
    try:
        return mcp_types.Tool.model_validate(wire, by_name=False)
    except ValidationError as error:
        places = {each["loc"][:2]: None for each in error.errors(include_url=False, include_input=False)}
    for field, *within in places:
        value = wire.get(str(field))
        if field == "annotations" and within and isinstance(value, dict):
            hints = cast("Json", value)
            wire["annotations"] = {key: hint for key, hint in hints.items() if key != within[0]}
        else:
            wire.pop(str(field), None)
        which = ".".join(map(str, (field, *within)))
        faults.append(f"{short}: its {which[:80]} has a form that is not known, and is left away")
    try:
        return mcp_types.Tool.model_validate(wire, by_name=False)
    except ValidationError as error:
        raise ToolError(f"{short}: {error.errors(include_url=False, include_input=False)[0]['msg'][:300]}") from None


def _extra(wire: Json, short: str, room: int, faults: list[str]) -> tuple[Mapping[str, Any], int]:
    """Return its extra fields, within the size limits, without keys that only we may write."""
    found: Json = {}
    used = 0
    for key, value in wire.items():
        if key in _OURS or value is None:
            continue
        kept: Any = icons(value) if key == "icons" else foreign_meta(value) if key == "_meta" else value
        if kept in ({}, []):
            continue
        size = len(key) + size_of(kept)
        if size > min(MAX_CHARS, room - used):
            faults.append(f"{short}: its {key[:80]} is too long to be passed on")
            continue
        used += size
        found[key] = kept
    return found or EMPTY, used


def _closed(schema: Mapping[str, Any]) -> Json:
    """Return the schema with `type: object`, which some servers omit."""
    if schema.get("type") == "object" or "$ref" in schema:
        return dict(schema)
    return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
