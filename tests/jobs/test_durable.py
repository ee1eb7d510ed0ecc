"""What the engine in a database does besides what every engine does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import pickle
import sqlite3
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from toolcrib.jobs import durable
from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, JobOutcome, JobRun, Limits, Served
from toolcrib.jobs.job_store import QUEUED, SCHEMA, JobStore, open_database

from ..locks import locks_of
from ..postgres import Cluster, by


async def test_a_list_looks_at_the_latest_runs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("failed" if job.id in ("j1", "j9") else "done")

    monkeypatch.setattr(durable, "_PAGE", 2)
    monkeypatch.setattr(durable, "_LOOKED_AT", 4)
    engine = DurableEngine(f"sqlite:///{tmp_path}/jobs.db", poll=0.02)
    await engine.work(run)
    for n in range(10):
        await engine.submit(Job("call", {}, id=f"j{n}"))
        await engine.result(f"j{n}", 20)
    assert [status.job.id for status in await engine.jobs(states=["failed"], limit=2)] == ["j9"]
    assert len(await engine.jobs(limit=10)) == 10
    await engine.aclose()


async def test_a_second_engine_drops_no_lock_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first, second = (DurableEngine(f"sqlite:///{path}") for _ in range(2))
    assert await first.jobs() == []
    with contextlib.closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sqlite_master").fetchall()
        before = locks_of(path)
        assert before
        assert await second.jobs() == []
        assert before <= locks_of(path)
    await first.aclose()
    await second.aclose()


async def test_a_postgres_database_without_an_encoding(postgres_cluster: Cluster) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done", job.body)

    # What initdb makes where LANG is C.
    ascii_only = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with postgres_cluster.database(ascii_only) as url:
        engine = DurableEngine(url)
        try:
            await engine.work(run)
            job = await engine.submit(Job("call", {"text": "grüße 你好"}))
            assert (await engine.result(job, 30)).output == {"text": "grüße 你好"}
            assert [status.job.body for status in await engine.jobs()] == [{"text": "grüße 你好"}]
        finally:
            await engine.aclose()


async def test_processes_that_start_at_once_make_the_tables_once(postgres_cluster: Cluster) -> None:
    def ours() -> set[str]:
        return {name for name in sa.inspect(engine.store.engine).get_table_names(SCHEMA) if name.startswith("job")}

    with postgres_cluster.database() as url, contextlib.closing(JobStore(open_database(url))) as store:
        engine = DurableEngine(url)
        await engine.jobs()
        made = ours()
        with store.engine.begin() as connection:
            connection.execute(sa.text(f"DROP TABLE {', '.join(made)}"))
            connection.execute(sa.text(f"DROP TRIGGER {QUEUED} ON workflow_status; DROP FUNCTION {QUEUED}"))
        await asyncio.gather(*[asyncio.to_thread(store.set_up) for _ in range(8)])
        again = ours()
        await engine.aclose()
        with psycopg.connect(url) as other:  # it makes them now
            other.execute(f"SELECT 1 FROM {SCHEMA}.dbos_migrations FOR UPDATE".encode())
            with store.engine.begin() as connection:
                connection.execute(sa.text(f"ALTER DATABASE {store.engine.url.database} SET lock_timeout = '100ms'"))
            store.engine.dispose()
            with pytest.raises(OperationalError, match="lock timeout"):
                store.set_up()
    assert again == made >= {"job", "job_lock"}


async def test_one_worker_leads_whatever_a_role_that_may_only_connect_holds(
    jobs_postgres: str, postgres_cluster: Cluster
) -> None:
    store = JobStore(open_database(jobs_postgres))
    with postgres_cluster.role() as stranger, psycopg.connect(by(jobs_postgres, stranger)) as held:
        held.execute("SELECT pg_advisory_lock(n) FROM generate_series(1953460076, 1953460079) n")
        store.set_up()
        store.enroll("w", Served())
        assert store.take_place("run", "w", Job("call", {}), Limits(total=1))
        assert not store.take_place("other", "w", Job("call", {}), Limits(total=1))
        assert store.as_leader(lambda check: store.as_leader(lambda check: "both") or "one") == "one"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            held.execute(f"SELECT 1 FROM {SCHEMA}.job_lock FOR KEY SHARE".encode())
    store.close()


class _Code:
    """A pickle of it makes a folder where it is read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._path,)


@pytest.mark.parametrize("where", ["jobs_file", "jobs_postgres"])
async def test_a_row_runs_no_code_of_whoever_wrote_it(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def run(job: Job, run: JobRun) -> JobOutcome:
        return JobOutcome("done")

    engine = DurableEngine(request.getfixturevalue(where), poll=0.02)
    for name in ("forged", "rubbish", "ended", "gone", "empty"):
        await engine.submit(Job("call", {}, id=name))
    inputs = base64.b64encode(pickle.dumps({"args": (_Code(f"{tmp_path}/input"), 0), "kwargs": {}})).decode()
    output = base64.b64encode(pickle.dumps(_Code(f"{tmp_path}/output"))).decode()
    schema = f"{SCHEMA}." if engine.store.postgres else ""
    with engine.store.engine.begin() as connection:
        row = f"UPDATE {schema}workflow_status SET serialization = 'py_pickle'"
        connection.execute(sa.text(f"{row} WHERE workflow_uuid = 'forged'"))
        connection.execute(sa.text(f"{row}, status = 'SUCCESS' WHERE workflow_uuid = 'ended'"))
        for name, text in (("forged", inputs), ("ended", inputs), ("rubbish", '{"positionalArgs": [7]}')):
            row = f"UPDATE {schema}workflow_input SET inputs = :text WHERE workflow_uuid = :name"
            connection.execute(sa.text(row), {"text": text, "name": name})
        row = f"INSERT INTO {schema}workflow_output (workflow_uuid, output, retention_timestamp)"
        connection.execute(sa.text(f"{row} VALUES ('ended', :text, 0)"), {"text": output})
        connection.execute(sa.text(f"DELETE FROM {schema}workflow_input WHERE workflow_uuid = 'gone'"))
        row = f"UPDATE {schema}workflow_status SET status = 'SUCCESS' WHERE workflow_uuid = 'empty'"
        connection.execute(sa.text(row))
    await engine.work(run)
    await engine.submit(Job("call", {}, id="later"))
    assert (await engine.result("later", 20)).state == "done"
    states = {status.job.id: status.state for status in await engine.jobs()}
    assert states.pop("later") == "done"
    assert states == dict.fromkeys(("forged", "rubbish", "ended", "gone", "empty"), "failed")
    assert "cannot be read" in (await engine.status("forged")).reason
    assert not [path.name for path in tmp_path.iterdir() if path.is_dir()]
    await engine.aclose()


async def test_a_database_has_one_name(tmp_path: Path) -> None:
    one, two, other = (DurableEngine(f"sqlite:///{tmp_path}/{name}.db") for name in ("a", "a", "b"))
    assert await one.place() == await two.place() != await other.place()
    for engine in (one, two, other):
        await engine.aclose()
