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
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import anyio
from mcp.client import Client
from mcp_types import (
    ElicitCompleteNotification,
    Implementation,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ..._version import __version__
from ...core.errors import ToolError
from .idle import IdleTimer
from .notifications import Heard, ListKind, Notifications
from .sdk_private import stamp_also
from .streams import ReadStream

if TYPE_CHECKING:
    from mcp.client.session import IncomingMessage

log = logging.getLogger("toolcrib.mcp")

CLOSE_SECONDS = 12.0
"""How long the end of a connection may take before its process is killed and its task is abandoned.

This is more than a server needs that gets both signals.
"""
_CHANGES: Mapping[type[object], ListKind] = {
    ToolListChangedNotification: "tools",
    ResourceListChangedNotification: "resources",
    PromptListChangedNotification: "prompts",
}


class Transport(Protocol):
    """Carries messages in both directions: an async context manager that gives the SDK its two streams."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any, /) -> Any: ...
    def kill(self) -> None:
        """End everything that belongs to it immediately. May be called from any thread."""
        ...

    def account(self) -> str:
        """Return what is known about why it failed, for a person; "" if nothing is known."""
        ...


class ConnectionCallbacks(Heard, Protocol):
    """The callbacks for requests and notifications of the server.

    `sampling` and `roots` are None if the server must not know of them. `busy` says whether a call is running.
    """

    sampling: Any
    roots: Any

    @property
    def busy(self) -> bool: ...
    async def elicitation(self, context: Any, params: Any) -> Any: ...
    async def logged(self, params: Any) -> None: ...
    def completed(self, notification: ElicitCompleteNotification) -> None: ...
    def stamp(self, params: dict[str, Any]) -> None: ...


C = TypeVar("C", bound=ConnectionCallbacks)


class Connection(Generic[C]):
    """Create it, `open` it, use `client`, `close` it. It is never opened again.

    `older` means that it was made in the handshake era for a client of that era, with a server that may also know
    the later one. After `idle_seconds` without use it ends.
    """

    def __init__(
        self, name: str, transport: Transport, callbacks: C, mode: str, *, older: bool = False, idle_seconds: float = 0
    ) -> None:
        self.name, self.transport, self.callbacks, self.older = name, transport, callbacks, older
        self.lost = False
        """Whether no more messages will come: its stream ended, the server forgot the session, or we ended it."""
        self.used = False
        """Whether a tool was called over it."""
        self.notifications = Notifications(name, callbacks)
        self._loop = asyncio.get_running_loop()
        self._mode = mode
        self._idle = IdleTimer(idle_seconds, lambda: self.busy, self.end)
        self._error: BaseException | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._when_lost: Callable[[], object] = lambda: None

    @property
    def client(self) -> Client:
        """The SDK's client. Raises ToolError if the connection is over."""
        if self._client is None:
            raise ToolError(f"the connection to MCP server {self.name} is closed")
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
        self._idle.touch()

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
            raise

    async def close(self) -> None:
        """End it, in its own task. Returns when everything has ended, or after CLOSE_SECONDS."""
        self._closing.set()
        self._idle.stop()
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
        try:
            async with Client(
                _Watched(self.transport, self._ended),
                mode=self._mode,
                cache=None,
                client_info=Implementation(name="toolcrib", version=__version__),
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
            self._idle.stop()
            self.lose()
            if not self._ready.done():
                self._ready.set_exception(_plain(self._error))
                self._ready.exception()  # the opener may no longer wait for it

    def _ended(self) -> None:
        self.lose()
        self._closing.set()

    async def _heard(self, message: IncomingMessage) -> None:
        if (kind := _CHANGES.get(type(message))) is not None:
            self.callbacks.changed(kind)
        elif isinstance(message, ResourceUpdatedNotification):
            self.callbacks.updated(str(message.params.uri))
        elif isinstance(message, ElicitCompleteNotification):
            self.callbacks.completed(message)


def _plain(error: BaseException | None) -> BaseException:
    """Return the first error in a group that is not a group itself. A cancellation becomes a ToolError."""
    while isinstance(error, BaseExceptionGroup):
        parts = cast("tuple[BaseException, ...]", error.exceptions)  # pyright: ignore[reportUnknownMemberType]
        error = next((each for each in parts if not isinstance(each, asyncio.CancelledError)), parts[0])
    if error is None or isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
        return ToolError("the connection was ended before it was ready")
    return error


class _Watched:
    """A transport that reports when its incoming stream ends."""

    def __init__(self, inner: Transport, ended: Callable[[], None]) -> None:
        self._inner, self._ended = inner, ended

    async def __aenter__(self) -> Any:
        incoming, outgoing = await self._inner.__aenter__()
        return _Incoming(incoming, self._ended), outgoing

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return await self._inner.__aexit__(kind, error, trace)


class _Incoming(ReadStream):
    """The transport's stream of messages. Its other attributes (`last_context`) are available too."""

    def __init__(self, inner: Any, ended: Callable[[], None]) -> None:
        self._inner, self._when_ended = inner, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        try:
            return await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._when_ended()
            raise

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()
