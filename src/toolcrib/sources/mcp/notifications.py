"""Subscribe to notifications of a server: changes of its lists, changes of single resources, its log.

Up to 2025-11-25 a server announces changes of lists without a request, and changes of a resource after a request
for it. In 2026-07-28 it announces what a stream was opened for. There is one stream for the lists and one for the
resources; the latter is opened again when the set of resources changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .callbacks import Callbacks
from .relay import ListKind

log = logging.getLogger("toolcrib.mcp")

RELISTEN_SECONDS = 5.0
"""How many seconds after the loss of a stream it is opened again."""


class Notifications:
    """The subscriptions of one connection to the server of this name. `on` runs them."""

    def __init__(self, name: str, callbacks: Callbacks) -> None:
        self._name, self._callbacks = f"MCP server {name}", callbacks
        self._client: Client | None = None
        self._uris: frozenset[str] = frozenset()
        self._stream: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    @property
    def watching(self) -> bool:
        """Whether the server announces changes of any resource."""
        return bool(self._uris)

    @asynccontextmanager
    async def on(self, client: Client) -> AsyncGenerator[None]:
        """Listen while the connection is open."""
        self._client = client
        lists = asyncio.create_task(self._lists(client)) if _modern(client) else None
        try:
            yield
        finally:
            self._client = None
            tasks = {task for task in (lists, self._stream) if task is not None}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=1)

    # --- lists

    async def _lists(self, client: Client) -> None:
        offered = client.server_capabilities
        wanted: dict[ListKind, bool] = {
            "tools": bool(offered.tools and offered.tools.list_changed),
            "resources": bool(offered.resources and offered.resources.list_changed),
            "prompts": bool(offered.prompts and offered.prompts.list_changed),
        }
        if any(wanted.values()):
            flags = {f"{kind}_list_changed": on for kind, on in wanted.items()}
            await self._follow(client, flags, self._callbacks.changed, [kind for kind, on in wanted.items() if on])

    async def _follow(
        self,
        client: Client,
        wanted: dict[str, Any],
        announce: Callable[[Any], None],
        what: Iterable[str],
        ready: asyncio.Future[None] | None = None,
    ) -> None:
        """Listen for what is wanted, again after each loss. Then `announce` changes that were missed in the meantime.

        `ready` gets the result of the first attempt; if that fails, this ends.
        """
        while True:
            try:
                # events also reach the connection's message handler, which processes them
                async with client.listen(**wanted) as events:
                    if ready is not None and not ready.done():
                        ready.set_result(None)
                    async for _ in events:
                        pass
            except Exception as error:
                if ready is not None and not ready.done():
                    ready.set_exception(error)
                    return
                log.debug("%s reports no changes: %s", self._name, error)
            await asyncio.sleep(RELISTEN_SECONDS)
            for each in what:
                announce(each)

    # --- resources

    async def watch(self, uris: Iterable[str]) -> None:
        """Subscribe to changes of exactly these resources. Raises MCPError if the server refuses one."""
        async with self._lock:
            client, wanted = self._client, frozenset(uris)
            if client is None or wanted == self._uris:
                return
            if _modern(client):
                await self._stream_of(client, wanted)
            else:
                await self._ask_for(client, wanted)

    async def _ask_for(self, client: Client, wanted: frozenset[str]) -> None:
        for uri in sorted(wanted - self._uris):
            request = mcp_types.SubscribeRequest(params=mcp_types.SubscribeRequestParams(uri=uri))
            await client.session.send_request(request, mcp_types.EmptyResult)
            self._uris |= {uri}
        for uri in sorted(self._uris - wanted):
            self._uris -= {uri}
            undo = mcp_types.UnsubscribeRequest(params=mcp_types.UnsubscribeRequestParams(uri=uri))
            with contextlib.suppress(MCPError):  # a failure to unsubscribe does no harm
                await client.session.send_request(undo, mcp_types.EmptyResult)

    async def _stream_of(self, client: Client, wanted: frozenset[str]) -> None:
        """Open the new stream first, then end the old one, so that no change is missed."""
        old = self._stream
        if wanted:
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            # an empty context: later events do not belong to the call that happened to subscribe
            uris = {"resource_subscriptions": sorted(wanted)}
            follow = self._follow(client, uris, self._callbacks.updated, wanted, ready)
            self._stream = asyncio.create_task(follow, context=contextvars.Context())
            try:
                await ready
            except BaseException:
                self._stream = old
                raise
        else:
            self._stream = None
        self._uris = wanted
        if old is not None:
            old.cancel()

    # --- the log

    async def level(self, level: str) -> None:
        """Set the least severe log level (up to 2025-11-25; later each request has it).

        A server without logging is not asked.
        """
        client = self._client
        if client is None or _modern(client) or client.server_capabilities.logging is None:
            return
        request = mcp_types.SetLevelRequest(params=mcp_types.SetLevelRequestParams(level=cast("Any", level)))
        with contextlib.suppress(MCPError):
            await client.session.send_request(request, mcp_types.EmptyResult)


def _modern(client: Client) -> bool:
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS
