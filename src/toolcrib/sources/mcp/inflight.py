"""Track the running calls of one connection with their time limits, and find the call that a question belongs to.

In the handshake era a question of a server does not say which call it belongs to. If the transport knows the task
that received it, it belongs to that task's call; otherwise to the only caller. While calls of several callers run, the
question waits: a call that has asked is not answered first, so the calls that are answered have not asked. Tools that
may have asked no longer run at the same time as another caller's calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from ...core.context import ToolContext
from ...core.dataclass import dataclass
from .downstream import downstream_of

PARKED_SECONDS, LOOK_SECONDS = 5.0, 0.5
"""How long an unanswered question blocks calls of other callers, and how often they check. In seconds."""
TOLD_SECONDS = 2.0
"""How many seconds an answer waits for earlier notifications. A client that does not read cannot block it."""

MAX_TELLING = 1_000
"""How many notifications of a call may wait for a client that reads more slowly than its server writes."""


class Expired(Exception):
    """The time limit has passed. `progressed` says whether progress was reported before."""

    def __init__(self, seconds: float, progressed: bool) -> None:
        super().__init__(seconds)
        self.seconds, self.progressed = seconds, progressed


class ProgressTimeout:
    """`async with ProgressTimeout(idle, most) as timeout`, in seconds. Progress extends the time, up to `most`."""

    def __init__(self, idle: float, most: float) -> None:
        self._idle, self._most = idle, max(idle, most)
        self._timeout = asyncio.timeout(None)
        self._progressed = False
        self._asking = 0
        self._asked_at = 0.0

    async def __aenter__(self) -> ProgressTimeout:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + self._most
        await self._timeout.__aenter__()
        self._extend()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self._timeout.__aexit__(*error)
        except TimeoutError:
            raise self._expired() from None
        if self._timeout.expired():
            raise self._expired()

    def _expired(self) -> Expired:
        return Expired(self._most if self._loop.time() >= self._end else self._idle, self._progressed)

    def progress(self) -> None:
        """Record that progress was reported."""
        self._progressed = True
        self._extend()

    def ask(self) -> None:
        """Stop the clock while a person is asked. Calls of this may be nested."""
        self._asking += 1
        if self._asking == 1:
            self._asked_at = self._loop.time()
            self._reschedule(None)

    def answered(self) -> None:
        """Start the clock again after an answer."""
        self._asking -= 1
        if self._asking == 0:
            self._end += self._loop.time() - self._asked_at
            self._extend()

    def _extend(self) -> None:
        if not self._asking:
            self._reschedule(min(self._loop.time() + self._idle, self._end))

    def _reschedule(self, when: float | None) -> None:
        if not self._timeout.expired():
            try:
                self._timeout.reschedule(when)
            except RuntimeError:  # already over
                pass


@dataclass(slots=True, eq=False)
class InFlight:
    """A running call on a server: its tool, context, timeout and caller."""

    tool: str
    ctx: ToolContext
    timeout: ProgressTimeout
    caller: Hashable
    answered: bool = False
    """Whether the server has answered it."""
    asking: int = 0
    """How many of its questions wait for an answer."""
    questions: int = 0
    """How many it has asked."""
    since: float = 0.0
    """When it last asked, by the clock of its loop."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _telling: int = 0
    _told: asyncio.Future[None] | None = None

    async def tell(self, send: Callable[[], Awaitable[object]]) -> None:
        """Pass on a notification of the server during this call, unless too many still wait for its client.

        One is sent at a time: what else this client gets waits for one at most, not for all of them.
        """
        if self._telling >= MAX_TELLING:
            return
        self._telling += 1
        try:
            async with self._turn:
                await send()
        finally:
            self._telling -= 1
            if not self._telling and self._told is not None and not self._told.done():
                self._told.set_result(None)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Mark that one of its questions waits for an answer. This time does not count for its timeout."""
        self.asking += 1
        self.since = asyncio.get_running_loop().time()
        self.timeout.ask()
        try:
            yield
        finally:
            self.asking -= 1
            self.timeout.answered()

    async def told(self) -> None:
        """Wait until all notifications are passed on, so that the client gets them before the answer.

        After a timeout the rest is not waited for.
        """
        if self._telling:
            self._told = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._told}, timeout=TOLD_SECONDS)


def caller_of(ctx: ToolContext) -> Hashable:
    """Return the caller's identity for questions.

    A session of the handshake era is one person at one client. In 2026-07-28 a question is answered with the
    request that it stopped, so each request is a caller.
    """
    client = downstream_of(ctx)
    request = id(client) if client is not None and client.modern else None
    return ctx.session_id, ctx.channel, ctx.chat_id, request


current_call: ContextVar[InFlight | None] = ContextVar("toolcrib_mcp_call", default=None)
"""The call that this task works on."""


@dataclass(slots=True)
class CallsInFlight:
    """The running calls of one connection.

    `asks` are tools that asked when the call had to be guessed. `asks_more` are those that asked again before they
    had an answer.
    """

    running: set[InFlight] = field(default_factory=set[InFlight])
    asks: set[str] = field(default_factory=set[str])
    asks_more: set[str] = field(default_factory=set[str])
    _held: int = 0
    """How many questions wait until it is known whose they are."""
    _unanswered: int = 0
    """How many calls have ended without the server's answer."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one of the calls that run now ends."""

    def _own(self) -> InFlight | None:
        own = current_call.get()
        return own if own is not None and own in self.running else None

    def asked(self) -> InFlight | None:
        """Return the call that a server's message belongs to. None if this is unknown, because calls of several
        callers run."""
        own = self._own()
        if own is not None:
            return own
        if len({each.caller for each in self.running}) == 1:
            return next(iter(self.running))
        free = [each for each in self.running if not self._parked(each)]
        return free[0] if len({each.caller for each in free}) == 1 else None

    async def asker(self) -> InFlight | None:
        """Return the call that a question belongs to. While calls of several callers run, wait until the others are
        answered. The tools that may have asked are remembered.

        None if this cannot be known: a call ended without an answer, or each caller may have asked one.
        """
        if (own := self._own()) is not None:
            return own
        if len(self.running) == 1 and (only := next(iter(self.running))).asking:
            self.asks_more.add(only.tool)
        new = {each.tool for each in self.running} - self.asks
        self.asks |= new
        unanswered = self._unanswered
        self._held += 1
        try:
            while (mine := self.asked()) is None and self._held < len({each.caller for each in self.running}):
                await self._next_end()
                if self._unanswered != unanswered:
                    return None
        finally:
            self._held -= 1
        if mine is not None:
            self.asks -= new - {each.tool for each in self.running if each.caller == mine.caller}
        return mine

    def of_one_session(self) -> InFlight | None:
        """Return the call that the question for the roots belongs to, or any call if all are of one session, because
        its roots are the same for all.

        Many servers ask it at their start, and it asks no person: so no tool has to run alone because of it.
        """
        mine = self.asked()
        if mine is None and len({each.ctx.session_id for each in self.running}) == 1:
            mine = next((each for each in self.running if each.ctx.session_id is not None), None)
        return mine

    async def turn(self, tool: str, caller: Hashable) -> None:
        """Wait until a call of this tool by this caller may run."""
        while self._must_wait(tool, caller):
            await self._next_end()

    async def _next_end(self) -> None:
        """Wait until a call ends, or until it is time to look at the others again."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), LOOK_SECONDS)

    def _must_wait(self, tool: str, caller: Hashable) -> bool:
        if not self.asks:
            return False
        mine = tool in self.asks
        others = (each for each in self.running if each.caller != caller and not self._parked(each))
        return any(mine or each.tool in self.asks for each in others)

    def _parked(self, call: InFlight) -> bool:
        """Whether a call has waited so long for an answer that probably no person is there.

        It no longer blocks others. Questions are not attributed to it, unless its tool asks several at once.
        """
        waits = call.asking and asyncio.get_running_loop().time() - call.since > PARKED_SECONDS
        return bool(waits) and call.tool not in self.asks_more

    def begin(self, call: InFlight) -> None:
        """Add a running call."""
        self.running.add(call)

    def end(self, call: InFlight) -> None:
        """Remove a finished call, and let waiting calls and questions check again."""
        self.running.discard(call)
        self._unanswered += not call.answered
        self._ended.set()
        self._ended = asyncio.Event()
