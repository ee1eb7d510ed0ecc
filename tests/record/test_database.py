"""The record's database opens whoever else is at it."""

import contextlib
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


def test_a_file_of_an_older_version_gains_its_columns_and_keeps_its_rows(tmp_path):
    path = tmp_path / "record.db"
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript(
            "CREATE TABLE approval (id TEXT PRIMARY KEY, digest TEXT NOT NULL, state TEXT NOT NULL);"
            "INSERT INTO approval VALUES ('ap_1', 'd', 'pending'); PRAGMA user_version=1;"
        )
    for _ in range(2):
        with contextlib.closing(connect(path)) as opened:
            row = dict(opened.execute("SELECT * FROM approval").fetchone())
    assert (row["id"], row["scopes"], row["caller"], row["run"]) == ("ap_1", "once session", None, None)
