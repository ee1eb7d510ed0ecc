"""The parts that a pipeline's stages use: policy, record, loop guard, redaction, hooks, events, and a gate.

The gate lets an exclusive call run alone: no other call of the registry runs meanwhile, on any event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING

from .dataclass import dataclass
from .events import EventStream
from .threads import ToolThreads, shared_threads

if TYPE_CHECKING:
    from .bound import Redact, Spill
    from .caller import Caller
    from .interfaces import Authorizer, CallGuard, Hook, Intent, Labeller, Middleware, Tape
    from .tool import Tool


class Gate:
    """Lets in one exclusive call, or any number of others, in the order of arrival.

    `needed` is true if an exclusive tool exists. Calls made by a tool do not wait for the tool's own gate.
    """

    def __init__(self) -> None:
        self.needed = False
        self._inside: ContextVar[bool] = ContextVar("toolcrib_gate", default=False)
        self._lock = threading.Lock()
        self._active = 0
        self._alone = False
        self._queue: deque[_Hold] = deque()

    @asynccontextmanager
    async def hold(self, exclusive: bool) -> AsyncGenerator[None]:
        """Hold the gate, alone or with others."""
        if self._inside.get():
            yield
            return
        hold = _Hold(exclusive)
        try:
            waiter = self._enter(hold)
            if waiter is not None:
                await waiter
            token = self._inside.set(True)
            try:
                yield
            finally:
                with suppress(ValueError):  # closed from another context
                    self._inside.reset(token)
        finally:
            self._leave(hold)

    def _enter(self, hold: _Hold) -> asyncio.Future[None] | None:
        """Take the gate now (None), or return a future to wait for."""
        with self._lock:
            if not self._queue and self._free(hold):
                self._count(hold)
                return None
            hold.waiter = asyncio.get_running_loop().create_future()
            self._queue.append(hold)
            return hold.waiter

    def _leave(self, hold: _Hold) -> None:
        """Release the gate, or give up waiting, and let the next call in."""
        with self._lock:
            if not hold.inside:
                if hold in self._queue:
                    self._queue.remove(hold)
            elif hold.exclusive:
                self._alone = False
            else:
                self._active -= 1
            hold.inside = False
            while self._queue and self._free(self._queue[0]):
                following = self._queue.popleft()
                if following.wake():
                    self._count(following)

    def _free(self, hold: _Hold) -> bool:
        return not self._alone and not (hold.exclusive and self._active)

    def _count(self, hold: _Hold) -> None:
        hold.inside = True
        if hold.exclusive:
            self._alone = True
        else:
            self._active += 1


class _Hold:
    def __init__(self, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.inside = False
        self.waiter: asyncio.Future[None] | None = None

    def wake(self) -> bool:
        waiter = self.waiter
        assert waiter is not None
        try:
            waiter.get_loop().call_soon_threadsafe(lambda: waiter.done() or waiter.set_result(None))
            return True
        except RuntimeError:  # its loop was closed
            return False


@dataclass(eq=False)
class Stages:
    """The parts of one registry's stages, shared by its views. Empty stages are skipped. Any field may change later."""

    authorizer: Authorizer | None = None
    of_caller: Callable[[Caller], Authorizer] | None = None
    """Returns the authorizer for the calls of one caller. Unset: the same one."""
    intent: Intent | None = None
    guard: CallGuard | None = None
    labeller: Labeller | None = None
    redact: Redact | None = None
    secrets: Callable[[Tool, str], str] | None = None
    """`secrets(tool, name)` returns the value of a secret that was granted to the tool, or raises ToolError."""
    spill: Spill | None = None
    errors_as_text: tuple[str, ...] = ()
    """Tools whose texts that begin with "Error:" are failures, besides those that say so themselves."""
    dry_run: bool = False
    tape: Tape | None = None
    middleware: tuple[Middleware, ...] = ()
    hooks: tuple[Hook, ...] = ()
    events: EventStream = field(default_factory=EventStream)
    threads: ToolThreads = shared_threads
    gate: Gate = field(default_factory=Gate)
    changing: defaultdict[str | None, Gate] = field(default_factory=lambda: defaultdict(Gate, {None: Gate()}))
    """Let in one call of a caller at a time that changes files: what a path means depends on others (`HEAD` and
    `config`). Callers do not wait for each other."""
    changes: int = 0
    """How many of them have ended."""
    watchers: int = 0
    running: dict[int, Tool] = field(default_factory=dict[int, "Tool"])
    """Calls under way, by the identity of their contexts; filled only while `watchers` is not 0."""
    cleared: dict[Tool, bool] = field(default_factory=dict["Tool", bool])
    """Whether the authorizer allows every call of a tool, for the tools that it was asked about."""
    policy_version: int = 0

    def policy_changed(self) -> None:
        """Forget which tools are allowed, and how they were listed."""
        self.cleared.clear()
        self.policy_version += 1

    def authorizer_of(self, caller: Caller | None) -> Authorizer | None:
        """Return the authorizer for the calls of a caller, or of everybody."""
        return self.authorizer if caller is None or self.of_caller is None else self.of_caller(caller)

    def hides(self, tool: Tool, caller: Caller | None = None) -> bool:
        """Return whether the policy denies every call of this tool: everybody's, or those of a caller."""
        authorizer = self.authorizer_of(caller)
        return authorizer is not None and authorizer.hides(tool)

    def must_authorize(self, tool: Tool, caller: Caller | None = None) -> bool:
        """Return whether the authorizer has to be asked about a call of this tool. It is asked about every call of a
        caller."""
        return self.authorizer is not None and (caller is not None or not self.cleared.get(tool))

    def runs_freely(self, tool: Tool) -> bool:
        """Return whether a call needs nothing but to be bound, run and bounded: then no `Call` is made for it."""
        return not (
            self.events.listeners
            or self.guard is not None
            or self.hooks
            or self.middleware
            or self.gate.needed
            or self.tape is not None
            or (self.authorizer is not None and not self.cleared.get(tool))
            or ((self.intent is not None or self.dry_run) and not tool.is_read_only)
        )
