"""When DBOS looks for jobs: at once after a change, at its usual pace while there is work, and rarely without work.

The threads of DBOS that look into queues wait between two looks on the event that ends them. This event gets another
`wait`, which ends early after a change, and later while it is quiet. DBOS 3.4 has no setting for that: of a queue only
the seconds between two looks can be set, and nothing public makes it look now. On Postgres a trigger tells of each job
that is queued; for a SQLite file the counter that SQLite keeps of the commits of others is read.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, cast

from dbos import DBOS

from .job_store import QUEUED, JobStore

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""Seconds between two looks while there is no work: if a word of a change was lost."""
_BUSY_SECONDS = 2.0
"""Seconds after a change in which the usual pace is kept: another worker may have had the lock at the first look."""
_MIN_SECONDS = 0.05
"""Seconds between two looks of a thread, so that many changes are one look; with jobs, half of the usual pace."""
_FULL_SECONDS = 0.25
"""Seconds between two looks whether jobs may be taken again."""
_THREAD = "queue-worker-{}"
"""What DBOS calls the thread of a queue. Under another name it keeps its usual pace while there is work."""
_GLANCE = 0.1
"""Seconds between two looks at a SQLite file's counter."""


class Pace:
    """When the threads that look for jobs look again: into the queues with the names `routes`, and what DBOS has
    besides. `works` says whether this worker has jobs, `may` whether it may take one of a route."""

    def __init__(self, routes: Collection[str], works: Callable[[], bool], may: Callable[[str], bool]) -> None:
        self._routes, self._works, self._may = routes, works, may
        self._names = {_THREAD.format(route): route for route in routes}
        self._changed = threading.Condition()
        self._changes, self._latest = 1, time.monotonic()
        self._seen: dict[int, int] = {}  # by thread
        self._told = False

    def change(self) -> None:
        """Let every thread look now."""
        with self._changed:
            self._changes, self._latest = self._changes + 1, time.monotonic()
            self._changed.notify_all()

    def told(self, told: bool) -> None:
        """Note whether changes are announced from now on. Only then it may be quiet."""
        self._told = told
        self.change()

    def wait(self, timeout: float, ends: Callable[[], bool]) -> None:
        """Wait until the next look of a thread that would look after `timeout` seconds."""
        me, began = threading.get_ident(), time.monotonic()
        with self._changed:
            self._changed.wait_for(ends, self._shortest(timeout))
            # What changed while the thread was looking counts, too: it may have looked just before.
            while not ends() and self._changes == self._seen.get(me, 0):
                busy = not self._told or self._works() or time.monotonic() - self._latest < _BUSY_SECONDS
                left = began + (timeout if busy else max(timeout, QUIET_SECONDS)) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            route = self._names.get(threading.current_thread().name, "")
            while not ends() and not self._may(route):  # what it claimed now would not begin
                self._changed.wait(_FULL_SECONDS)
            self._seen[me] = self._changes

    def _shortest(self, timeout: float) -> float:
        """Return for how long a thread waits whatever changes. Those that do not claim jobs keep their pace."""
        if threading.current_thread().name not in self._names:
            return timeout
        return timeout / 2 if self._works() else min(_MIN_SECONDS, timeout)

    def give_to(self, dbos: DBOS) -> None:
        """Let the threads of a launched DBOS keep this pace. A DBOS without these events looks at its usual pace."""
        for event in getattr(dbos, "background_thread_stop_events", ()):
            if type(event) is threading.Event:
                event.__class__ = _PacedEvent
                cast("_PacedEvent", event).pace = self

    def listen(self, store: JobStore, over: threading.Event) -> None:
        """Hear of changes until it is over. Blocks."""
        while not over.is_set():
            try:
                if store.postgres:
                    self._listen_on_postgres(store, over)
                else:
                    self._watch_file(store, over)
            except Exception:  # whatever it was, it is tried again; meanwhile the threads look at their usual pace
                log.debug("changes of jobs are not heard of for now", exc_info=True)
            self.told(False)
            over.wait(0.5)

    def _listen_on_postgres(self, store: JobStore, over: threading.Event) -> None:
        borrowed = store.engine.raw_connection()
        connection = cast("psycopg.Connection[Any]", borrowed.dbapi_connection)
        borrowed.detach()
        with contextlib.closing(connection):  # not what borrowed it: that would log at length that it was lost
            connection.set_autocommit(True)
            connection.execute(f"LISTEN {QUEUED}")
            self.told(True)
            while not over.is_set():
                for notice in connection.notifies(timeout=1.0):
                    if notice.payload in self._routes:
                        self.change()

    def _watch_file(self, store: JobStore, over: threading.Event) -> None:
        with contextlib.closing(sqlite3.connect(str(store.engine.url.database), timeout=30)) as connection:
            before = None
            self.told(True)
            while not over.wait(_GLANCE):
                version = connection.execute("PRAGMA data_version").fetchone()[0]
                if version != before:
                    before = version
                    self.change()


class _PacedEvent(threading.Event):
    """The event that ends the threads of DBOS, once they keep a pace. Threads that look more rarely keep their own."""

    pace: Pace

    def set(self) -> None:
        super().set()
        self.pace.change()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None or timeout > QUIET_SECONDS:
            return super().wait(timeout)
        self.pace.wait(timeout, self.is_set)
        return self.is_set()
