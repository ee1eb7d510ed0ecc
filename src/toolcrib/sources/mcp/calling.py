"""Send one request to a server over a live connection, and answer the server's questions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH
from pydantic import TypeAdapter

from ...core.errors import ToolError
from .connection import Connection
from .downstream import downstream_of
from .inflight import current_call
from .listed import Json
from .listing import read_tools
from .sdk_private import send_raw

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


async def call_tool(connection: Connection, progress: ProgressFnT, name: str, arguments: Json) -> Json:
    """Call a tool. The result is returned unchanged."""
    listed = False

    async def send(more: Json) -> Json | mcp_types.InputRequiredResult:
        nonlocal listed
        request = mcp_types.CallToolRequest(
            params=mcp_types.CallToolRequestParams(name=name, arguments=arguments, **more)
        )
        try:
            raw = await send_raw(connection.client.session, request, progress)
            asks = raw.get("resultType") == "input_required"
            return mcp_types.InputRequiredResult.model_validate(raw, by_name=False) if asks else raw
        except MCPError as error:
            if error.code != HEADER_MISMATCH or listed:
                raise
        listed = True  # the schema says which arguments travel in headers: read it, and send once more
        await read_tools(connection.client, [])
        return await send(more)

    return await _rounds(connection, send)


async def read_resource(connection: Connection, progress: ProgressFnT, uri: str) -> mcp_types.ReadResourceResult:
    """Read a resource."""

    def request(more: Json) -> mcp_types.ReadResourceRequest:
        return mcp_types.ReadResourceRequest(params=mcp_types.ReadResourceRequestParams(uri=uri, **more))

    return await _typed(connection, progress, request, _RESOURCE)


async def get_prompt(
    connection: Connection, progress: ProgressFnT, name: str, arguments: dict[str, str]
) -> mcp_types.GetPromptResult:
    """Fill in a prompt."""

    def request(more: Json) -> mcp_types.GetPromptRequest:
        return mcp_types.GetPromptRequest(
            params=mcp_types.GetPromptRequestParams(name=name, arguments=arguments, **more)
        )

    return await _typed(connection, progress, request, _PROMPT)


async def _typed(
    connection: Connection,
    progress: ProgressFnT,
    request: Callable[[Json], Any],
    result: TypeAdapter[Any],
) -> R:
    async def send(more: Json) -> R | mcp_types.InputRequiredResult:
        return await connection.client.session.send_request(request(more), result, progress_callback=progress)

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
