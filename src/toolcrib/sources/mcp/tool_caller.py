"""Call a tool of a server: wait for its turn and limit its time.

Retry once if the connection was lost and that is safe.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ...core.context import ToolContext
from ...core.errors import ToolError
from ...core.output import ToolOutput
from .config import ServerConfig
from .connector import Connectors
from .downstream import downstream_of
from .listed import ListedTool
from .relay import Relay
from .tool_list import ToolList

if TYPE_CHECKING:
    from .connection import Connection

log = logging.getLogger("toolcrib.mcp")


class ToolCaller:
    """Calls the tools of one server. Used on its loop."""

    def __init__(self, config: ServerConfig, connectors: Connectors, tools: ToolList, relay: Relay) -> None:
        self._config, self._connectors, self._tools, self._relay = config, connectors, tools, relay

    async def call(self, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext) -> ToolOutput:
        """Call a tool once. Raises ToolError if the server cannot be reached, or refuses."""
        for last in (False, True):
            connection = await self._connectors.of(downstream_of(ctx))  # loads the SDK, in a thread

            from .calling import ConnectionLost

            self._tools.check_once()
            try:
                return await self._once(connection, tool, arguments, ctx)
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

    async def _once(
        self, connection: Connection, tool: ListedTool, arguments: dict[str, Any], ctx: ToolContext
    ) -> ToolOutput:
        from .calling import call
        from .inflight import Expired, ProgressTimeout
        from .operations import operation

        config, own = self._config, self._config.of_tool(tool.name)
        idle, most = own.timeout or config.timeout, own.max_timeout or config.max_timeout
        connection.used = True
        if connection.callbacks.calls.asks:
            await self._turn(connection, tool, idle, ctx)
        try:
            async with ProgressTimeout(idle, most) as timeout:
                work = operation(config, self._relay, tool, arguments, ctx)
                return await call(connection, tool.name, work, ctx, timeout)
        except Expired as over:
            waited = f"within {over.seconds:g} s"
            if over.progressed and over.seconds == idle:
                waited += " of its last report"
            text = f"{tool.name} of MCP server {config.name} did not answer {waited}; the server was asked to stop."
            hint = f"mcp_servers.{config.name}.timeout can give it more"
            return ToolOutput.error(f"{text} It may have had part of its effect. ({hint})", "timeout")
        finally:
            connection.touch()
            connection.callbacks.opener = None

    async def _turn(self, connection: Connection, tool: ListedTool, seconds: float, ctx: ToolContext) -> None:
        """Wait while another caller's question must be answered first. Raises ToolError after this many seconds."""
        from .inflight import caller_of

        try:
            async with asyncio.timeout(seconds):
                await connection.callbacks.calls.turn(tool.name, caller_of(ctx))
        except TimeoutError:
            raise ToolError(
                f"{tool.name} of MCP server {self._config.name} was not called: it asks questions, and another client "
                "has not answered theirs yet. Try again later."
            ) from None
