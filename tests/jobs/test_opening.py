"""Which engine is opened for which word, and that DBOS is imported only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.jobs.engine import JobError
from toolcrib.jobs.opening import open_engine


async def test_each_address_has_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_engine("memory").name == "in memory"
    assert open_engine("jobs.db").name == f"SQLite {tmp_path}/jobs.db"
    assert open_engine(f"sqlite:///{tmp_path}/jobs.db").name == f"SQLite {tmp_path}/jobs.db"
    assert open_engine("postgresql://me:secret@db.example:5433/work").name == "Postgres db.example:5433/work"
    assert not (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize("where", ["mysql://host/db", "sqlite:///relative.db", "://"])
async def test_another_address_is_an_error(where: str) -> None:
    with pytest.raises(JobError):
        open_engine(where)


def test_dbos_is_not_imported_for_jobs_in_memory() -> None:
    code = "import sys, toolcrib.jobs.opening as o; o.open_engine('memory'); print('dbos' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
