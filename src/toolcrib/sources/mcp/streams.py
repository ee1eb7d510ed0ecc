"""Common parts of the streams between the SDK's sessions and a wire: one message is one line of JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import anyio
import mcp_types
from mcp.shared.message import SessionMessage


class MessageStream(ABC):
    """A stream that a session of the SDK enters and closes."""

    @abstractmethod
    async def aclose(self) -> None:
        """Accept no more messages, or stop reading."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class ReadStream(MessageStream):
    """A stream that a session of the SDK reads from. A subclass defines `receive` and `close`."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream after the last one, ClosedResourceError once this is closed."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading."""

    async def aclose(self) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def from_line(line: bytes | str) -> SessionMessage:
    """Return the message in a line. Raises ValueError if the line is not a message."""
    return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))


def to_line(item: SessionMessage) -> bytes:
    """Return a message as a line, with its newline."""
    return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace") + b"\n"
