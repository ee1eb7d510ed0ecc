"""What the engine in a database does besides what every engine does."""

from __future__ import annotations

import base64
import os
import pickle
from pathlib import Path

import pytest
import sqlalchemy as sa

from toolcrib.jobs import durable
from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, JobOutcome, JobRun
from toolcrib.jobs.job_store import SCHEMA

from ..postgres import Cluster


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
    for name in ("forged", "rubbish", "ended"):
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
    await engine.work(run)
    await engine.submit(Job("call", {}, id="later"))
    assert (await engine.result("later", 20)).state == "done"
    states = {status.job.id: status.state for status in await engine.jobs()}
    assert states == {"forged": "failed", "rubbish": "failed", "ended": "failed", "later": "done"}
    assert "cannot be read" in (await engine.status("forged")).reason
    assert not [path.name for path in tmp_path.iterdir() if path.is_dir()]
    await engine.aclose()
