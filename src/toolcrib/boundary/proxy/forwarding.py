"""Forward what a client asked for: one plain HTTP request and its answer, or the bytes of a tunnel.

The request and the answer are written anew from what h11 read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import h11

from ...core.dataclass import dataclass
from ..network.decoding import Turns
from .request_head import PIECE, BadRequest, Inbox, ProxyRequest, passed_on

if TYPE_CHECKING:
    from .egress import Masker


async def relay_bytes(
    inbox: Inbox, client: asyncio.StreamWriter, reader: asyncio.StreamReader, server: asyncio.StreamWriter, idle: float
) -> None:
    """Relay bytes from the client to the server and back. End when both sides have closed, or after `idle` seconds
    without a byte in either direction."""
    loop = asyncio.get_running_loop()

    async def one_way(read: Callable[[], Awaitable[bytes]], writer: asyncio.StreamWriter) -> None:
        """Relay one direction. A failure of one side ends this direction, like a normal end: the other side may still
        send."""
        try:
            while data := await read():
                clock.reschedule(loop.time() + idle)
                writer.write(data)
                await writer.drain()
                clock.reschedule(loop.time() + idle)
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            writer.close()

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(idle) as clock, asyncio.TaskGroup() as both:
            both.create_task(one_way(inbox.some, server))
            both.create_task(one_way(lambda: reader.read(PIECE), client))


@dataclass
class Forwarded:
    """A forwarded request: the client's side (`conn`), and a server connection for this request alone. `masker` hides
    secrets in the answer."""

    request: ProxyRequest
    conn: h11.Connection
    inbox: Inbox
    client: asyncio.StreamWriter
    reader: asyncio.StreamReader
    server: asyncio.StreamWriter
    max_head: int
    idle: float
    masker: Masker | None
    begun: bool = False
    """Whether the client has received some of the answer: then no other answer can be sent."""

    def __post_init__(self) -> None:
        self._up = h11.Connection(h11.CLIENT, max_incomplete_event_size=self.max_head)

    async def run(self) -> bool:
        """Send the request and return the answer. Return whether another request may follow on the client's
        connection."""
        self.server.write(self._up.send(self.request.onward()) or b"")
        sending, receiving = asyncio.ensure_future(self._send_body()), asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()  # raises what is wrong with the client's side
            switched = await receiving
        finally:
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)
        self.inbox.give_back(self.conn.trailing_data[0])
        if switched:
            self.client.write(self._up.trailing_data[0])
            await relay_bytes(self.inbox, self.client, self.reader, self.server, self.idle)
            return False
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.DONE

    async def _send_body(self) -> None:
        turns = Turns()
        while True:
            await turns.after(b"")
            try:
                event = self.conn.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(400, f"the body of the request is broken: {error}") from None
            if event is h11.NEED_DATA:
                self.conn.receive_data(await self.inbox.some())
            elif isinstance(event, h11.Data):
                await self._pass(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self._pass(h11.EndOfMessage())
                return
            else:  # PAUSED, or the client has gone
                return

    async def _pass(self, event: h11.Event) -> None:
        """Send the request's body. A server that stops reading may have answered already: the answer decides."""
        with contextlib.suppress(OSError):
            self.server.write(self._up.send(event) or b"")
            await self.server.drain()

    async def _receive(self) -> bool:
        """Forward the answer. Return whether the server switched protocols, so that HTTP ends here."""
        turns = Turns()
        while True:
            await turns.after(b"")
            event = self._up.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(self.idle):
                    self._up.receive_data(await self.reader.read(PIECE))
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    return await self._switch(event)
                if self.request.event.http_version >= b"1.1":
                    await self._tell(h11.InformationalResponse(status_code=event.status_code, headers=[]))
            elif isinstance(event, h11.Response):
                headers, reason = passed_on(event.headers.raw_items()), event.reason
                if self.masker is not None:
                    if any(name == b"content-encoding" and value != b"identity" for name, value in event.headers):
                        raise BadRequest(502, f"{self.request.where} compressed its answer, which nobody asked for")
                    headers, reason = self.masker.headers(headers), self.masker.whole(reason)
                await self._tell(h11.Response(status_code=event.status_code, reason=reason, headers=headers))
            elif isinstance(event, h11.Data):
                await self._tell_body(event.data if self.masker is None else self.masker.more(event.data))
            elif isinstance(event, h11.EndOfMessage):
                if self.masker is not None:
                    await self._tell_body(self.masker.rest())
                await self._tell(h11.EndOfMessage())
                return False
            else:
                raise BadRequest(502, f"{self.request.where} closed the connection without an answer")

    async def _switch(self, event: h11.InformationalResponse) -> bool:
        """Forward a 101. Without a request for it h11 raises an error; the answer names the new protocol."""
        wanted = {b"upgrade", b"connection"}
        kept = [(name, value) for name, value in event.headers if name in wanted] + passed_on(event.headers.raw_items())
        await self._tell(h11.InformationalResponse(status_code=101, headers=kept, reason=event.reason))
        return True

    async def _tell_body(self, data: bytes) -> None:
        if data:
            await self._tell(h11.Data(data=data))

    async def _tell(self, event: h11.Event) -> None:
        data = self.conn.send(event)
        if data:
            self.begun = True
            self.client.write(data)
            async with asyncio.timeout(self.idle):
                await self.client.drain()
