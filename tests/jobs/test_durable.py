"""What the engine in a database does besides what every engine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.jobs import durable
from toolcrib.jobs.durable import DurableEngine
from toolcrib.jobs.engine import Job, JobOutcome, JobRun

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
