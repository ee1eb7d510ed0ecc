"""Handle the signals of a server on its event loop: those that end it, so that calls and their processes end first, and
SIGHUP, which may mean that its configuration is read again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if sys.platform != "win32" else ()


@contextmanager
def stop_signal(hung_up: asyncio.Event | None = None) -> Generator[asyncio.Event]:
    """Yield an event that SIGTERM, SIGINT and SIGHUP set.

    With `hung_up`, SIGHUP sets that event instead, except when the terminal of the process has been closed. None is set
    on Windows, or if this does not run on the main thread.
    """
    stopped = asyncio.Event()
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    if hung_up is not None:
        had_terminal = _has_terminal()

        def hang_up() -> None:
            (stopped if had_terminal and not _has_terminal() else hung_up).set()

        loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        yield stopped
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
