"""The record's database opens whoever else is at it."""

import contextlib
import sqlite3
import threading

import pytest

from toolcrib.record.connection import RecordError
from toolcrib.record.database import connect
from toolcrib.record.sqlite import write_ahead


def test_opening_waits_for_another_that_sets_up(tmp_path):
    path = tmp_path / "record.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    other.execute("CREATE TABLE t (x)")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    connection = connect(path, timeout=0)
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 0
    connection.close()
    timer.join()
    other.close()


def test_wal_mode_waits_where_sqlite_does_not(tmp_path):
    path = tmp_path / "jobs.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (x)")
    other.execute("BEGIN")
    assert other.execute("SELECT * FROM t").fetchall() == []  # it reads, so nobody else can change the mode
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            write_ahead(connection, 0.01)
        write_ahead(connection)
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    timer.join()
    other.close()


@pytest.mark.parametrize("version", [1, 2, 99])
def test_a_file_of_another_version_is_left_alone(tmp_path, version):
    path = tmp_path / "record.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.executescript(f"CREATE TABLE approval (id TEXT PRIMARY KEY); PRAGMA user_version={version};")
    before = path.read_bytes()
    with pytest.raises(RecordError, match=f"another version of Toolcrib .schema {version}"):
        connect(path)
    assert path.read_bytes() == before
