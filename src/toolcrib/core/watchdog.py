"""Reports a coroutine that blocks the event loop: its tool's name and its place in the code.

A timeout cannot end a coroutine that never returns to the loop, so the watchdog at least says which one it is.
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from .stages import Stages
    from .tool import Tool

log = logging.getLogger("toolcrib.watchdog")

BLOCKED_SECONDS = 1.0
"""How long the loop may not answer before it counts as blocked."""


class Watchdog:
    """A daemon thread that checks whether the loop answers. If not, it logs the blocking tool, once per blockage.

    Start it on the loop's own thread. Its rounds cost the loop one callback each.
    """

    def __init__(
        self, stages: Stages, loop: asyncio.AbstractEventLoop, *, blocked_after: float = BLOCKED_SECONDS
    ) -> None:
        self._stages, self._loop, self._after = stages, loop, blocked_after
        self._loop_thread = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch. Does nothing if it watches already."""
        if self._thread is not None:
            return
        self._loop_thread = threading.get_ident()
        self._stages.watchers += 1
        self._ended.clear()
        self._thread = threading.Thread(target=self._watch, name="toolcrib-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Safe to call twice, from any thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stages.watchers -= 1
        self._ended.set()
        if thread is not threading.current_thread():
            thread.join(5 * self._after)

    def _watch(self) -> None:
        while not self._ended.is_set():
            alive = threading.Event()
            asked = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(alive.set)
            except RuntimeError:  # the loop was closed
                return
            if not alive.wait(self._after) and not self._ended.is_set():
                self._report(time.monotonic() - asked)
                while not alive.wait(self._after) and not self._ended.is_set():
                    if self._loop.is_closed():
                        return
            self._ended.wait(self._after / 2)

    def _report(self, seconds: float) -> None:
        if not self._loop.is_running():  # stopped or between two runs, not blocked
            return
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
        frames = [] if frame is None else list(traceback.walk_stack(frame))[::-1]
        running = list(self._stages.running.copy().values())
        codes = {frame.f_code for frame, _ in frames}
        blocking = next((tool.name for tool in running if _code(tool) in codes), None)
        log.log(
            logging.WARNING if running else logging.DEBUG,  # no call waits, as while a program starts
            "the event loop has been blocked for %.1f s %s; calls under way: %s\n%s",
            seconds,
            f"by the tool {blocking}" if blocking else "by something other than a tool",
            ", ".join(tool.name for tool in running[:20]) or "none",
            "".join(traceback.StackSummary.extract(iter(frames)).format()),
        )


def _code(tool: Tool) -> object:
    """Return the code object of a tool's function."""
    return getattr(inspect.unwrap(tool.handler), "__code__", None)
