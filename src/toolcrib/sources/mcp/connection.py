"""One connection to a server, from its opening to its end, in its own task.

It knows its transport and its callbacks. It does not know what a server lists or who calls its tools.

The SDK's client holds cancel scopes that must be exited in the task that entered them. If another task exits them,
the whole process fails. So one task enters the client, waits, and exits it. Calls may come from any task on its
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types
from mcp.client import Client
from mcp.client.session import IncomingMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..._version import __version__
from ...core.errors import ToolError
from ...core.events import traced
from ...core.nesting import levels
from ...policy.secrets.logs import log_little
from .callbacks import Callbacks
from .many_values import bounded
from .notifications import Notifications
from .pipes import Answers, ReadStream
from .relay import ListKind
from .sdk_private import stamp_also, without_error_texts
from .stdio_transport import StdioTransport

if TYPE_CHECKING:
    from .http_transport import HttpTransport

log = logging.getLogger("toolcrib.mcp")

_SDK_LOGGERS = (
    "client", "mcp.client.caching", "mcp.client.sse", "mcp.client.stdio", "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher", "mcp.shared.tool_name_validation",
)  # fmt: skip
"""They repeat each wrong message of a server."""

CLOSE_SECONDS = 12.0
"""How long the end of a connection may take before its process is killed and its task is abandoned.

This is more than a server needs that gets both signals.
"""
_CHANGES: Mapping[type[object], ListKind] = {
    mcp_types.ToolListChangedNotification: "tools",
    mcp_types.ResourceListChangedNotification: "resources",
    mcp_types.PromptListChangedNotification: "prompts",
}


class ConnectionOver(ToolError):
    """The connection ended before the request was sent over it."""


class Connection:
    """Create it, `open` it, use `client`, `close` it. It is never opened again.

    `older` means that it was made in the handshake era for a client of that era, with a server that may also know
    the later one. After `idle_seconds` without use it ends; 0 means never.
    """

    def __init__(
        self,
        name: str,
        transport: StdioTransport | HttpTransport,
        callbacks: Callbacks,
        mode: str,
        older: bool,
        idle_seconds: float,
    ) -> None:
        self.name, self.transport, self.callbacks, self.older = name, transport, callbacks, older
        self.lost = False
        """Whether no more messages will come: its stream ended, the server forgot the session, or we ended it."""
        self.used = False
        """Whether a tool was called over it."""
        self.notifications = Notifications(name, callbacks)
        self._loop = asyncio.get_running_loop()
        self._mode = mode
        self._idle_seconds, self._used_at = idle_seconds, 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._when_lost: Callable[[], object] = lambda: None

    @property
    def client(self) -> Client:
        """The SDK's client. Raises ConnectionOver."""
        if self._client is None:
            raise ConnectionOver(f"the connection to MCP server {self.name} is closed")
        return self._client

    @property
    def modern(self) -> bool:
        """Whether the stateless revision was negotiated."""
        return self._client is not None and self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def busy(self) -> bool:
        """Whether a call is running over it, or a resource is watched."""
        return self.notifications.watching or self.callbacks.busy

    def touch(self) -> None:
        """Record that it is used now."""
        self._used_at = self._loop.time()
        if self._idle_seconds and self._idle is None:  # set again when it expires: so a call costs very little
            self._idle = self._loop.call_later(self._idle_seconds, self._look)

    def _look(self) -> None:
        """End it if it was not used for `idle_seconds`; otherwise look again later."""
        self._idle = None
        left = self._used_at + self._idle_seconds - self._loop.time()
        if left > 0 or self.busy:
            self._idle = self._loop.call_later(max(left, self._idle_seconds / 4), self._look)
        else:
            self._ending = self._loop.create_task(self.end())

    def _stop_looking(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def open(self, seconds: float) -> None:
        """Connect and negotiate.

        On failure, close it and raise the error: TimeoutError after `seconds`, or any other error.
        """
        # an empty context: a later request of the server does not belong to the call that happened to connect
        self._task = self._loop.create_task(
            self._live(), name=f"toolcrib-mcp-{self.name}", context=contextvars.Context()
        )
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            self.transport.kill()  # if its task had no time to begin
            raise

    async def close(self) -> None:
        """End it, in its own task. Returns when everything has ended, or after CLOSE_SECONDS."""
        self._closing.set()
        self._stop_looking()
        task = self._task
        if task is None or task.done():
            return
        if not self._ready.done() or self._ready.cancelled():
            task.cancel()
        try:
            await asyncio.wait({task}, timeout=CLOSE_SECONDS)
        finally:
            if not task.done():
                self.transport.kill()
                task.cancel()

    async def end(self) -> None:
        """End it unless it is in use."""
        if not self.lost and not self.busy:
            log.info("MCP server %s: an unused connection is ended", self.name)
            await self.close()

    async def clear(self) -> str:
        """End the rest of a lost connection, and return why it was lost, as far as that is known."""
        await self.close()
        return self.transport.account()

    def kill(self) -> None:
        """End everything that belongs to it immediately, without waiting. May be called from any thread."""
        self.lose()
        self.transport.kill()
        with contextlib.suppress(RuntimeError):  # its loop is closed, and with it the task
            self._loop.call_soon_threadsafe(self._closing.set)

    def lose(self) -> None:
        """Mark that no more messages will come over it."""
        if not self.lost:
            self.lost = True
            self._when_lost()

    def when_lost(self, work: Callable[[], object]) -> None:
        """Call `work` when the connection is lost, or now if it is already lost."""
        self._when_lost = work
        if self.lost:
            work()

    def when_over(self, work: Callable[[], object]) -> None:
        """Call `work` once everything of it has ended, for any reason."""
        if self._task is not None:
            self._task.add_done_callback(lambda _: work())

    async def _live(self) -> None:
        callbacks = self.callbacks
        if traced():
            without_error_texts()
        log_little(*_SDK_LOGGERS)
        try:
            async with Client(
                self._streams(),
                mode=self._mode,
                cache=None,
                client_info=mcp_types.Implementation(name="toolcrib", version=__version__),
                elicitation_callback=callbacks.elicitation,
                sampling_callback=callbacks.sampling,
                list_roots_callback=callbacks.roots,
                logging_callback=callbacks.logged,
                message_handler=self._heard,
            ) as client:
                if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    stamp_also(client.session, callbacks.stamp)
                self._client = client
                if not self._ready.done():
                    self._ready.set_result(None)
                try:
                    async with self.notifications.on(client):
                        await self._closing.wait()
                finally:
                    self._client = None
                    self.lose()
        except (
            BaseException
        ) as error:  # groups of the SDK's tasks, the end of the loop: no exception may leave this task
            self._error = error
            log.debug("the connection to MCP server %s ended", self.name, exc_info=True)
        finally:
            self._client = None
            self._stop_looking()
            self.lose()
            if not self._ready.done():
                self._ready.set_exception(_plain(self._error))
                self._ready.exception()  # the opener may no longer wait for it

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any]]:
        """Enter the transport. Its incoming stream reports its end."""
        async with self.transport.streams() as (incoming, outgoing):
            yield _Incoming(incoming, outgoing, self._ended), outgoing

    def _ended(self) -> None:
        self.lose()
        self._closing.set()

    async def _heard(self, message: IncomingMessage) -> None:
        if (kind := _CHANGES.get(type(message))) is not None:
            self.callbacks.changed(kind)
        elif isinstance(message, mcp_types.ResourceUpdatedNotification):
            self.callbacks.updated(str(message.params.uri))
        elif isinstance(message, mcp_types.ElicitCompleteNotification):
            self.callbacks.completed(message)


def _plain(error: BaseException | None) -> BaseException:
    """Return the first error in a group that is not a group itself. A cancellation becomes a ToolError."""
    while isinstance(error, BaseExceptionGroup):
        parts = cast("tuple[BaseException, ...]", error.exceptions)  # pyright: ignore[reportUnknownMemberType]
        error = next((each for each in parts if not isinstance(each, asyncio.CancelledError)), parts[0])
    if error is None or isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
        return ToolError("the connection was ended before it was ready")
    return error


class _Incoming(ReadStream):
    """The transport's stream of messages, without what is too much.

    Its other attributes (`last_context`) are available too.
    """

    def __init__(self, inner: Any, answers: Answers, ended: Callable[[], None]) -> None:
        self._inner, self._answers, self._when_ended = inner, answers, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        try:
            while True:
                message = await self._inner.receive()
                if isinstance(message, Exception):
                    return message
                if (message := bounded(message)) is not None:
                    self._count(message.message)
                    return message
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._when_ended()
            raise

    def _count(self, message: Any) -> None:
        if isinstance(message, JSONRPCRequest):
            said = [message.id, message.method, message.params]
            self._answers.asked(message.id, sum(levels(said, text=1)))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._answers.withdrawn((message.params or {}).get("requestId"))

    def close(self) -> None:
        self._inner.close()
