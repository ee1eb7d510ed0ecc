"""Shows on a terminal which calls are running, once they have taken a while. Silent everywhere else."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
from typing import TYPE_CHECKING, Any

from ..core.bound import safe
from ..core.events import ApprovalRequested, ApprovalResolved, CallFinished, CallProgress, CallStarted
from ..policy.plain import plain_line
from . import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.events import EventStream

QUIET_SECONDS = 0.5  # a call that ends before that needs no display
FRAME_SECONDS = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR = "\r\x1b[2K"


class Progress:
    """Shows a line with the running calls on stderr. Listens to events, which may come from any thread."""

    def __init__(self, events: EventStream) -> None:
        self._running: dict[str, str] = {}
        self._frames = itertools.cycle(_FRAMES)
        self._shown = False
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._stop: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        if sys.stderr.isatty() and show.coloured(sys.stderr):
            self._stop = events.subscribe(self._hear)

    def pause(self) -> None:
        """Hide the line until an approval is resolved."""
        self._paused = True
        self._hide()

    def close(self) -> None:
        """Hide the line for good."""
        self._stop()
        self._running.clear()
        self._hide()

    def _hear(self, event: Any) -> None:
        self._loop.call_soon_threadsafe(self._on, event)

    def _on(self, event: Any) -> None:
        match event:
            case CallStarted():
                self._running[event.call_id] = event.tool
            case CallProgress():
                part = f" {event.done:g}/{event.total:g}" if event.total else f" {event.done:g}"
                self._running[event.call_id] = f"{event.tool}{part} {safe(event.message or '')[:60]}".rstrip()
            case CallFinished():
                self._running.pop(event.call_id, None)
            case ApprovalRequested():
                self._paused = True
            case ApprovalResolved():
                self._paused = False
            case _:
                return
        self._show()

    def _show(self) -> None:
        if not self._running or self._paused:
            self._hide()
        elif self._timer is None:
            self._timer = self._loop.call_later(QUIET_SECONDS, self._draw)

    def _draw(self) -> None:
        """Write the next frame over the last one, and ask for the one after."""
        text = plain_line(", ".join(self._running.values()))
        room = shutil.get_terminal_size().columns - 3
        print(f"{_CLEAR}{next(self._frames)} {text[:room]}", end="", file=sys.stderr, flush=True)
        self._shown = True
        self._timer = self._loop.call_later(FRAME_SECONDS, self._draw)

    def _hide(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
            self._shown = False
