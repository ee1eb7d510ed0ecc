"""One tool call that runs in its own task, and can pause at a question that a later request answers.

The call has its own task for two reasons. First, the MCP SDK cancels a request's scope repeatedly until the code
has left it; a tool that cleans up after a cancellation (for example, ends a process tree) would never finish.
Second, in the 2026-07-28 protocol a question ends the request: the paused call waits until the client returns with
the answer, so that no work is done twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

import anyio

from ..core.output import ToolOutput

log = logging.getLogger("toolcrib.serve")

END_SECONDS = 10.0
"""How long a cancelled call may take to clean up before it is abandoned (exec gives its processes less)."""

Questions = Mapping[str, Any]
Answers = Mapping[str, Any]


class RunningCall:
    """A running call. Requests take turns at it: `turn()` returns its output, or the questions at which it paused."""

    def __init__(self, work: Coroutine[Any, Any, ToolOutput]) -> None:
        self.questions: Questions | None = None
        self._answers: asyncio.Future[Answers] | None = None
        self._turn: asyncio.Future[None] | None = None
        self._asking = asyncio.Lock()
        self._ending = False
        self.task = asyncio.create_task(work)
        self.task.add_done_callback(self._wake)

    async def turn(self) -> ToolOutput | Questions:
        """Wait for the output or the next questions.

        Cancelling the waiter ends the call. Raises CallEnded if the call was cancelled.
        """
        if not self.task.done() and self.questions is None:
            self._turn = asyncio.get_running_loop().create_future()
            try:
                await self._turn
            except asyncio.CancelledError:
                await self.end()
                raise
        if self.questions is not None:
            return self.questions
        if self.task.cancelled():
            raise CallEnded
        return self.task.result()

    async def ask(self, questions: Questions) -> Answers:
        """Called from inside the call: pause at these questions until `answer` is called. One `ask` at a time."""
        async with self._asking:
            self._answers = asyncio.get_running_loop().create_future()
            self.questions = questions
            self._wake()
            try:
                return await self._answers
            finally:
                self.questions = self._answers = None

    def answer(self, answers: Answers) -> None:
        """Give the answers to the paused call so that it continues. Follow with `turn()`."""
        waiting = self._answers
        self.questions = self._answers = None
        if waiting is not None and not waiting.done():
            waiting.set_result(answers)

    async def end(self) -> None:
        """Cancel the call once and wait until it has ended, even if the waiter is cancelled."""
        if self.task.done():
            return
        if not self._ending:  # a second caller only waits: another cancellation would interrupt the cleanup
            self._ending = True
            self.task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({self.task}, timeout=END_SECONDS)
        if not self.task.done():
            log.error("a cancelled tool call did not end within %g s and was left behind", END_SECONDS)

    def _wake(self, _task: Any = None) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)


class CallEnded(Exception):
    """The call was cancelled: the server is stopping, or no answer to its question came in time."""
