"""Call a tool of a server: wait for its turn, limit its time, and convert its errors.

Retry once if the connection was lost and that is safe. This module loads the SDK.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, URL_ELICITATION_REQUIRED
from pydantic import ValidationError

from ...core.context import ToolContext
from ...core.errors import ToolError
from ...core.json_values import objects_of
from ...core.output import ToolOutput
from ...core.wrap import as_text
from .config import ServerConfig
from .connection import Connection, ConnectionOver
from .connector import Connectors
from .downstream import downstream_of
from .inflight import Expired, InFlight, ProgressTimeout, caller_of, current_call
from .listed import Json, ListedTool
from .operations import Operation, operation
from .relay import Relay
from .sdk_private import says_lost, says_refused
from .server_questions import is_web_page, signed
from .tool_list import ToolList

if TYPE_CHECKING:
    from .http_transport import HttpRefusal

log = logging.getLogger("toolcrib.mcp")

RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 10.0
"""How long a call that only reads waits before it is tried again: if the server names no time, and at most."""


class ConnectionLost(Exception):
    """The connection ended before the answer came. `delivered` is False if the server did not process the call."""

    def __init__(self, delivered: bool) -> None:
        super().__init__(delivered)
        self.delivered = delivered


class HttpRefused(Exception):
    """The server's HTTP answer was an error without words."""

    def __init__(self, refusal: HttpRefusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


class ToolCaller:
    """Calls the tools of one server. Used on its loop."""

    def __init__(self, config: ServerConfig, connectors: Connectors, tools: ToolList, relay: Relay) -> None:
        self._config, self._connectors, self._tools, self._relay = config, connectors, tools, relay

    async def call(self, tool: ListedTool, arguments: Json, ctx: ToolContext) -> ToolOutput:
        """Call a tool once. Raises ToolError if the server cannot be reached, or refuses."""
        for last in (False, True):
            connection = await self._connectors.of(downstream_of(ctx))
            await self._tools.check(tool, connection)
            try:
                return await self._once(connection, tool, arguments, ctx)
            except HttpRefused as error:
                refusal, wait = error.refusal, error.refusal.seconds or RETRY_SECONDS
                if last or not (refusal.later and tool.repeatable and wait <= MAX_RETRY_SECONDS):
                    raise self._refused(refusal, ctx) from error
                await asyncio.sleep(wait)
            except ConnectionLost as error:
                name, why = self._config.name, await connection.clear()
                log.info("MCP server %s went away in a call of %s: %s", name, tool.name, why)
                if last or not (tool.repeatable or not error.delivered):
                    done = "It may have had part of its effect: look before you repeat it."
                    if tool.repeatable:
                        done = "It was asked twice."
                    raise ToolError(
                        f"MCP server {name} went away while {tool.name} ran{f': {why}' if why else ''}. {done}"
                    ) from error
        raise AssertionError("unreachable")

    def _refused(self, refusal: HttpRefusal, ctx: ToolContext) -> ToolError:
        name = self._config.name
        text = f"MCP server {name} refused: {refusal.said}"
        if refusal.said.startswith("HTTP 401"):
            text += f". It wants a login, which a person can do: `toolcrib mcp login {name}`"
        elif refusal.later:
            when = "later" if refusal.seconds is None else f"in {refusal.seconds:g} s"
            text += f". Try again {when}."
        client = downstream_of(ctx)
        if client is not None and client.failure is None:
            client.failure = MCPError(INTERNAL_ERROR, text)
        return ToolError(text)

    async def _once(self, connection: Connection, tool: ListedTool, arguments: Json, ctx: ToolContext) -> ToolOutput:
        config, own = self._config, self._config.of_tool(tool.known_as)
        idle, most = own.timeout or config.timeout, own.max_timeout or config.max_timeout
        connection.used = True
        if connection.callbacks.calls.asks:
            await self._turn(connection, tool, idle, ctx)
        try:
            async with ProgressTimeout(idle, most) as timeout:
                mine = InFlight(tool.name, ctx, timeout, caller_of(ctx))
                return await _answer(connection, mine, operation(config, self._relay, tool, arguments, ctx))
        except Expired as over:
            waited = f"within {over.seconds:g} s"
            if over.progressed and over.seconds == idle:
                waited += " of its last report"
            text = f"{tool.name} of MCP server {config.name} did not answer {waited}; the server was asked to stop."
            hint = f"mcp_servers.{config.name}.timeout can give it more"
            return ToolOutput.error(f"{text} It may have had part of its effect. ({hint})", "timeout")
        finally:
            connection.touch()

    async def _turn(self, connection: Connection, tool: ListedTool, seconds: float, ctx: ToolContext) -> None:
        """Wait while another caller's question must be answered first. Raises ToolError after this many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await connection.callbacks.calls.turn(tool.name, caller_of(ctx))
        except TimeoutError:
            raise ToolError(
                f"{tool.name} of MCP server {self._config.name} was not called: it asks questions, and another client "
                "has not answered theirs yet. Try again later."
            ) from None


async def _answer(connection: Connection, mine: InFlight, work: Operation) -> ToolOutput:
    """Return the server's answer. Its progress extends the timeout, and a cancellation is sent to it.

    Raises ConnectionLost, or ToolError if the server refused or its answer is invalid.
    """
    calls, ctx = connection.callbacks.calls, mine.ctx
    calls.begin(mine)
    token = current_call.set(mine)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        mine.timeout.progress()
        await mine.tell(lambda: ctx.progress(progress, total, message))

    try:
        result = await work(connection, report)
        mine.answered = True
        await mine.told()
        return result
    except MCPError as error:
        if connection.lost or says_lost(error):
            raise ConnectionLost(error.code == CONNECTION_CLOSED) from error
        refusal = connection.transport.refusal
        if refusal is not None and says_refused(error):
            raise HttpRefused(refusal) from error
        mine.answered = True
        client = downstream_of(ctx)
        if client is not None and client.failure is None:  # an error about a missing client capability is more useful
            client.failure = _signed(connection.name, error)
        data = "" if error.error.data is None else f": {as_text(error.error.data)}"  # a client's model may read it
        raise ToolError(f"MCP server {connection.name}: {error.message} ({error.code}){data}") from error
    except ValidationError as error:
        raise ToolError(
            f"MCP server {connection.name} answered {mine.tool} with something that is not a result: {_first(error)}. "
            "It may have had its effect."
        ) from error
    except (ConnectionOver, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:  # nothing was written
        raise ConnectionLost(False) from error
    finally:
        current_call.reset(token)
        calls.end(mine)


def _signed(server: str, error: MCPError) -> MCPError:
    """Add the server's name to the pages that an error asks a person to visit, like to any other question."""
    given = error.error.data
    if error.error.code != URL_ELICITATION_REQUIRED or not isinstance(given, dict):
        return error
    data = cast("dict[str, Any]", given)
    shown = [
        {**page, "message": signed(server, str(page.get("message", "")))}
        for page in objects_of(data.get("elicitations"))
        if is_web_page(page.get("url"))
    ]
    return MCPError(error.error.code, error.error.message, {**data, "elicitations": shown})


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}"
