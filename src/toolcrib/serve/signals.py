"""Handle the signals that end a server on its event loop, so that calls and their processes end first."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if sys.platform != "win32" else ()


@contextmanager
def stop_signal() -> Generator[asyncio.Event]:
    """Yield an event that SIGTERM, SIGINT and SIGHUP set.

    It is never set on Windows, or if this does not run on the main thread.
    """
    stopped = asyncio.Event()
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
