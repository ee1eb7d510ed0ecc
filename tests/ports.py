"""Ports for programs that must be told one before they listen."""

import random
import socket

_random = random.SystemRandom()


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens, below those that the system gives to outgoing connections:
    one of those may be in use again before the program that was told it listens."""
    while True:
        port = _random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
