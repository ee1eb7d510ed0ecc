"""Daemon threads: for sync tools, and an event loop for callers that have none. They never delay exit.

A thread that is stuck in a tool is counted and replaced. One caller takes at most half of the threads that are free.

Not `concurrent.futures`: its threads are joined at interpreter exit, so one stuck tool would hang the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, cast

from .caller import finds_room, name_of
from .context import current_context

_IDLE_SECONDS = 30.0

P = ParamSpec("P")
T = TypeVar("T")


class ThreadsExhausted(RuntimeError):
    """Every thread is busy, most likely with stuck tools."""


_pools: weakref.WeakSet[ToolThreads] = weakref.WeakSet()
_importing: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_IMPORT_SECONDS = 5.0


def import_in(thread: threading.Thread) -> None:
    """Start a thread that imports modules. A fork waits until it ends: the module that it imports would stay locked in
    the child."""
    _importing.add(thread)
    thread.start()


def _before() -> None:
    for thread in list(_importing):
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join(_IMPORT_SECONDS)


def _in_child() -> None:
    for pool in list(_pools):
        pool.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)


class ToolThreads:
    """A pool of daemon threads that grows to `limit` plus the number of abandoned (stuck) ones, up to `max_stuck`."""

    def __init__(self, limit: int = 32, max_stuck: int = 64) -> None:
        self._limit = limit
        self._max_stuck = max_stuck
        self.begin_anew()
        _pools.add(self)

    def begin_anew(self) -> None:
        """Forget all threads and jobs: those of the parent do not exist in a forked child."""
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._jobs: deque[_Job] = deque()
        self._held: deque[_Job] = deque()
        """Jobs that wait until their caller may have another thread."""
        self._taken: Counter[str | None] = Counter()
        """How many threads each caller has, or will have soon; abandoned ones, too, until they come back."""
        self._stuck_of: Counter[str | None] = Counter()
        self._idle = 0
        self._alive = 0
        self.stuck = 0

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(*args, **kwargs)` in a thread with this task's context variables, and return its result.

        Cancelling abandons the thread. Raises what `fn` raises, and ThreadsExhausted if too many threads are stuck.
        """
        loop = asyncio.get_running_loop()
        job = _Job(functools.partial(fn, *args, **kwargs), contextvars.copy_context(), loop, loop.create_future())
        with self._lock:
            if self.stuck >= self._max_stuck:
                raise ThreadsExhausted(
                    f"{self.stuck} earlier tool calls are stuck in their threads; no more are started"
                )
            mine = self._taken[job.caller]
            if mine == self._stuck_of[job.caller] and not finds_room(job.caller, mine, mine, self._limit):
                raise ThreadsExhausted(
                    f"all {mine} threads that {job.caller!r} may have are stuck in its earlier calls; no more are "
                    "started for it until one comes back"
                )
            self._held.append(job)
            self._begin()
        try:
            return cast("T", await job.future)
        except asyncio.CancelledError:
            with self._lock:
                if job in self._held:
                    self._held.remove(job)
                elif job in self._jobs:
                    self._jobs.remove(job)
                    self._leave(job)
                elif not job.finished:
                    job.abandoned = True
                    self.stuck += 1
                    self._stuck_of[job.caller] += 1
                    if self._jobs and not self._idle:
                        self._grow()
            raise

    async def run_to_end(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same, but a cancellation waits until `fn` has returned: afterwards it has no effects any more."""
        running = asyncio.ensure_future(self.run(fn, *args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # nobody asks for it any more
            raise

    async def make(self, fn: Callable[[], T], discard: Callable[[T], object]) -> T:
        """Run `fn` in a thread and return what it makes. After a cancellation, what it has made or still makes is given
        to `discard`. Raises the same errors as `run`."""
        making = asyncio.ensure_future(self.run(fn))

        def unwanted(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                discard(done.result())

        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(unwanted)
            raise

    def _begin(self) -> None:
        """Let the jobs begin whose caller may have another thread."""
        for job in tuple(self._held):
            if finds_room(job.caller, self._taken[job.caller], self._taken.total(), self._limit):
                self._held.remove(job)
                self._taken[job.caller] += 1
                self._jobs.append(job)
                if self._idle >= len(self._jobs):
                    self._wake.notify()
                else:
                    self._grow()

    def _leave(self, job: _Job) -> None:
        self._taken[job.caller] -= 1
        if not self._taken[job.caller]:
            del self._taken[job.caller]
        self._begin()

    def _grow(self) -> None:
        if self._alive - self.stuck < self._limit:
            self._alive += 1
            threading.Thread(target=self._work, name="toolcrib-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._jobs:
                    self._idle += 1
                    woken = self._wake.wait(_IDLE_SECONDS)
                    self._idle -= 1
                    if not woken and not self._jobs:
                        self._alive -= 1
                        return
                job = self._jobs.popleft()
            job.run()
            with self._lock:
                job.finished = True
                if job.abandoned:
                    self.stuck -= 1
                    self._stuck_of -= Counter([job.caller])
                self._leave(job)
            del job  # with the context of its call, which may hold a large request, while this thread waits


class _Job:
    __slots__ = ("abandoned", "caller", "context", "finished", "fn", "future", "loop")

    def __init__(
        self,
        fn: Callable[[], Any],
        context: contextvars.Context,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
    ) -> None:
        self.fn, self.context, self.loop, self.future = fn, context, loop, future
        self.caller = name_of(current_context().caller)
        self.finished = self.abandoned = False

    def run(self) -> None:
        try:
            result, error = self.context.run(self.fn), None
        except BaseException as caught:
            result, error = None, caught
            if isinstance(error, StopIteration | KeyboardInterrupt | GeneratorExit | asyncio.CancelledError):
                # a future refuses to carry the first; the others would mean something else on the loop
                error = RuntimeError(f"the tool raised {type(error).__name__}")
        try:
            self.loop.call_soon_threadsafe(self._deliver, result, error)
        except RuntimeError:  # the loop was closed meanwhile
            pass

    def _deliver(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


shared_threads = ToolThreads()


class LoopThread:
    """An event loop on a daemon thread, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolcrib-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result; interrupting the wait cancels it.

        Raises what it raises, and RuntimeError on that loop's own thread, and in a forked child, which has no such
        thread.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("call_sync was called from the toolbox's own loop; await call() instead")
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this toolbox was opened before its process was forked; open one in each process")
        future: Any = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine there without waiting for it. What it raises is dropped."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there without blocking the calling loop; cancelling the wait cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """Stop the loop. Does nothing in a forked child."""
        if not self._thread.is_alive():
            return

        async def end() -> None:
            tasks: list[asyncio.Task[Any]] = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=2) if tasks else None

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
