"""Work that belongs to another event loop: sent there, waited for here, cancelled there if it is cancelled here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ...core.context import ToolContext

T = TypeVar("T")


async def on_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on that loop."""
    if loop is asyncio.get_running_loop():
        return await work()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))


def abroad(ctx: ToolContext) -> ToolContext:
    """The context for work on another loop: what it asks and reports comes back to this one."""
    home = asyncio.get_running_loop()
    asks, reports = ctx.ask, ctx.on_progress
    changes: dict[str, Any] = {}
    if asks is not None:

        async def ask(question: str, options: Sequence[str] = ()) -> str:
            return await on_loop(home, lambda: _run(asks(question, options)))

        changes["ask"] = ask
    if reports is not None:

        async def report(done: float, total: float | None, text: str | None) -> None:
            await on_loop(home, lambda: _run(reports(done, total, text)))

        changes["on_progress"] = report
    return replace(ctx, **changes)


async def _run(work: Awaitable[T]) -> T:
    return await work
