"""The Postgres of the tests: shared, private, and gone after the last of its users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from .postgres import Cluster
from .waiting import wait_until


def test_each_test_gets_a_database_of_its_own(postgres_url: str, postgres_cluster: Cluster) -> None:
    with psycopg.connect(postgres_url) as connection, postgres_cluster.database() as other:
        connection.execute("CREATE TABLE a (b INTEGER)")
        connection.commit()
        with psycopg.connect(other) as second, pytest.raises(psycopg.errors.UndefinedTable):
            second.execute("SELECT * FROM a")


def test_a_server_of_ones_own_can_be_stopped_and_started(own_postgres: Cluster) -> None:
    with own_postgres.database() as url:
        own_postgres.stop()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        own_postgres.start()
        psycopg.connect(url).close()


@pytest.mark.slow
def test_the_shared_server_ends_with_its_last_user_even_after_a_kill(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os\n\n\ndef test_it(postgres_cluster):\n"
        "    print('IN', postgres_cluster.folder, flush=True)\n    os.kill(os.getpid(), 9)\n"
    )
    plugin = f"{__package__}.postgres" if __package__ else "tests.postgres"
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-q", "-p", plugin, "-p", "no:cacheprovider", "--rootdir", tmp_path,
         f"--basetemp={tmp_path / 'base'}", tmp_path / "test_it.py"],
        cwd=root, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    folder = Path(done.stdout.split("IN ")[1].split()[0])
    wait_until(lambda: not folder.exists())
