"""Runs a coroutine for a command. Ctrl-C and the end of the terminal cancel it, and it closes its resources."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end. SIGINT raises KeyboardInterrupt, SIGTERM and SIGHUP SystemExit(128 + n), after cleaning up."""
    from ..boundary.process_tree import claim_process

    claim_process()
    caught: list[int] = []

    async def guarded() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            caught.append(number)
            task.cancel()

        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # Windows; not the main thread
                loop.add_signal_handler(number, end, number)
        return await work

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise SystemExit(128 + caught[0] if caught else 130) from None
