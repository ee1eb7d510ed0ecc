"""One call of a server's tool over a live connection: news extend its time, cancelling it tells the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import mcp_types
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH
from pydantic import TypeAdapter, ValidationError

from ...core.errors import ToolError

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.shared.dispatcher import ProgressFnT

    from ...core.context import ToolContext
    from .connection import Link
    from .patience import Patience

MAX_ROUNDS = 10
"""How often a server may ask for more before it answers."""
T = TypeVar("T")
_RESULT: TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult] = TypeAdapter(
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)


class LinkLost(Exception):
    """The connection ended before the answer came. `delivered` False: the server refused the call unseen."""

    def __init__(self, delivered: bool) -> None:
        super().__init__(delivered)
        self.delivered = delivered


@dataclass(slots=True, eq=False)
class InFlight:
    """A call that a server works on: whose it is, and whose patience it costs."""

    ctx: ToolContext
    patience: Patience


@dataclass(slots=True)
class Calls:
    """The calls under way over one connection."""

    running: set[InFlight] = field(default_factory=set[InFlight])

    def asked(self) -> InFlight | None:
        """Whose question a server's question is. None where that cannot be known: calls of several callers run."""
        own = _current.get()
        if own is not None and own in self.running:
            return own
        callers = {
            (c.ctx.session_id, c.ctx.channel, c.ctx.chat_id, id(c.ctx.metadata.get("mcp"))) for c in self.running
        }
        return next(iter(self.running)) if len(callers) == 1 else None


_current: ContextVar[InFlight | None] = ContextVar("toolcrib_mcp_call", default=None)


async def call(
    link: Link, calls: Calls, what: str, work: Callable[[Client, ProgressFnT], Awaitable[T]], ctx: ToolContext,
    patience: Patience,
) -> T:  # fmt: skip
    """Do one thing with the server. Raises LinkLost, ToolError for what the server refused, and OutOfPatience."""
    mine = InFlight(ctx, patience)
    calls.running.add(mine)
    token = _current.set(mine)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        patience.news()
        await ctx.progress(progress, total, message)

    try:
        return await work(link.client, report)
    except MCPError as error:
        if link.lost or _is_over(error):
            raise LinkLost(error.code == CONNECTION_CLOSED) from error
        raise ToolError(f"MCP server {link.name}: {error.message} ({error.code})") from error
    except ValidationError as error:
        raise ToolError(
            f"MCP server {link.name} answered {what} with something that is no result: {_first(error)}. It may have "
            "had its effect."
        ) from error
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:  # it closed before this was written
        raise LinkLost(False) from error
    finally:
        _current.reset(token)
        calls.running.discard(mine)


def _is_over(error: MCPError) -> bool:
    """Whether the SDK itself says that no answer will come. Servers use the same code for errors of their own."""
    said = error.message
    return error.code == CONNECTION_CLOSED and (said == "Connection closed" or said.startswith("SSE stream "))


async def call_tool(
    client: Client, progress: ProgressFnT, name: str, arguments: dict[str, Any]
) -> mcp_types.CallToolResult:
    """Call a tool, answer what the server needs to know first (2026-07-28), call again."""
    answers: Any = None
    state: str | None = None
    listed = False
    pause = 0.05
    for _ in range(MAX_ROUNDS + 1):
        params = mcp_types.CallToolRequestParams(
            name=name, arguments=arguments, input_responses=answers, request_state=state
        )
        try:
            result = await client.session.send_request(
                mcp_types.CallToolRequest(params=params), _RESULT, progress_callback=progress
            )
        except MCPError as error:
            if error.code != HEADER_MISMATCH or listed:
                raise
            listed = True  # the schema says which arguments travel in headers: look at it, and send once more
            await _relist(client, name)
            continue
        if isinstance(result, mcp_types.CallToolResult):
            return result
        state, answers = result.request_state, None
        if result.input_requests:
            answers = await _answers(client, result.input_requests)
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.25)
    raise ToolError(f"the server asked for more {MAX_ROUNDS} times and did not answer")


async def _answers(client: Client, requests: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, request in requests.items():  # one after the other: they go to one person
        meta = request.params.meta if request.params else None
        context = ClientRequestContext(session=client.session, request_id=key, meta=meta)
        given = await client.session.dispatch_input_request(context, request)
        if isinstance(given, mcp_types.ErrorData):
            raise MCPError.from_error_data(given)
        found[key] = given
    return found


async def _relist(client: Client, name: str) -> None:
    cursor: str | None = None
    for _ in range(100):
        page = await client.list_tools(cursor=cursor)
        cursor = page.next_cursor
        if cursor is None or any(tool.name == name for tool in page.tools):
            return


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}"
