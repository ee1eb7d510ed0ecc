"""Lets one process at a time run a session: with a lock on a file, or on Postgres with a lease.

The system releases the lock of a file when its process ends. A lease ends in the same way, and also if its process is
stopped or cut off for too long; so every write to a session that this process runs checks the lease.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator

from ..boundary.descriptors import closing_fd
from ..boundary.own_files import open_lock
from ..core.errors import ToolcribError, UnknownName
from ..record.connection import Database, RecordError
from ..record.forks import ForkSafe, keep_fork_safe
from ..record.spill import safe_name
from ..record.state import StateFolder, private_folder
from .session_lease import Lease, Leases


class SessionError(ToolcribError):
    """A session cannot be used: it is unknown, or it runs already."""


class NoSuchSession(SessionError, UnknownName):
    """There is no session of that id."""


class SessionTaken(SessionError):
    """A session runs already, here or in another process."""


class SessionLocks(ForkSafe):
    """The locks of the sessions that this process runs."""

    def __init__(self, state: StateFolder) -> None:
        self._state, self._folder = state, state.path / "sessions"
        self._held: dict[str, Lease] = {}
        self._made: Leases | None = None
        self._lock = threading.Lock()
        keep_fork_safe(self, self._lock)

    @property
    def _leases(self) -> Leases:
        with self._lock:
            if self._made is None:
                self._made = Leases(self._state.record)
            return self._made

    @contextlib.contextmanager
    def hold(self, session_id: str) -> Generator[None]:
        """Hold the lock of a session. Raises SessionError if something else holds it."""
        with self._lease(session_id) if self._state.url else self._file(session_id):
            yield

    def check(self, session_id: str, connection: Database) -> None:
        """Check in a transaction that writes to a session: if this process runs it, its lease must not be over. Raises
        LeaseOver."""
        if session_id in self._held:
            self._held[session_id].check(connection)

    def is_held(self, session_id: str) -> bool:
        """Return whether something holds the lock of a session now."""
        if self._state.url:
            return self._leases.is_held(f"session:{session_id}")
        private_folder(self._folder)
        with closing_fd(open_lock(self._folder / safe_name(session_id))) as fd:
            return not _is_free(fd)

    def forget(self, session_id: str) -> None:
        """Remove what is left of the lock of a session that is removed."""
        with contextlib.suppress(OSError):
            (self._folder / safe_name(session_id)).unlink()

    def close(self) -> None:
        """Release all leases."""
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def in_child(self) -> None:
        """Leave the leases to the parent."""
        self._made = None
        self._held.clear()

    @contextlib.contextmanager
    def _lease(self, session_id: str) -> Generator[None]:
        lease = self._leases.take(f"session:{session_id}")
        if lease is None:
            raise _taken(session_id)
        self._held[session_id] = lease
        try:
            yield
        finally:
            del self._held[session_id]
            with contextlib.suppress(RecordError):  # it ends by itself
                lease.release()
                self._leases.forget(lease.name)

    @contextlib.contextmanager
    def _file(self, session_id: str) -> Generator[None]:
        import fcntl

        private_folder(self._folder)
        with closing_fd(open_lock(self._folder / safe_name(session_id))) as fd:
            while not _locked(fd, fcntl.LOCK_EX):
                if not _is_free(fd):
                    raise _taken(session_id)
                time.sleep(0.001)  # somebody only looked
            try:
                yield
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)  # a process that was just forked has the descriptor until its exec


def _is_free(fd: int) -> bool:
    """Look whether nobody runs what an open file is the lock of. Who only looks is in nobody's way for long."""
    import fcntl

    if not _locked(fd, fcntl.LOCK_SH):
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def _locked(fd: int, kind: int) -> bool:
    """Try to lock an open file. Returns whether it is locked now."""
    import fcntl

    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken(session_id: str) -> SessionTaken:
    return SessionTaken(
        f"the session {session_id} runs already, here or in another process; "
        f"`toolcrib sessions steer {session_id} TEXT` sends it a message"
    )
