"""One tool call that runs in a task of its own, and may stop at a question that a later request answers.

Its own task for two reasons. The MCP SDK cancels a request's scope again and again until it has left; a tool that
cleans up after a cancellation (ends a process tree, say) would never finish that. And in the 2026-07-28 protocol a
question ends the request: the call waits, half done, for the client to come back with the answer, so that nothing
it did before is done twice.
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
"""How long a cancelled call may take to clean up before it is left behind (exec gives its processes less)."""

Questions = Mapping[str, Any]
Answers = Mapping[str, Any]


class RunningCall:
    """A call under way. Requests take turns at it: `turn()` returns its output, or the questions it stopped at."""

    def __init__(self, work: Coroutine[Any, Any, ToolOutput]) -> None:
        self.questions: Questions | None = None
        self._answers: asyncio.Future[Answers] | None = None
        self._turn: asyncio.Future[None] | None = None
        self._asking = asyncio.Lock()
        self._ending = False
        self.task = asyncio.create_task(work)
        self.task.add_done_callback(self._wake)

    async def turn(self) -> ToolOutput | Questions:
        """Wait for the output or the next questions. Cancelling the waiter ends the call."""
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
        """From inside the call: stop at these questions until `answer` comes. One at a time."""
        async with self._asking:
            self._answers = asyncio.get_running_loop().create_future()
            self.questions = questions
            self._wake()
            try:
                return await self._answers
            finally:
                self.questions = self._answers = None

    def answer(self, answers: Answers) -> None:
        """Let the call go on; follow with `turn()`."""
        waiting = self._answers
        self.questions = self._answers = None
        if waiting is not None and not waiting.done():
            waiting.set_result(answers)

    async def end(self) -> None:
        """Cancel the call once and wait until it is gone, whatever cancels us meanwhile."""
        if self.task.done():
            return
        if not self._ending:  # whoever comes second only waits: another cancel would hit the cleaning up
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
    """The call was cancelled from elsewhere: the server stops, or nobody answered its question in time."""
