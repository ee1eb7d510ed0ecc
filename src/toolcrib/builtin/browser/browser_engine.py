"""Runs the browsers of a toolbox: each session has one, from its first page until it is over.

They run on a separate event loop, so that a toolbox may be called from any loop and from threads. Sessions do not share
a browser, because its answers come in one row: a page with many events would hold up the answers for all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from ...core.caller import finds_room, name_of
from ...core.context import ToolContext
from ...core.errors import ToolcribError, ToolError
from ...core.threads import LoopThread
from ..settings import BrowserSettings
from .snapshot import quoted

if TYPE_CHECKING:
    from ...boundary.network.address_guard import AddressGuard
    from ...core.tool import ToolOptions
    from ...core.tool_spec import CategoryName
    from ..outgoing import Gate
    from .browser_session import BrowserSession

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_SESSIONS = 16
MEMORY = 512 << 20  # bytes that must be free for one more session: a Chromium, its driver, and a page
BUSY_SECONDS = 30.0  # a session that was used so recently is not closed to make room
REAP_SECONDS = 5.0  # time between two checks for idle sessions
CLOSE_SECONDS = 30.0
_MAX_REMEMBERED = 1_000
ENDS_WITH_CALL = (
    "no page is open: each `toolcrib call` has a browser of its own, which ends with it. Pages stay open in a script "
    "(`toolcrib code FILE.py`), for the agent (`toolcrib run`) and for clients of `toolcrib serve`"
)


class Engine:
    """Runs work on sessions. `folder` has the profiles of their browsers; `gate` asks the policy about addresses.
    No program in a `writable` folder is started."""

    def __init__(
        self,
        settings: BrowserSettings,
        guard: Callable[[], AddressGuard],
        folder: Path,
        gate: Gate | None = None,
        user_agent: str | None = None,
        writable: Iterable[str | Path] = (),
    ) -> None:
        self.settings, self._user_agent = settings, user_agent
        self.guard = guard
        self._folder, self._gate, self._writable = folder, gate, tuple(writable)
        self._loop: LoopThread | None = None
        self._closed = False
        self._starting_thread = threading.Lock()
        self._sessions: dict[str, BrowserSession] = {}
        self._begun: set[str] = set()  # sessions that had pages: an error can say why the pages are gone
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._starting: dict[str, tuple[str | None, asyncio.Task[Any] | None]] = {}  # callers and tasks of the starts
        self._reaper: asyncio.Task[None] | None = None

    async def run(self, ctx: ToolContext, work: Callable[[BrowserSession], Awaitable[T]], *, create: bool = False) -> T:
        """Run `work` with the caller's session, one call at a time. `create` makes a session if the caller has none.

        Raises ToolError if no page is open, or if Chromium cannot be started or has crashed.
        """
        return await self._thread().within(self._run(ctx, work, create))

    def session(self, ctx: ToolContext) -> BrowserSession | None:
        """Return the session of a caller, for reading from another thread, or None."""
        return self._sessions.get(_key(ctx))

    async def end(self, ctx: ToolContext) -> bool:
        """Close the caller's session. Returns whether there was one."""
        if self._loop is None:
            return False
        return await self._loop.within(self._end(_key(ctx)))

    def end_session(self, session_id: str | None) -> None:
        """Close the pages of a session that is over. Returns at once."""
        if self._loop is not None:
            self._loop.start(self._end(session_id or ""))

    def close(self) -> None:
        """End the browsers with all their processes, and delete their files."""
        with self._starting_thread:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.run(self._shut_down())
        except Exception as error:
            log.warning("the browser was not closed in good order: %s", error)
        finally:
            loop.close()

    def tool_options(self, category: CategoryName) -> ToolOptions:
        """Return what all tools of a category have in common."""
        return {
            "category": category,
            "open_world": True,
            "sequential": True,
            "max_output": 5_000 + 2 * self.settings.max_chars,
            "timeout": self.settings.timeout + 20,
        }

    # --- on the browser's loop

    def _thread(self) -> LoopThread:
        with self._starting_thread:
            if self._closed:
                raise ToolError("the toolbox was closed, and the browser with it")
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop

    async def _run(self, ctx: ToolContext, work: Callable[[BrowserSession], Awaitable[T]], create: bool) -> T:
        session = await self._session(ctx, create)
        async with session.lock:
            session.begin(ctx)
            try:
                return await work(session)
            except Exception as error:
                raise self._explained(session, error) from None
            finally:
                session.used = time.monotonic()

    def _explained(self, session: BrowserSession, error: Exception) -> Exception:
        """Return a ToolError that explains a failure of the browser. An error in our own code is returned unchanged."""
        if not session.alive:
            return ToolError("the browser ended unexpectedly, and its pages are gone; browser_open starts it again")
        if isinstance(error, TimeoutError):
            return ToolError(
                "the page does not answer (a script keeps it busy); browser_tabs can close it, browser_open with "
                "new_tab=true opens another, browser_close ends all"
            )
        if isinstance(error, ToolcribError) or not type(error).__module__.startswith("playwright"):
            return error
        return ToolError(_in_words(str(error) or type(error).__name__))

    async def _session(self, ctx: ToolContext, create: bool) -> BrowserSession:
        key = _key(ctx)
        found = self._sessions.get(key)
        if found is not None and found.alive:
            return found
        async with self._turn(key):
            await self._close(lambda each: not each.alive)
            found = self._sessions.get(key)
            if found is not None:
                return found
            if not create:
                why = (
                    f"it was closed after {self.settings.idle_timeout:g} s without a call, or to make room, or the "
                    "browser ended; "
                )
                if ctx.channel == "cli":
                    raise ToolError(ENDS_WITH_CALL)
                raise ToolError(f"no page is open; {why if key in self._begun else ''}browser_open opens one")
            caller = name_of(ctx.caller)
            await self._make_room(caller)
            self._starting[key] = caller, asyncio.current_task()
            try:
                return await self._new_session(key, caller)
            finally:
                del self._starting[key]

    def _turn(self, key: str) -> asyncio.Lock:
        """Return the lock of a session for its start and its end. A start that hangs holds up no other session."""
        return self._turns.setdefault(key, asyncio.Lock())

    async def _new_session(self, key: str, caller: str | None) -> BrowserSession:
        from .browser_session import BrowserSession
        from .launch import dead_profiles, launch
        from .visits import Visits

        await asyncio.to_thread(dead_profiles, self._folder)
        profile = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        chromium = await launch(self.settings, profile, self._writable)
        visits = Visits(self.guard, self.settings, self._gate)
        session = BrowserSession(self.settings, visits, chromium, self._user_agent, caller)
        try:
            await session.start()
        except BaseException:  # a cancelled call must not leave a browser, either
            await session.close()
            raise
        self._sessions[key] = session
        self._begun = {key, *list(self._begun)[:_MAX_REMEMBERED]}
        if self._reaper is None:
            self._reaper = asyncio.ensure_future(self._reap())
        return session

    async def _make_room(self, caller: str | None) -> None:
        """Close the least recently used session if there are too many, unless all of them are busy. A caller who would
        leave no place to others makes room with one of its own."""
        now = time.monotonic()
        while True:
            callers = [each.caller for each in self._sessions.values()] + [each for each, _ in self._starting.values()]
            mine, taken = callers.count(caller), len(callers)
            short = taken > 0 and free_memory() < MEMORY * (1 + len(self._starting))
            if not short and taken < MAX_SESSIONS and finds_room(caller, mine, taken, MAX_SESSIONS):
                return
            own = {key: each for key, each in self._sessions.items() if each.caller == caller}
            group = self._sessions if caller is None else own or self._sessions
            idle = {key: each for key, each in group.items() if not each.lock.locked()}
            oldest = min(idle, key=lambda key: idle[key].used, default=None)
            if oldest is None or now - idle[oldest].used < BUSY_SECONDS:
                why = f", and less than {MEMORY >> 20} MB of memory are free for one more" if short else ""
                count = mine if caller is not None and mine else taken
                raise ToolError(f"{count} sessions have pages open{why}; try again in a while")
            await self._sessions.pop(oldest).close()

    async def _close(self, over: Callable[[BrowserSession], bool]) -> None:
        """Close the sessions that are over."""
        keys = [key for key, session in self._sessions.items() if over(session)]
        await asyncio.gather(*[self._sessions.pop(key).close() for key in keys])

    async def _end(self, key: str) -> bool:
        async with self._turn(key):  # it may be starting
            session = self._sessions.pop(key, None)
        self._begun.discard(key)
        if session is None:
            return False
        await asyncio.shield(session.close())  # a cancelled call must not leave a browser
        return True

    async def _reap(self) -> None:
        """Close the sessions that nobody uses, and those whose browser has ended by itself."""

        def over(session: BrowserSession) -> bool:
            idle = time.monotonic() - session.used >= self.settings.idle_timeout
            return not session.alive or (idle and not session.lock.locked())

        while True:
            await asyncio.sleep(min(REAP_SECONDS, self.settings.idle_timeout))
            await self._close(over)

    async def _shut_down(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reaper
        starts = [task for _, task in self._starting.values() if task is not None]
        for task in starts:
            task.cancel()
        async with asyncio.timeout(CLOSE_SECONDS):
            await asyncio.gather(*starts, return_exceptions=True)
            await self._close(lambda _: True)


def _key(ctx: ToolContext) -> str:
    return ctx.session_id or ""


def free_memory() -> float:
    """Return how many bytes programs can still get, or infinity where the system does not say it."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) * 1024
    return math.inf


def _in_words(said: str) -> str:
    """Return Playwright's message about a failed step, without Playwright's internal names."""
    first = said.splitlines()[0]
    if "Timeout" in first:
        lines = [line.strip(" -") for line in said.splitlines()[1:]]
        telling = [line for line in lines if "intercepts" in line or "not " in line]
        why = f": {quoted(telling[-1])}" if telling else ""
        return f"it could not be done in time{why}; look with browser_snapshot or browser_screenshot what is in the way"
    if "has been closed" in first or "crashed" in first:
        return "the page was closed or crashed meanwhile; browser_tabs lists what is open"
    return (first.partition(": ")[2] or first).removeprefix("Error: ")[:500]
