"""May this worker still act? On a SQLite file it holds a lock; on Postgres it has a lease, which heartbeats prolong."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from .engine import JobError, Served
from .job_store import JobStore

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine sleeps, where there is such a clock."""
_WORKER = ".worker"
"""The end of the name of the file that the worker of a SQLite file locks, and writes what it is into."""
_FLAGS = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MARGIN = 0.8
"""Of the lease: until then a worker acts. The rest is for clocks that do not run alike, and for a write under way."""


def new_worker_id() -> str:
    """Return a unique name for a worker. It names the owner of a job."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"


class WorkerLease(Protocol):
    """The right of one worker to run jobs."""

    worker: str

    def valid(self) -> bool:
        """Return whether the worker may act now."""
        ...

    def end(self) -> None:
        """Give the right up."""


class FileLease:
    """The right of the only worker of a SQLite file. The kernel frees it when the process ends. Raises JobError if
    another worker has it."""

    def __init__(self, path: str, serves: Served) -> None:
        self.worker = new_worker_id()
        self._descriptor = os.open(f"{path}{_WORKER}", _FLAGS, 0o600)
        if not _locked(self._descriptor):
            other = os.read(self._descriptor, 200).decode(errors="replace").partition("\n")[0]
            os.close(self._descriptor)
            raise JobError(
                f"another worker ({other or 'unknown'}) runs the jobs in {path}; a SQLite file has one worker. "
                "End that one, or store the jobs in Postgres"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{self.worker}\n{serves.to_json()}".encode(), 0)

    def valid(self) -> bool:
        """Return whether the worker may act now."""
        return True

    def end(self) -> None:
        """Let another worker have the file."""
        os.close(self._descriptor)


def _locked(descriptor: int) -> bool:
    """Lock a file for a worker. `holder_of` may hold the lock for a moment."""
    for attempt in range(10):
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.01 * (attempt < 9))
    return False


def holder_of(path: str) -> dict[str, Served]:
    """Return the worker of a SQLite file by name, with the jobs that it takes; nothing if there is none."""
    try:
        with Path(f"{path}{_WORKER}").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                name, _, serves = file.read().decode().partition("\n")
                return {name: Served.from_json(serves)} if serves else {}
    except FileNotFoundError:
        pass
    return {}


class HeartbeatLease:
    """The right of one of many workers. A thread prolongs it; after `seconds` without a heartbeat another worker
    declares this one dead and takes its jobs. Raises SQLAlchemyError if the database cannot be reached."""

    def __init__(self, store: JobStore, seconds: float, serves: Served) -> None:
        self.worker = new_worker_id()
        self._store, self._seconds = store, seconds
        self._until = time.clock_gettime(_CLOCK) + seconds * _MARGIN
        self._over, self._lock = threading.Event(), threading.Lock()
        store.enroll(self.worker, serves)
        threading.Thread(target=self._beat, name="toolcrib-heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while not self._over.wait(self._seconds / 5):
            began = time.clock_gettime(_CLOCK)  # before the write, since the write may wait
            with contextlib.suppress(SQLAlchemyError):
                if not self._store.beat(self.worker):
                    self._until = 0.0
                    return
                with self._lock:
                    if self.valid():  # what has ended does not begin again: its jobs were cancelled
                        self._until = began + self._seconds * _MARGIN

    def valid(self) -> bool:
        """Return whether the worker may act now."""
        return time.clock_gettime(_CLOCK) < self._until

    def end(self) -> None:
        """Stop the heartbeats."""
        with self._lock:
            self._until = 0.0
        self._over.set()
