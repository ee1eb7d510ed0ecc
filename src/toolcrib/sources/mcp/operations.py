"""The operations of a server's tool over a connection: call a tool, or read a resource or a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import mcp_types
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH
from pydantic import TypeAdapter

from ...core.context import ToolContext
from ...core.errors import ToolError
from ...core.output import ContentBlock, ResourceBlock, TextBlock, ToolOutput
from ...core.wrap import describe
from .config import ServerConfig
from .connection import Connection
from .downstream import downstream_of
from .fetch_lists import list_all, read_tools
from .inflight import current_call
from .listed import Json, ListedTool
from .relay import Relay
from .results import block_of, of_blocks, output_of, resource_block
from .sdk_private import send_raw

Operation = Callable[[Connection, ProgressFnT], Awaitable[ToolOutput]]
Show = Callable[[str], str]
MAX_ROUNDS = 10
"""How often a server may ask questions before it answers."""
T = TypeVar("T")
R = TypeVar("R", dict[str, Any], mcp_types.ReadResourceResult, mcp_types.GetPromptResult)
_RESOURCE: TypeAdapter[mcp_types.ReadResourceResult | mcp_types.InputRequiredResult] = TypeAdapter(
    mcp_types.ReadResourceResult | mcp_types.InputRequiredResult
)
_PROMPT: TypeAdapter[mcp_types.GetPromptResult | mcp_types.InputRequiredResult] = TypeAdapter(
    mcp_types.GetPromptResult | mcp_types.InputRequiredResult
)
MAX_LISTED = 500
"""The most resources or prompts that one answer lists."""


def operation(config: ServerConfig, relay: Relay, tool: ListedTool, arguments: Json, ctx: ToolContext) -> Operation:
    """Return what a call of this tool does. Labels of results count only if the server is trusted."""

    def show(uri: str) -> str:
        return relay.shown_uri(config.name, uri)

    async def run(connection: Connection, progress: ProgressFnT) -> ToolOutput:
        if tool.kind == "resources":
            return await _resources(connection, progress, arguments.get("uri"), ctx, show)
        if tool.kind == "prompts":
            given: dict[str, str] = arguments.get("arguments") or {}
            return await _prompts(connection, progress, arguments.get("name"), given, ctx, show)
        raw = await call_tool(connection, progress, tool.name, arguments)
        output = output_of(raw, trusted=config.trust == "hints")
        return _addressed(output, show) if relay.on else output

    return run


def _addressed(output: ToolOutput, show: Show) -> ToolOutput:
    """Return the output with the addresses that clients use for its resources."""
    if not any(isinstance(block, ResourceBlock) for block in output.content):
        return output
    blocks = [
        replace(block, uri=show(block.uri)) if isinstance(block, ResourceBlock) else block for block in output.content
    ]
    if blocks == list(output.content):
        return output
    described = "\n".join(map(describe, output.content))
    said = "\n".join(map(describe, blocks)) if output.for_llm == described else output.for_llm
    return replace(output, for_llm=said, content=tuple(blocks))


def _deliver(ctx: ToolContext, result: mcp_types.Result, asked: str, show: Show) -> None:
    """Give the unchanged answer to a client that made the same request.

    Addresses in it, except the requested one, become those that clients use.
    """
    client = downstream_of(ctx)
    if client is None or not client.exact:
        return
    client.delivered = plain(result)
    for entry in _addresses(client.delivered):
        if entry["uri"] != asked:
            entry["uri"] = show(entry["uri"])


def _addresses(delivered: Json) -> Iterator[Json]:
    """Yield the parts with an address, in the contents of a resource or the messages of a prompt."""
    contents = [message["content"] for message in delivered.get("messages", ())]
    for part in (*delivered.get("contents", ()), *contents):
        entry: Json = part["resource"] if part.get("type") == "resource" else part
        if isinstance(entry.get("uri"), str):
            yield entry


async def _resources(
    connection: Connection, progress: ProgressFnT, uri: str | None, ctx: ToolContext, show: Show
) -> ToolOutput:
    if uri:
        result = await read_resource(connection, progress, uri)
        _deliver(ctx, result, uri, show)
        return of_blocks([resource_block(each) for each in result.contents], result.meta)
    faults: list[str] = []
    found = await list_all(connection.client, "resources", faults)
    templates = await list_all(connection.client, "resourceTemplates", faults)
    lines = [_line(str(each.uri), each.title or each.name, each.description) for each in found]
    lines += [_line(each.uri_template, each.title or each.name, each.description) for each in templates]
    data = {
        "resources": [plain(each) for each in found[:MAX_LISTED]],
        "templates": [plain(each) for each in templates[:MAX_LISTED]],
    }
    return ToolOutput(_listed(lines, faults, "resources"), data=data)


async def _prompts(
    connection: Connection, progress: ProgressFnT, name: str | None, arguments: dict[str, str], ctx: ToolContext,
    show: Show,
) -> ToolOutput:  # fmt: skip
    if not name and arguments:
        raise ToolError("arguments are for a prompt: give its name, too")
    if name:
        result = await get_prompt(connection, progress, name, arguments)
        _deliver(ctx, result, "", show)
        blocks: list[ContentBlock] = []
        for message in result.messages:
            if len(result.messages) > 1:
                blocks.append(TextBlock(f"{message.role}:"))
            blocks.append(block_of(message.content))
        said = {"description": result.description} if result.description else None
        return replace(of_blocks(blocks, result.meta), data=said)
    faults: list[str] = []
    found = await list_all(connection.client, "prompts", faults)
    lines: list[str] = []
    for each in found:
        takes = ", ".join(f"{a.name}{'' if a.required else '?'}" for a in each.arguments or ())
        lines.append(_line(f"{each.name}({takes})", each.title or "", each.description))
    return ToolOutput(_listed(lines, faults, "prompts"), data={"prompts": [plain(e) for e in found[:MAX_LISTED]]})


def _line(address: str, title: str, description: str | None) -> str:
    said = " — ".join(part for part in (title if title != address else "", description or "") if part)
    return f"{address}  {said}".rstrip()


def _listed(lines: list[str], faults: list[str], what: str) -> str:
    shown = lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        shown.append(f"… and {len(lines) - MAX_LISTED:,} more")
    return "\n".join([*shown, *(f"[{fault}]" for fault in faults)]) or f"(there are no {what})"


def plain(value: Any) -> Json:
    """Return an object of the protocol in wire form."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


# --- one request, and the server's questions before it answers


async def call_tool(connection: Connection, progress: ProgressFnT, name: str, arguments: Json) -> Json:
    """Call a tool. The result is returned unchanged."""
    listed = False

    async def send(more: Json) -> Json | mcp_types.InputRequiredResult:
        nonlocal listed
        request = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(name=name, arguments=arguments, **more)
        )
        while True:
            try:
                raw = await send_raw(connection.client.session, request, progress)
                asks = raw.get("resultType") == "input_required"
                return mcp_types.InputRequiredResult.model_validate(raw, by_name=False) if asks else raw
            except MCPError as error:
                if error.code != HEADER_MISMATCH or listed:
                    raise
            listed = True  # the schema says which arguments travel in headers: read it, and send once more
            await read_tools(connection.client, [])

    return await _rounds(connection, send)


async def read_resource(connection: Connection, progress: ProgressFnT, uri: str) -> mcp_types.ReadResourceResult:
    """Read a resource."""
    params = partial(mcp_types.ReadResourceRequestParams, uri=uri)
    return await _typed(connection, progress, mcp_types.ReadResourceRequest, params, _RESOURCE)


async def get_prompt(
    connection: Connection, progress: ProgressFnT, name: str, arguments: dict[str, str]
) -> mcp_types.GetPromptResult:
    """Fill in a prompt."""
    params = partial(mcp_types.GetPromptRequestParams, name=name, arguments=arguments)
    return await _typed(connection, progress, mcp_types.GetPromptRequest, params, _PROMPT)


async def _typed(
    connection: Connection, progress: ProgressFnT, kind: Any, params: Callable[..., Any], result: TypeAdapter[Any]
) -> R:
    async def send(more: Json) -> R | mcp_types.InputRequiredResult:
        request = kind(params=params(**more))
        return await connection.client.session.send_request(request, result, progress_callback=progress)

    return await _rounds(connection, send)


async def _rounds(connection: Connection, send: Callable[[Json], Awaitable[R | mcp_types.InputRequiredResult]]) -> R:
    """Send the request, answer the server's questions (2026-07-28), and send again.

    `send` gets the parameters that every request has. Raises ToolError if the server asks too often.
    """
    mine = current_call.get()
    client = downstream_of(mine.ctx) if mine is not None else None
    meta = dict(client.meta) if client is not None else None  # what the client behind the call sent with it
    more: Json = {"_meta": meta or None}
    pause = 0.05
    for _ in range(MAX_ROUNDS + 1):
        result = await send(more)
        if not isinstance(result, mcp_types.InputRequiredResult):
            return result
        more = {"_meta": meta or None, "request_state": result.request_state}
        if result.input_requests:
            more["input_responses"] = await connection.callbacks.answers(result.input_requests, mine)
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)
    raise ToolError(f"the server asked for more {MAX_ROUNDS} times and did not answer")
