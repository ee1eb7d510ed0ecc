"""Lets an exclusive call run alone: no other call of the registry runs meanwhile, on any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextvars import ContextVar, Token

_inside: ContextVar[bool] = ContextVar("toolcrib_gate", default=False)
"""Whether this code runs inside a call that holds a gate. Calls made by a tool do not wait for the tool's own gate."""


class Gate:
    """Lets in one exclusive call, or any number of others, in the order of arrival.

    `needed` is true if an exclusive tool exists.
    """

    def __init__(self) -> None:
        self.needed = False
        self._lock = threading.Lock()
        self._active = 0
        self._alone = False
        self._queue: deque[_Hold] = deque()

    def hold(self, exclusive: bool) -> _Hold:
        """Hold the gate, alone or with others: an async context manager."""
        return _Hold(self, exclusive)

    def enter(self, hold: _Hold) -> asyncio.Future[None] | None:
        """Take the gate now (None), or return a future to wait for."""
        with self._lock:
            if not self._queue and self._free(hold):
                self._count(hold)
                return None
            hold.waiter = asyncio.get_running_loop().create_future()
            self._queue.append(hold)
            return hold.waiter

    def leave(self, hold: _Hold) -> None:
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
    __slots__ = ("_gate", "_token", "exclusive", "inside", "waiter")

    def __init__(self, gate: Gate, exclusive: bool) -> None:
        self._gate, self.exclusive = gate, exclusive
        self.inside = False
        self.waiter: asyncio.Future[None] | None = None
        self._token: Token[bool] | None = None

    def wake(self) -> bool:
        waiter = self.waiter
        assert waiter is not None
        try:
            waiter.get_loop().call_soon_threadsafe(lambda: waiter.done() or waiter.set_result(None))
            return True
        except RuntimeError:  # its loop was closed
            return False

    async def __aenter__(self) -> None:
        if _inside.get():
            return
        waiter = self._gate.enter(self)
        if waiter is not None:
            try:
                await waiter
            except BaseException:
                self._gate.leave(self)
                raise
        self._token = _inside.set(True)

    async def __aexit__(self, *_: object) -> None:
        if self._token is None:
            return
        try:
            _inside.reset(self._token)
        except ValueError:  # closed from another context
            pass
        self._gate.leave(self)
