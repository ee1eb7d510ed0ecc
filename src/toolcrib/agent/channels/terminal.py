"""The terminal as a channel: messages are printed, and lines that are typed are messages."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable

from ...core.bound import safe
from ..bus import Deliver, InboundMessage, OutboundMessage

SENDER = "terminal"
"""The sender of what is typed at the terminal: the person who started the program. They may answer approvals."""
CHAT = "terminal"


class TerminalChannel:
    """Prints messages with `write`, and reads `lines`; without them it only prints."""

    def __init__(
        self, name: str, write: Callable[[str], object], lines: Callable[[], AsyncIterator[str]] | None = None
    ) -> None:
        self._name, self._write, self._lines = name, write, lines

    async def send(self, message: OutboundMessage) -> None:
        """Print a message and the names of its files: text, and nothing that a terminal would obey."""
        files = "".join(f"\n[file: {os.path.basename(path)}]" for path in message.media)
        self._write(safe(message.content + files).replace("\r\n", "\n").replace("\r", "\\r"))

    async def listen(self, deliver: Deliver) -> None:
        """Deliver each line that is typed."""
        if self._lines is None:
            return
        async for line in self._lines():
            if line.strip():
                await deliver(InboundMessage(self._name, SENDER, CHAT, line.strip()))

    async def aclose(self) -> None:
        """Do nothing: the terminal stays open."""
