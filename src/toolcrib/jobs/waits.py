"""Which jobs are parked, what each waits for, and who wakes them when a person has answered; and which jobs run.

The table is in one database with the requests for approval and the results of sessions. A trigger marks a row as ready
in the transaction that stores the answer, whatever process gives it; so a look costs the same with ten thousand rows
as with one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from ..core.text import one_line
from ..core.threads import shared_threads
from ..record.connection import Where
from ..record.database import RecordPart
from .engine import JobEngine, NotThere

log = logging.getLogger("toolcrib.jobs")

POLL_SECONDS = 0.3
"""Seconds between two looks for answers."""
CATCH_UP_SECONDS = 30.0
"""Seconds between two looks for requests that have expired, and for answers that no trigger has marked."""
BATCH = 100
"""Jobs that are woken after one look."""

APPROVAL, ANSWER = "approval:", "answer:"
"""The beginnings of the keys that a job waits for: then follows the id of a request, or of a call that asks."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS job_wait (
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    ready INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (key, job)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_wait_ready ON job_wait (ready) WHERE ready = 1;
CREATE INDEX IF NOT EXISTS job_wait_job ON job_wait (job);
CREATE TABLE IF NOT EXISTS job_run (job TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_BY_PLACE = """
ALTER TABLE job_wait ADD COLUMN place TEXT NOT NULL DEFAULT '';
ALTER TABLE job_run ADD COLUMN place TEXT NOT NULL DEFAULT '';
"""
_HERE = "place IN ('', ?)"
_ANSWERED = {
    APPROVAL: "UPDATE job_wait SET ready = 1 WHERE ready = 0 AND (? = '' OR key = ?) AND EXISTS"
    " (SELECT 1 FROM approval WHERE id = substr(key, 10) AND state <> 'pending')",
    ANSWER: "UPDATE job_wait SET ready = 1 WHERE ready = 0 AND (? = '' OR key = ?) AND EXISTS"
    " (SELECT 1 FROM agent_result WHERE call_id = substr(key, 8))",
}
_SQLITE_TRIGGERS = {
    APPROVAL: "CREATE TRIGGER IF NOT EXISTS job_wait_approval AFTER UPDATE OF state ON approval"
    " WHEN NEW.state <> 'pending' BEGIN UPDATE job_wait SET ready = 1 WHERE key = 'approval:' || NEW.id; END",
    ANSWER: "CREATE TRIGGER IF NOT EXISTS job_wait_answer AFTER INSERT ON agent_result"
    " BEGIN UPDATE job_wait SET ready = 1 WHERE key = 'answer:' || NEW.call_id; END",
}
WITHDRAWN = "its job was cancelled"
_WITHDRAW = (
    "UPDATE approval SET state = 'expired', answer = ?2 WHERE state IN ('pending', 'approved') AND"
    " (call_id = ?1 OR id IN (SELECT substr(key, 10) FROM job_wait WHERE job = ?1 AND key LIKE 'approval:%'))"
)
_POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE toolcrib.job_wait SET ready = 1 WHERE key = '{kind}' || NEW.{column}; RETURN NULL; END $$"""
_POSTGRES_TRIGGERS = {
    APPROVAL: (
        _POSTGRES_FUNCTION.format(name="job_wait_approval", kind=APPROVAL, column="id"),
        """CREATE OR REPLACE TRIGGER job_wait_approval AFTER UPDATE OF state ON approval FOR EACH ROW
        WHEN (NEW.state <> 'pending') EXECUTE FUNCTION job_wait_approval()""",
    ),
    ANSWER: (
        _POSTGRES_FUNCTION.format(name="job_wait_answer", kind=ANSWER, column="call_id"),
        """CREATE OR REPLACE TRIGGER job_wait_answer AFTER INSERT OR UPDATE ON agent_result FOR EACH ROW
        EXECUTE FUNCTION job_wait_answer()""",
    ),
}


class Waits(RecordPart):
    """The keys that the parked jobs of one record wait for. Any thread may use it.

    One record may be that of jobs in several places: in the memory of some processes, in files of some machines. Who
    has the jobs of one `place` (`JobEngine.place`) knows nothing of the others, and leaves them alone.
    """

    def __init__(self, where: Where, place: str = "") -> None:
        super().__init__(where, part="jobs", steps=[_SCHEMA, _BY_PLACE])
        self.place = place
        self._watched: set[str] = set()

    def _watch(self, kind: str) -> None:
        """Have answers of this kind mark the jobs that wait for them."""
        if kind not in self._watched:
            with self._transaction():
                for statement in _POSTGRES_TRIGGERS[kind] if self._connection.shared else (_SQLITE_TRIGGERS[kind],):
                    self._connection.execute(statement)
            self._watched.add(kind)

    def add(self, job_id: str, keys: Sequence[str]) -> None:
        """Store what a job waits for. A key that has its answer already is ready at once."""
        for key in keys:
            kind = ANSWER if key.startswith(ANSWER) else APPROVAL
            self._watch(kind)
            sql = "INSERT INTO job_wait VALUES (?, ?, 0, ?) ON CONFLICT (key, job) DO UPDATE SET ready = 0"
            self._run(sql, key, job_id, self.place)
            self._run(_ANSWERED[kind], key, key)  # it may have come before the row

    def catch_up(self) -> None:
        """Mark the answers that were given while a job was about to wait for them. Reads all rows."""
        for kind in self._watched:
            self._run(_ANSWERED[kind], "", "")

    def ready(self) -> list[tuple[str, str]]:
        """Return keys that have their answer, each with a job that waits for it."""
        sql = f"SELECT key, job FROM job_wait WHERE ready = 1 AND {_HERE} LIMIT ?"  # noqa: S608
        return [(row[0], row[1]) for row in self._run(sql, self.place, BATCH)]

    def remove(self, job_id: str, key: str) -> None:
        """Forget that a job waits for a key."""
        self._run("DELETE FROM job_wait WHERE job = ? AND key = ?", job_id, key)

    def of_job(self, job_id: str) -> list[str]:
        """Return what a job waits for."""
        return [row[0] for row in self._run("SELECT key FROM job_wait WHERE job = ?", job_id)]

    def withdraw(self, job_id: str) -> None:
        """End what a cancelled job asked: a yes to it must not hold for a later call."""
        with self._transaction():
            self._connection.execute(_WITHDRAW, [job_id, WITHDRAWN])
            self._connection.execute("DELETE FROM job_wait WHERE job = ?", [job_id])

    def begin(self, job_id: str) -> None:
        """Note that a job runs: if its worker ends, another one has to report it."""
        self._run("INSERT INTO job_run VALUES (?, ?) ON CONFLICT (job) DO NOTHING", job_id, self.place)

    def end(self, job_id: str) -> None:
        """Note that a run of a job was reported, or need not be."""
        self._run("DELETE FROM job_run WHERE job = ?", job_id)

    def begun(self) -> list[str]:
        """Return the jobs that began to run and were not reported."""
        return [row[0] for row in self._run(f"SELECT job FROM job_run WHERE {_HERE}", self.place)]  # noqa: S608

    def forget(self) -> None:
        """Forget the jobs of this place: they were in the memory of a process that ends."""
        for table in ("job_wait", "job_run"):
            self._run(f"DELETE FROM {table} WHERE place = ?", self.place)  # noqa: S608


async def cancel(engine: JobEngine, record: Where, job_id: str) -> bool:
    """Cancel a job, with what it asks. Returns whether it was not final yet. Raises JobError."""
    counts = await engine.cancel(job_id)
    if (await engine.status(job_id)).state == "cancelled":
        with contextlib.closing(Waits(record)) as waits:
            await shared_threads.run(waits.withdraw, job_id)
    return counts


async def wake(engine: JobEngine, waits: Waits, state_of: Callable[[str], str]) -> None:
    """Wake parked jobs as their answers come, until this is cancelled. `state_of(key)` is how a request was answered,
    and expires the requests that are too old."""
    looked, failed = time.monotonic(), False
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            if time.monotonic() - looked > CATCH_UP_SECONDS:
                looked = time.monotonic()
                await shared_threads.run(state_of, "")
                await shared_threads.run(waits.catch_up)
            failure: Exception | None = None
            for key, job_id in await shared_threads.run(waits.ready):
                try:
                    with contextlib.suppress(NotThere):  # the job was deleted
                        await engine.signal(job_id, key, {"state": await shared_threads.run(state_of, key)})
                except Exception as error:  # it is tried again, and does not hold up the others
                    failure = error
                else:
                    await shared_threads.run(waits.remove, job_id, key)
            if failure is not None:
                raise failure
            if failed:
                log.warning("parked jobs are woken again")
            failed = False
        except Exception as error:
            if not failed:  # once, not at every look while a database is away
                log.warning("parked jobs cannot be woken at present: %s", one_line(str(error) or type(error).__name__))
                log.debug("why they cannot", exc_info=True)
            failed = True
