"""Who may work on something that many machines share: a session, or the jobs of a worker. On Postgres.

    leases = Leases(url)
    lease = leases.take("session:20261122-1")  # None if another process has it
    with transaction(connection):
        lease.check(connection)                # raises LeaseOver: write nothing
        ...                                    # what is written here is written by the holder
    lease.release()

A lease has a name, and a fencing number that grows with each holder. It can be taken if nobody has it, if its time is
over, or if the connection of its holder has ended (the server shows that at once, before the time is over). A
thread renews the leases of this process with the clock of the server. A lease that was not renewed in time is lost,
even if nobody took it: a process that was stopped and goes on later finds out at its next `check`, and nobody can take
the lease between the check and the commit.
"""

from __future__ import annotations

import contextlib
import logging
import threading

from ..core.errors import ToolcribError
from ..record.connection import LIVING, Database, RecordError, Where, naming, transaction
from ..record.database import connect

log = logging.getLogger("toolcrib.record")

LEASE_SECONDS = 15.0
"""Seconds that a lease lasts after it was renewed; it is renewed three times as often."""

STEPS = (
    """
CREATE TABLE IF NOT EXISTS lease (
    name TEXT PRIMARY KEY,
    fence INTEGER NOT NULL,          -- grows with each holder, also after the row was removed
    holder TEXT NOT NULL,            -- the connection of the process that has it
    until REAL NOT NULL              -- of the server's clock; 0: nobody has it
);
""",
    "ALTER TABLE lease DROP COLUMN IF EXISTS locked",
)
_NOW = "extract(epoch FROM clock_timestamp())::double precision"


class LeaseOver(RecordError):
    """Somebody else may have this lease now: what this process was about to write must not be written."""


class Lease:
    """A lease that this process has taken."""

    def __init__(self, leases: Leases, name: str, fence: int) -> None:
        self._leases, self.name, self.fence = leases, name, fence

    def check(self, connection: Database) -> None:
        """Check inside a transaction that the lease is still ours, and keep others from taking it until the commit.
        Raises LeaseOver."""
        sql = f"SELECT 1 FROM lease WHERE name = ? AND fence = ? AND holder = ? AND until > {_NOW} FOR SHARE"  # noqa: S608
        if connection.execute(sql, [self.name, self.fence, self._leases.holder]).fetchone() is None:
            raise LeaseOver(
                f"the lease of {self.name} is lost: this process was stopped or cut off for too long, and another one "
                "may go on in its place"
            )

    def release(self) -> None:
        """Give the lease back. Does nothing if it is lost."""
        self._leases.release(self)


class Leases:
    """The leases that this process has taken, on a connection of their own. Any thread may use it."""

    def __init__(self, url: Where, seconds: float = LEASE_SECONDS) -> None:
        """Connect, and make the table. Raises RecordError if the database cannot be used."""
        self._where = url
        self._connection = connect(url)
        self._connection.make_tables("lease", STEPS)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._held: dict[str, Lease] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.holder = self._connection.holder

    def take(self, name: str) -> Lease | None:
        """Take a lease; None if another holder, or another user of this object, has it. Raises RecordError."""
        with self._lock:
            if name in self._held:
                return None
            with naming(self._where), transaction(self._connection):
                fence = self._take(name)
            if fence is None:
                return None
            lease = self._held[name] = Lease(self, name, fence)
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="toolcrib-leases", daemon=True)
                self._thread.start()
            return lease

    def _take(self, name: str) -> int | None:
        execute = self._connection.execute
        # it begins with the time: a lease that was forgotten and made again gets no number that was there before
        new = f"INSERT INTO lease VALUES (?, ({_NOW} * 1000)::bigint, '', 0) ON CONFLICT (name) DO NOTHING"  # noqa: S608
        execute(new, [name])
        execute("SELECT 1 FROM lease WHERE name = ? FOR UPDATE", [name])  # before the look at who lives
        sql = (
            f"UPDATE lease SET fence = fence + 1, holder = ?2, until = {_NOW} + ?3"  # noqa: S608
            f" WHERE name = ?1 AND (until < {_NOW} OR holder = ?2 OR holder NOT IN ({LIVING})) RETURNING fence"
        )
        row = execute(sql, [name, self.holder, self._seconds]).fetchone()
        return row[0] if row else None

    def has(self, lease: Lease) -> bool:
        """Return whether a lease was neither lost nor given back, as far as it is known."""
        return self._held.get(lease.name) is lease

    def is_held(self, name: str) -> bool:
        """Return whether somebody has this lease, and still lives: then nobody else can take it. Raises RecordError."""
        sql = f"SELECT 1 FROM lease WHERE name = ? AND until > {_NOW} AND holder IN ({LIVING})"  # noqa: S608
        with self._lock:
            return self._connection.execute(sql, [name]).fetchone() is not None

    def forget(self, name: str) -> None:
        """Remove a lease that nobody has, so that the table does not grow. Raises RecordError."""
        with self._lock:
            self._connection.execute(f"DELETE FROM lease WHERE name = ? AND until < {_NOW}", [name])  # noqa: S608

    def release(self, lease: Lease) -> None:
        """Give a lease back: the next holder need not wait. Does nothing if it is lost."""
        with self._lock:
            if self.has(lease):
                del self._held[lease.name]
                self._connection.execute(
                    "UPDATE lease SET until = 0 WHERE name = ? AND fence = ?", [lease.name, lease.fence]
                )

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / 3):
            try:
                with self._lock:
                    self._renew_all()
            except Exception as error:
                log.warning("leases could not be renewed for now: %s", error)

    def _renew_all(self) -> None:
        """Renew what is still ours, and forget the rest."""
        if not self._held:
            return
        sql = (  # not those whose release failed because the database was away: they end by themselves
            f"UPDATE lease SET until = {_NOW} + ? WHERE holder = ? AND name = ANY(?) AND until > {_NOW}"  # noqa: S608
            " RETURNING name, fence"
        )
        found = self._connection.execute(sql, [self._seconds, self.holder, list(self._held)]).fetchall()
        ours = {(row["name"], row["fence"]) for row in found}
        for lease in [each for each in self._held.values() if (each.name, each.fence) not in ours]:
            log.error("the lease of %s is lost", lease.name)
            del self._held[lease.name]

    def close(self) -> None:
        """Give all leases back and close the connection."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        for lease in list(self._held.values()):
            with contextlib.suppress(ToolcribError):
                lease.release()
        self._connection.close()
