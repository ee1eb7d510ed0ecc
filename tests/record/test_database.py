"""The record's database opens whoever else is at it."""

import sqlite3
import threading

from toolcrib.record.database import connect


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
