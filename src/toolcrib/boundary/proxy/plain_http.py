"""Forward one plain HTTP request and return its answer. Both are written anew from what h11 read."""

from __future__ import annotations

import asyncio
import contextlib

import h11

from .byte_relay import relay_bytes
from .request_head import PIECE, BadRequest, Inbox, ProxyRequest, passed_on


class Forwarded:
    """A forwarded request: the client's side (`conn`), and a server connection for this request alone."""

    def __init__(
        self,
        request: ProxyRequest,
        conn: h11.Connection,
        inbox: Inbox,
        client: asyncio.StreamWriter,
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        most: int,
        idle: float,
    ) -> None:
        self._request, self._conn, self._inbox, self._client = request, conn, inbox, client
        self._reader, self._server = server
        self._idle = idle
        self._up = h11.Connection(h11.CLIENT, max_incomplete_event_size=most)
        self.begun = False
        """Whether the client has received some of the answer: then no other answer can be sent."""

    async def run(self) -> bool:
        """Send the request and return the answer. Return whether another request may follow on the client's
        connection."""
        self._server.write(self._up.send(self._request.onward()) or b"")
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
        self._inbox.give_back(self._conn.trailing_data[0])
        if switched:
            self._client.write(self._up.trailing_data[0])
            await relay_bytes(self._inbox, self._client, self._reader, self._server, self._idle)
            return False
        return self._conn.our_state is h11.DONE and self._conn.their_state is h11.DONE

    async def _send_body(self) -> None:
        while True:
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError as error:
                raise BadRequest(400, f"the body of the request is broken: {error}") from None
            if event is h11.NEED_DATA:
                self._conn.receive_data(await self._inbox.some())
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
            self._server.write(self._up.send(event) or b"")
            await self._server.drain()

    async def _receive(self) -> bool:
        """Forward the answer. Return whether the server switched protocols, so that HTTP ends here."""
        while True:
            event = self._up.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(self._idle):
                    self._up.receive_data(await self._reader.read(PIECE))
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    return await self._switch(event)
                if self._request.event.http_version >= b"1.1":
                    await self._tell(h11.InformationalResponse(status_code=event.status_code, headers=[]))
            elif isinstance(event, h11.Response):
                headers = passed_on(event.headers.raw_items())
                await self._tell(h11.Response(status_code=event.status_code, reason=event.reason, headers=headers))
            elif isinstance(event, h11.Data):
                await self._tell(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self._tell(h11.EndOfMessage())
                return False
            else:
                raise BadRequest(502, f"{self._request.where} closed the connection without an answer")

    async def _switch(self, event: h11.InformationalResponse) -> bool:
        """Forward a 101. Without a request for it h11 raises an error; the answer names the new protocol."""
        wanted = {b"upgrade", b"connection"}
        kept = [(name, value) for name, value in event.headers if name in wanted] + passed_on(event.headers.raw_items())
        await self._tell(h11.InformationalResponse(status_code=101, headers=kept, reason=event.reason))
        return True

    async def _tell(self, event: h11.Event) -> None:
        data = self._conn.send(event)
        if data:
            self.begun = True
            self._client.write(data)
            async with asyncio.timeout(self._idle):
                await self._client.drain()
