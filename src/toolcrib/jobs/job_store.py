"""What DBOS has no place for: parked jobs, their signals and attempts, and the workers.

The tables lie in the same database, so that a continuation is stored in the transaction that wakes its job. All methods
block; they are called in threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.event import listen
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from ..core.dataclass import dataclass
from ..record.forks import ForkSafe, keep_fork_safe
from ..record.sqlite import write_ahead
from .engine import Job, JobError, Limits, Served

T = TypeVar("T")

SCHEMA = "toolcrib_jobs"
"""On Postgres, of these tables and of those of DBOS."""
_PATIENCE = 60.0  # seconds in which a transaction is tried again
_SERVER_LIMITS = {
    # A worker that was stopped, or whose network was cut, must not hold a lock for longer than its lease.
    "idle_in_transaction_session_timeout": "4s",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "search_path": SCHEMA,
}
_CLIENT_LIMITS = {
    "connect_timeout": 5, "keepalives_idle": 3, "keepalives_interval": 1, "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}  # fmt: skip

_TABLES = """
CREATE TABLE IF NOT EXISTS job (
    id TEXT PRIMARY KEY,                   -- only of jobs with something else in this row
    run INTEGER NOT NULL DEFAULT 0,        -- the present continuation
    attempt INTEGER NOT NULL DEFAULT 1,    -- of this continuation
    cut_off INTEGER NOT NULL DEFAULT 0,    -- 1: the attempt before began and did not end
    taken_from TEXT,                       -- the worker that was cut off, a space, and when it began, in milliseconds
    parked TEXT,                           -- the outcome of a parked job, JSON; NULL if it is not parked
    signals TEXT NOT NULL DEFAULT '[]',    -- those that it was woken with, JSON
    cancelled INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS job_parked ON job (id) WHERE parked IS NOT NULL;
CREATE TABLE IF NOT EXISTS job_signal (
    job TEXT NOT NULL,
    key TEXT NOT NULL,
    data TEXT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (job, key)
);
CREATE TABLE IF NOT EXISTS job_worker (
    id TEXT PRIMARY KEY,
    heartbeat DOUBLE PRECISION NOT NULL,   -- seconds of the database's clock
    serves TEXT NOT NULL,                  -- the jobs that it takes, JSON
    dead INTEGER NOT NULL DEFAULT 0        -- 1: its jobs were given away; it may not come back under this id
);
CREATE TABLE IF NOT EXISTS job_place (
    run TEXT PRIMARY KEY,                  -- a workflow that runs, where limits hold for all workers
    worker TEXT NOT NULL,
    queue TEXT NOT NULL,
    tenant TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS job_waiting (
    run TEXT PRIMARY KEY,                  -- a workflow that its worker has claimed, and that waits for a place
    worker TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS job_database (one INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS job_lock (name TEXT PRIMARY KEY);
INSERT INTO job_lock VALUES ('leader'), ('places') ON CONFLICT DO NOTHING;
"""

QUEUED = "toolcrib_queued"
"""The channel on which Postgres tells of each job that is queued, with the name of its queue in DBOS."""
_TELL = (
    f"""CREATE OR REPLACE FUNCTION {QUEUED}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_notify('{QUEUED}', NEW.queue_name); RETURN NULL; END $$""",
    f"""CREATE TRIGGER {QUEUED} AFTER INSERT OR UPDATE OF status ON workflow_status FOR EACH ROW
    WHEN (NEW.status = 'ENQUEUED') EXECUTE FUNCTION {QUEUED}()""",
)


@dataclass(frozen=True, slots=True)
class JobRow:
    """The row of a job. Without a row a job has these defaults."""

    run: int = 0
    attempt: int = 1
    cut_off: bool = False
    parked: dict[str, Any] | None = None
    signals: tuple[tuple[str, Any], ...] = ()
    cancelled: bool = False
    taken_from: str | None = None


MAX_PLACES = 2**31 - 1
_FREE = "DELETE FROM job_place WHERE worker NOT IN (SELECT id FROM job_worker WHERE dead = 0)"
_LEFT = "DELETE FROM job_waiting WHERE worker NOT IN (SELECT id FROM job_worker)"
_NOW = "extract(epoch from clock_timestamp())"
_COLUMNS = "run, attempt, cut_off, parked, signals, cancelled, taken_from"
NOTHING = JobRow()


def _kept(row: Sequence[Any] | None) -> JobRow:
    if row is None:
        return NOTHING
    parked = json.loads(row[3]) if row[3] else None
    signals = tuple((key, data) for key, data in json.loads(row[4]))
    return JobRow(row[0], row[1], bool(row[2]), parked, signals, bool(row[5]), row[6])


def is_sqlite(url: str) -> bool:
    """Return whether this is the address of a SQLite file."""
    return url.startswith("sqlite:")


def open_database(url: str) -> sa.Engine:
    """Return the connections to a database, for these tables and for DBOS; none is made yet. Raises JobError if the
    address is neither Postgres nor a SQLite file."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise JobError("the address of a database for jobs is `postgresql://…` or `sqlite:////a/file`") from error
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed)
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise JobError(f"jobs are stored in Postgres or a SQLite file, not in {parsed.drivername!r}")
    options = " ".join(f"-c {name}={value}" for name, value in _SERVER_LIMITS.items())
    # In the address, where DBOS finds it, too: psycopg gives bytes, not texts, where the database is SQL_ASCII.
    parsed = parsed.set(drivername="postgresql+psycopg").update_query_dict({"client_encoding": "utf8"})
    return sa.create_engine(
        parsed, pool_size=8, max_overflow=4, pool_timeout=30,
        connect_args=_CLIENT_LIMITS | {"options": options},
    )  # fmt: skip


def _open_sqlite(url: sa.URL) -> sa.Engine:
    if not url.database or not os.path.isabs(url.database):
        raise JobError("the SQLite file for jobs needs a full path: `sqlite:////a/file`")
    engine = sa.create_engine(url, pool_size=8, max_overflow=4, pool_timeout=30)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = "IMMEDIATE"  # as DBOS sets it: a writer waits before it reads what it will change
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute("PRAGMA foreign_keys=ON")
        write_ahead(connection)

    listen(engine, "connect", prepare)
    return engine


class JobStore(ForkSafe):
    """The tables. `engine` is what `open_database` returned."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.postgres = engine.dialect.name == "postgresql"
        # One statement that reads needs no transaction; on Postgres that saves two of three round trips.
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT") if self.postgres else engine
        self._used: set[object] = set()

        def used(_connection: object, record: object, _proxy: object) -> None:
            self._used.add(record)

        def unused(_connection: object, record: object) -> None:
            self._used.discard(record)

        listen(engine, "checkout", used)
        for name in ("checkin", "detach"):
            listen(engine, name, unused)
        keep_fork_safe(self)

    def before_fork(self) -> None:
        """Close the connections to a file that nobody uses."""
        if not self.postgres:
            self.engine.dispose()

    def in_child(self) -> None:
        """Leave the connections to the parent, also to a server, which must not see an end of them."""
        self.engine.dispose(close=False)
        self._used.clear()

    def is_there(self) -> bool:
        """Return whether the tables are there. Makes and changes nothing. Raises sqlite3.Error or SQLAlchemyError."""
        if self.postgres:
            with self.engine.connect() as connection:
                return connection.execute(sa.text(f"SELECT to_regclass('{SCHEMA}.job')")).scalar() is not None
        path = str(self.engine.url.database)
        if not os.path.isfile(path):
            return False
        with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'job_signal'").fetchone() is not None

    def set_up(self) -> None:
        """Make the tables if they are not there. Those of DBOS must be there."""
        with self.engine.begin() as connection:
            if self.postgres:  # IF NOT EXISTS fails there if another process makes the same at this moment
                connection.execute(sa.text("SELECT 1 FROM dbos_migrations FOR NO KEY UPDATE"))
            for statement in _TABLES.split(";\n"):
                if statement.strip():
                    connection.execute(sa.text(statement))
            named = sa.text("INSERT INTO job_database VALUES (1, :name) ON CONFLICT DO NOTHING")
            connection.execute(named, {"name": secrets.token_hex(8)})
            if self.postgres:
                known = sa.text(
                    "SELECT 1 FROM pg_trigger WHERE tgrelid = 'workflow_status'::regclass AND tgname = :name"
                )
                if connection.execute(known, {"name": QUEUED}).fetchone() is None:
                    for statement in _TELL:
                        connection.execute(sa.text(statement))

    def close(self, patience: float = 2.0) -> None:
        """Close the connections. A thread of DBOS that was left alone may use one for a moment longer."""
        end = time.monotonic() + patience
        while self._used and time.monotonic() < end:
            time.sleep(0.01)
        self.engine.dispose()

    def transaction(self, do: Callable[[sa.Connection], T]) -> T:
        """Run a transaction, again if the connection was lost. It must not matter whether it is run twice."""
        return self._patiently(self.engine, do)

    def _read(self, do: Callable[[sa.Connection], T]) -> T:
        return self._patiently(self._single, do)

    def _patiently(self, engine: sa.Engine, do: Callable[[sa.Connection], T]) -> T:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                with engine.begin() as connection:
                    return do(connection)
            except DBAPIError as error:
                passing = error.connection_invalidated or isinstance(error, OperationalError)
                if not passing or time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def place(self) -> str:
        """Return the name of the database, whatever addresses it has."""
        return self._read(lambda c: c.execute(sa.text("SELECT name FROM job_database")).scalar_one())

    def kept(self, job_id: str) -> JobRow:
        """Return the row of a job."""

        def read(connection: sa.Connection) -> JobRow:
            select = sa.text(f"SELECT {_COLUMNS} FROM job WHERE id = :id")  # noqa: S608
            return _kept(connection.execute(select, {"id": job_id}).fetchone())

        return self._read(read)

    def locked(self, connection: sa.Connection, job_id: str) -> JobRow:
        """Return the row of a job, made if it is not there, and hold it until the transaction ends."""
        upsert = sa.text(
            "INSERT INTO job (id) VALUES (:id) ON CONFLICT (id) DO UPDATE SET id = excluded.id "  # noqa: S608
            f"RETURNING {_COLUMNS}"
        )
        return _kept(connection.execute(upsert, {"id": job_id}).fetchone())

    def change(self, connection: sa.Connection, job_id: str, **columns: Any) -> None:
        """Set columns of the row of a job."""
        names = ", ".join(f"{name} = :{name}" for name in columns)
        connection.execute(sa.text(f"UPDATE job SET {names} WHERE id = :id"), columns | {"id": job_id})  # noqa: S608

    def add_signal(self, connection: sa.Connection, job_id: str, key: str, data: Any) -> bool:
        """Keep a signal. Returns whether it is the first one with this key."""
        insert = sa.text(
            "INSERT INTO job_signal VALUES (:job, :key, :data, :time) ON CONFLICT DO NOTHING RETURNING key"
        )
        row = {"job": job_id, "key": key, "data": json.dumps(data), "time": time.time()}
        return connection.execute(insert, row).fetchone() is not None

    def new_signals(self, connection: sa.Connection, job_id: str, kept: JobRow, keys: Sequence[str]) -> list[list[Any]]:
        """Return key and data of the signals with these keys that the job was not woken with yet, in order."""
        select = sa.text("SELECT key, data FROM job_signal WHERE job = :job ORDER BY time, key")
        had = {key for key, _ in kept.signals}
        rows = connection.execute(select, {"job": job_id}).fetchall()
        return [[key, json.loads(data)] for key, data in rows if key in keys and key not in had]

    def parked(self, limit: int) -> list[str]:
        """Return the ids of parked jobs."""
        select = sa.text("SELECT id FROM job WHERE parked IS NOT NULL ORDER BY id DESC LIMIT :limit")
        return self._read(lambda c: list(c.execute(select, {"limit": limit}).scalars()))

    def rows(self, job_ids: Iterable[str]) -> dict[str, JobRow]:
        """Return the rows of some jobs, by id."""
        select = sa.text(f"SELECT id, {_COLUMNS} FROM job WHERE id IN :ids").bindparams(  # noqa: S608
            sa.bindparam("ids", expanding=True)
        )
        found = self._read(lambda c: c.execute(select, {"ids": list(job_ids)}).fetchall())
        return {row[0]: _kept(row[1:]) for row in found}

    def delete(self, job_ids: Sequence[str]) -> None:
        """Delete the rows and the signals of some jobs."""

        def delete(connection: sa.Connection) -> None:
            for sql in ("DELETE FROM job WHERE id IN :ids", "DELETE FROM job_signal WHERE job IN :ids"):
                statement = sa.text(sql).bindparams(sa.bindparam("ids", expanding=True))
                connection.execute(statement, {"ids": list(job_ids)})

        self.transaction(delete)

    def cut_off(self, job_id: str, run: int, worker: str | None, began: int | None) -> None:
        """Note that a worker died in an attempt that it began then (milliseconds). Noting it twice counts once."""
        update = sa.text(
            "UPDATE job SET attempt = attempt + 1, cut_off = 1, taken_from = :worker "
            "WHERE id = :id AND run = :run AND (taken_from IS NULL OR taken_from <> :worker)"
        )

        def note(connection: sa.Connection) -> None:
            self.locked(connection, job_id)
            connection.execute(update, {"id": job_id, "run": run, "worker": f"{worker or '?'} {began or 0}"})

        self.transaction(note)

    # The places of jobs that run, where limits hold for all workers, and the runs that wait for one.

    def wait_for_place(self, run: str, worker: str) -> None:
        """Note that a worker has claimed a run, and does not begin it yet."""
        insert = sa.text(
            "INSERT INTO job_waiting VALUES (:run, :worker) ON CONFLICT (run) DO UPDATE SET worker = excluded.worker"
        )
        self.transaction(lambda c: c.execute(insert, {"run": run, "worker": worker}))

    def waiting(self, runs: Sequence[str]) -> dict[str, str]:
        """Return which of these runs wait for a place, each with its worker."""
        select = sa.text("SELECT run, worker FROM job_waiting WHERE run IN :runs").bindparams(
            sa.bindparam("runs", expanding=True)
        )
        return {row[0]: row[1] for row in self._read(lambda c: c.execute(select, {"runs": list(runs)}).fetchall())}

    def take_place(self, run: str, worker: str, job: Job, limits: Limits) -> bool:
        """Let a run begin, if the limits for all workers do. Returns whether: then it counts as running, and waits no
        more. A worker that was declared dead begins nothing."""
        most = [limits.total, limits.queue, limits.tenant]
        names = ("total", "of_queue", "of_tenant")
        values = {name: MAX_PLACES if limit is None else limit for name, limit in zip(names, most, strict=True)}
        values |= {"run": run, "worker": worker, "queue": job.queue, "tenant": job.tenant}
        insert = sa.text(
            "INSERT INTO job_place (run, worker, queue, tenant) SELECT :run, :worker, :queue, :tenant"
            " WHERE (SELECT count(*) FROM job_place) < :total"
            " AND (SELECT count(*) FROM job_place WHERE queue = :queue) < :of_queue"
            " AND (SELECT count(*) FROM job_place WHERE queue = :queue AND tenant = :tenant) < :of_tenant"
        )

        def take(connection: sa.Connection) -> bool:
            if self.postgres:
                if limits.shared:
                    connection.execute(sa.text("SELECT 1 FROM job_lock WHERE name = 'places' FOR UPDATE"))
                # Held until the end: who declares it dead then finds that the run has begun.
                alive = sa.text("SELECT 1 FROM job_worker WHERE id = :worker AND dead = 0 FOR SHARE")
                if connection.execute(alive, {"worker": worker}).fetchone() is None:
                    return False
            if limits.shared:
                connection.execute(sa.text("DELETE FROM job_place WHERE run = :run"), {"run": run})
                if connection.execute(insert, values).rowcount != 1:
                    return False
            connection.execute(sa.text("DELETE FROM job_waiting WHERE run = :run"), {"run": run})
            return True

        return self.transaction(take)

    def free_place(self, run: str) -> None:
        """Count a run as running no more."""
        self.transaction(lambda c: c.execute(sa.text("DELETE FROM job_place WHERE run = :run"), {"run": run}))

    def free_places(self) -> None:
        """Free the places of workers that are dead, or that have left."""

        def free(connection: sa.Connection) -> None:
            connection.execute(sa.text(_FREE))
            connection.execute(sa.text(_LEFT))

        self.transaction(free)

    # The workers, on Postgres only. A worker that is dead never comes back: it takes another id.

    def enroll(self, worker: str, serves: Served) -> None:
        """Add a worker that lives."""
        insert = sa.text(f"INSERT INTO job_worker (id, heartbeat, serves) VALUES (:id, {_NOW}, :serves)")  # noqa: S608
        self.transaction(lambda c: c.execute(insert, {"id": worker, "serves": serves.to_json()}))

    def living(self, lease: float) -> dict[str, Served]:
        """Return the workers whose last heartbeat is not older than `lease` seconds."""
        where = f"dead = 0 AND heartbeat >= {_NOW} - :lease"
        select = sa.text(f"SELECT id, serves FROM job_worker WHERE {where} ORDER BY id")  # noqa: S608
        return {row[0]: Served.from_json(row[1]) for row in self._read(lambda c: c.execute(select, {"lease": lease}))}

    def beat(self, worker: str) -> bool:
        """Note that a worker lives. Returns False if it was declared dead. Raises DBAPIError; nothing is retried."""
        update = sa.text(f"UPDATE job_worker SET heartbeat = {_NOW} WHERE id = :id AND dead = 0")  # noqa: S608
        with self._single.begin() as connection:
            return connection.execute(update, {"id": worker}).rowcount == 1

    def leave(self, worker: str) -> None:
        """Remove a worker that has no jobs any more."""
        self.transaction(lambda c: c.execute(sa.text("DELETE FROM job_worker WHERE id = :id"), {"id": worker}))

    def declare_dead(self, lease: float) -> list[str]:
        """Declare dead the workers whose last heartbeat is older than `lease` seconds, and return all living ones."""
        old = sa.text(f"UPDATE job_worker SET dead = 1 WHERE dead = 0 AND heartbeat < {_NOW} - :lease")  # noqa: S608
        gone = sa.text(f"DELETE FROM job_worker WHERE dead = 1 AND heartbeat < {_NOW} - 86400")  # noqa: S608

        def declare(connection: sa.Connection) -> list[str]:
            connection.execute(old, {"lease": lease})
            connection.execute(gone)
            connection.execute(sa.text(_FREE))
            connection.execute(sa.text(_LEFT))
            return list(connection.execute(sa.text("SELECT id FROM job_worker WHERE dead = 0")).scalars())

        return self.transaction(declare)

    def someone_died(self, lease: float) -> bool:
        """Return whether a worker is dead or should be declared dead."""
        select = sa.text(f"SELECT 1 FROM job_worker WHERE dead = 1 OR heartbeat < {_NOW} - :lease LIMIT 1")  # noqa: S608
        with self._single.begin() as connection:
            return connection.execute(select, {"lease": lease}).fetchone() is not None

    def as_leader(self, do: Callable[[Callable[[], None]], T]) -> T | None:
        """Do something that only one worker may do at a time; None if another one does. `do` gets a function that
        raises DBAPIError if this worker lost the lock in the meantime, because it was stopped or cut off."""
        with self.engine.begin() as connection:
            lock = sa.text("SELECT 1 FROM job_lock WHERE name = 'leader' FOR UPDATE SKIP LOCKED")
            if not connection.execute(lock).scalar():
                return None
            return do(lambda: connection.execute(sa.text("SELECT 1")).close())
