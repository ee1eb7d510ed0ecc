"""A proxy for callers without a loop. All of them share one thread, so that no proxy waits for a loop of the host."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Coroutine
from typing import Any

from .dialling import Dial
from .domains import Admit
from .proxy_server import FilteringProxy, ProxyRefusal

log = logging.getLogger(__name__)


class ThreadProxy:
    """A FilteringProxy in the shared thread. The methods may be called from any thread, and do not block."""

    def __init__(self, admit: Admit, dial: Dial) -> None:
        self._proxy = FilteringProxy(admit, dial=dial)
        self._serves = False

    def serve(self, listener: socket.socket) -> None:
        """Serve a listening socket. Connections that come earlier wait in its backlog."""
        self._serves = True
        _run(self._proxy.serve(listener))

    def close(self) -> None:
        """Ask the proxy to close, without waiting."""
        if self._serves:
            _run(self._proxy.close())

    @property
    def refused(self) -> list[ProxyRefusal]:
        """Return the refusals so far."""
        return list(self._proxy.refused.values())


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(_logged(work), _shared_loop())


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:  # nothing waits for it
        log.exception("the proxy of a command failed")


def _shared_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="toolcrib-proxy", daemon=True).start()
        return _loop


def _after_fork() -> None:
    """Forget the thread in a forked child: it exists in the parent only."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
