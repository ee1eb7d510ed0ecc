"""A model behind HTTP: one request, its retries, and the stream of its reply, behind the address guard."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..boundary.network.decoding import Turns
from ..config.agent_settings import IDLE_SECONDS
from ..core.drive import drive
from ..core.errors import AddressRefused
from ..core.text import one_line
from .history import NOTHING, whole_characters
from .model import (
    AGAIN,
    MAX_CALLS,
    CallBegun,
    Decoder,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReplyEnd,
    TextDelta,
    ThinkingDelta,
    TryFailed,
    UsageSeen,
    Wire,
)
from .wires.provider_errors import error_of
from .wires.sse import SseParser

if TYPE_CHECKING:
    import httpx2

    from ..boundary.network.address_guard import AddressGuard
    from .history import ModelTurn

CONNECT_SECONDS = 15.0
TRIES = 4
MAX_PAUSE = 60.0  # seconds that a provider may ask us to wait before the next try
FIRST_PAUSE = 0.5  # seconds before the second try; each later one waits twice as long
MIN_SECRET = 6  # characters of a header that is removed from errors
MAX_REPLY = 64 << 20
"""Bytes of one reply with its framing, which is about 200 bytes for each token."""
MAX_ERROR = 64 * 1024  # bytes of an error's body
PIECE = 4 * 1024  # bytes of a reply after which other work of the event loop may run
_ADDRESS = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "ollama": "OLLAMA_HOST"}
"""What sets the address of these models; of others `agent.base_url` does."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a decoder raises for an event of a shape that no provider documents."""


class HttpModel:
    """A model of a provider. `name` is the setting's (`anthropic:NAME`), `base` the URL before the wire's path, `key`
    the variable that its key comes from."""

    def __init__(
        self,
        name: str,
        wire: Wire,
        base: str,
        headers: Mapping[str, str],
        guard: AddressGuard,
        *,
        idle_seconds: float = IDLE_SECONDS,
        tries: int = TRIES,
        key: str = "",
    ) -> None:
        self.name, self._key, self._wire, self._headers, self._guard = name, key, wire, dict(headers), guard
        self._url = base.rstrip("/") + wire.path
        self._idle, self._tries = idle_seconds, tries
        self._client: httpx2.AsyncClient | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask, and yield the events of the reply. Raises ModelError.

        A request that failed is tried again, up to four times, as long as nothing of a reply was yielded.
        """
        text = json.dumps(self._wire.encode(request), ensure_ascii=False, separators=(",", ":"))
        body = whole_characters(text).encode()
        lost = NOTHING
        for number in range(1, self._tries + 1):
            shown, seen = False, NOTHING
            try:
                async with aclosing(self._once(body)) as events:
                    async for event in events:
                        if isinstance(event, UsageSeen):
                            seen = event.usage
                            yield UsageSeen(lost + seen)
                            continue
                        shown = True
                        yield replace(event, lost=lost) if isinstance(event, ReplyEnd) else event
                return
            except ModelError as error:
                error.args = (self._shown(str(error)),)
                lost += seen
                pause = _pause(error, number)
                if shown or number == self._tries or error.kind not in AGAIN:
                    raise
                if pause > MAX_PAUSE:
                    error.args = (f"{error}; it asks to wait {pause:.0f} s",)
                    raise
                failed = TryFailed(str(error), pause)
            yield failed
            await asyncio.sleep(pause)

    def _shown(self, text: str) -> str:
        """Return an error's text on one line, and without our key: a server may repeat what it got."""
        address = urlsplit(self._url)
        ours = (value.removeprefix("Bearer ") for value in self._headers.values())
        for secret in (*ours, address.netloc.rpartition("@")[0], address.query):
            if len(secret) >= MIN_SECRET:
                text = text.replace(secret, "…")
        return one_line("".join(char if char.isprintable() else " " for char in text))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _once(self, body: bytes) -> AsyncGenerator[ModelEvent]:
        import httpx2

        client = await self._opened()
        timeout = httpx2.Timeout(self._idle, connect=CONNECT_SECONDS)
        most = CONNECT_SECONDS + 2 * self._idle  # to connect, to send, to answer: the head of an answer may never end
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(most):
                    stream = client.stream("POST", self._url, content=body, timeout=timeout)
                    response = await stack.enter_async_context(stream)
                await self._check(response)
                events = self._events(response.aiter_bytes(), self._wire.decoder())
                async with aclosing(events):
                    async for event in events:
                        yield event
        except AddressRefused as error:
            raise ModelError(f"{self._url} cannot be reached: {error}", "network") from None
        except httpx2.TimeoutException:
            raise ModelError(f"{self.name} did not answer within {self._idle:g} s", "silent") from None
        except TimeoutError:
            raise ModelError(f"{self.name} did not begin its answer within {most:g} s", "silent") from None
        except httpx2.ConnectError as error:
            setting = _ADDRESS.get(self.name.partition(":")[0], "agent.base_url or OPENAI_BASE_URL")
            how = f"see that its server runs, and the address is right ({setting})"
            raise ModelError(f"{self.name} at {self._url} cannot be reached: {error}; {how}", "network") from None
        except httpx2.HTTPError as error:
            what = str(error) or type(error).__name__
            raise ModelError(f"the connection to {self.name} at {self._url} failed: {what}", "network") from None

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            from ..boundary.network.dial import guarded_client

            headers = {"content-type": "application/json", "accept": "text/event-stream", **self._headers}
            self._client = guarded_client(self._guard, headers=headers, follow_redirects=False)
        return self._client

    async def _check(self, response: httpx2.Response) -> None:
        """Raise ModelError unless the response is a stream of events, or JSON of a server that does not stream."""
        kind = response.headers.get("content-type", "")
        if response.is_success and ("event-stream" in kind or "json" in kind or not kind):
            return
        body = bytearray()
        with suppress(TimeoutError):  # what has come by then is enough
            async with asyncio.timeout(self._idle):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_ERROR:
                        break
        if not response.is_success:
            text = self._shown(bytes(body[:MAX_ERROR]).decode("utf-8", "replace"))  # before it is cut
            raise error_of(response.status_code, text, response.headers, f"{self.name} at {self._url}", self._key)
        raise ModelError(
            f"{self._url} answered with {kind}, not with a reply of a model; check the base URL", "protocol"
        )

    async def _events(self, chunks: AsyncIterator[bytes], decoder: Decoder) -> AsyncGenerator[ModelEvent]:
        """Yield the events of a reply. A silence is measured from event to event, without the time of our caller."""
        loop = asyncio.get_running_loop()
        parser, turns = SseParser(), Turns()
        end = loop.time() + self._idle
        seen, size, calls = NOTHING, 0, 0
        while True:
            coming: Any = anext(chunks, None)
            try:
                waiting = coming.send(None)
            except StopIteration as stop:  # it had arrived already: a timer would only cost
                chunk: bytes | None = stop.value
            else:
                try:
                    async with asyncio.timeout_at(end):
                        chunk = await drive(coming, waiting, None)
                except TimeoutError:
                    raise ModelError(f"{self.name} sent nothing for {self._idle:g} s", "silent") from None
            if chunk is None:
                break
            if (size := size + len(chunk)) > MAX_REPLY:
                raise ModelError(f"{self.name} sent more than {MAX_REPLY >> 20} MiB in one reply", "protocol")
            for at in range(0, len(chunk), PIECE):  # it may be many lines without an event
                piece = chunk[at : at + PIECE]
                for decoded in self._decoded(parser.feed(piece), decoder):
                    for event in decoded:
                        calls += isinstance(event, CallBegun)
                        yield event
                    if calls > MAX_CALLS:
                        raise ModelError(f"{self.name} sent more than {MAX_CALLS:,} calls in one reply", "protocol")
                    if decoder.usage is not seen and decoder.usage != seen:
                        seen = decoder.usage
                        yield UsageSeen(seen)
                    end = loop.time() + self._idle
                    await turns.after(b"")
                await turns.after(piece)
        yield ReplyEnd(self._finished(parser, decoder))

    def _decoded(self, found: Iterator[tuple[str, str]], decoder: Decoder) -> Iterator[Iterable[ModelEvent]]:
        try:
            for event, data in found:
                yield [_whole(each) for each in decoder.take(event, data)]
        except UNREADABLE as error:
            raise self._unreadable(error) from error

    def _finished(self, parser: SseParser, decoder: Decoder) -> ModelTurn:
        for event, data in parser.close():
            try:
                decoder.take(event, data)
            except UNREADABLE:  # cut off within the event
                break
        try:
            return decoder.finish().whole()
        except UNREADABLE as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ModelError:
        return ModelError(f"{self.name} sent an event that cannot be read: {error!r}", "protocol")


def _whole(event: ModelEvent) -> ModelEvent:
    """Return an event without halves of characters, which can be neither shown nor stored. Raises AttributeError for a
    value that is not a text."""
    if isinstance(event, TextDelta | ThinkingDelta | CallBegun):
        text = event.name if isinstance(event, CallBegun) else event.text
        return event if text.isascii() else type(event)(whole_characters(text))
    return event


def _pause(error: ModelError, number: int) -> float:
    if error.retry_after is not None:
        return error.retry_after
    return FIRST_PAUSE * 2 ** (number - 1) * random.uniform(1.0, 1.5)  # noqa: S311
