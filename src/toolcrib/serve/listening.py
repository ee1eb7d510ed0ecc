"""Listens on an address, and serves HTTP there with uvicorn."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from ..core.errors import ConfigError


def listen(host: str, port: int, who: str) -> socket.socket:
    """Return a socket that listens there. Raises ConfigError, naming who cannot listen."""
    # The protocol is named because asyncio turns Nagle's algorithm off only for sockets that are explicitly TCP. With
    # it on, every answer of more than one segment waits 40 ms for the client's delayed acknowledgement.
    hints = {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP, "flags": socket.AI_PASSIVE}
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host.strip("[]") or None, port, **hints)[0]
        listener = socket.socket(family, kind, proto)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:  # a host such as a..b is UnicodeError
        reason = error.strerror or error if isinstance(error, OSError) else error
        part = "port" if getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES) else "host"
        raise ConfigError(f"{who} cannot listen on {host}:{port}: {reason}; choose another {part}") from None
    return listener


class ReportingServer(uvicorn.Server):
    """Uvicorn that reports when it listens and does not handle signals.

    Uvicorn's own signal handling kills the process, including the toolbox.
    """

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._listening()
