"""The hash chain: whole whoever wrote it, and any change of what stands in it is found."""

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.events import CallFinished
from toolcrib.core.output import ToolOutput
from toolcrib.record import chain
from toolcrib.record.audit import Audit
from toolcrib.record.chain import note
from toolcrib.record.connection import is_url
from toolcrib.record.database import connect

WRITER = """
import sys
from toolcrib.core.call import Call
from toolcrib.core.interfaces import Grant
from toolcrib.core.context import ToolContext
from toolcrib.core.events import CallFinished
from toolcrib.core.output import ToolOutput
from toolcrib.core.tool import tool
from toolcrib.record.audit import Audit
import asyncio, time
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
@tool(category="memory")
async def keep() -> str:
    "Keep."
    return "kept"
audit, ctx, output = Audit(path).open(), ToolContext(session_id=name), ToolOutput("kept")
async def main():
    n = 0
    while n != count:
        waits = audit.intent(Call(f"{name}-{n}", keep, '{"n":%d}' % n, ctx), Grant("rule"))
        if waits is not None:
            await waits
        audit.listen(CallFinished(f"{name}-{n}", "keep", "memory", '{"n":%d}' % n, name, time.time(), 0.5, output))
        n += 1
        if n == 50:
            print("going", flush=True)
asyncio.run(main())
audit.close()
"""


def writer(python, path, name, count):
    return subprocess.Popen([python, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE, text=True)


def check(path, kept=None):
    connection = connect(path)
    try:
        return chain.verify(connection, [] if kept is None else [chain.KeptEnd(*kept)])
    finally:
        connection.close()


def finished(audit, count, **more):
    for n in range(count):
        event = CallFinished(f"call_{n}", "look", "memory", f'{{"n":{n}}}', "s", 1e9 + n, 0.25, ToolOutput("x"), **more)
        audit.listen(event)
    audit.flush()


@pytest.fixture
def path(where):
    """A record of 40 rows, closed. On Postgres the first one says who writes."""
    audit = Audit(where).open()
    finished(audit, 39 if is_url(where) else 40)
    audit.close()
    return where


def change(path, *statements):
    """Change the record, and return the rows of the last statement. Writes SQLite's words for bytes in each dialect."""
    with contextlib.closing(connect(path)) as connection:
        for statement in statements:
            given = re.sub(r"x'([0-9a-f]*)'", r"decode('\1', 'hex')", statement) if is_url(path) else statement
            rows = connection.execute(given).fetchall()
    return [tuple(row) for row in rows]


# --- writing


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_processes_that_write_at_once_make_whole_chains_and_lose_nothing(where, forked_python, count):
    path = where
    Audit(path).open().close()
    running = [writer(forked_python, path, f"w{n}", count) for n in range(4)]
    for process in running:
        process.communicate(timeout=200)
    assert [p.returncode for p in running] == [0, 0, 0, 0]
    found = check(path)
    writers = change(path, "SELECT count(*) FROM record WHERE kind = 'writer'")[0][0]
    assert (found.problem, found.rows) == (None, 4 * 2 * count + writers)
    assert len(found.heads) <= max(writers, 1)
    made = "SELECT count(DISTINCT call_id), count(DISTINCT seq) FROM record WHERE kind = '{}'"
    for kind in ("intent", "outcome"):
        assert change(path, made.format(kind)) == [(4 * count, 4 * count)]
    ids = "SELECT count(*) FROM record o JOIN record i ON i.seq = o.intent AND i.call_id = o.call_id"
    assert change(path, ids) == [(4 * count,)]


def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_chain(where):
    path = where
    Audit(path).open().close()
    for n in range(3):
        process = writer(sys.executable, path, f"w{n}", -1)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 * n)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert check(path).problem is None
    audit = Audit(path).open()
    finished(audit, 5)
    audit.close()
    found = check(path)
    assert found.problem is None
    assert found.rows >= 155
    assert [row["call_id"] for row in audit_unfinished(path)]  # what ran when it was killed


def audit_unfinished(path):
    audit = Audit(path).open()
    try:
        return audit.query(kind="intent", unfinished=True)
    finally:
        audit.close()


def test_two_logs_of_one_record_write_at_once(where):
    one, two = Audit(where).open(), Audit(where).open()
    for _ in range(5):
        finished(one, 3)
        finished(two, 3)
    one.close()
    two.close()
    assert check(where).rows == (32 if is_url(where) else 30)
    assert check(where).problem is None


def test_a_log_that_was_idle_while_others_wrote_and_dropped_does_not_fork_the_chain(path):
    idle, other = Audit(path).open(), Audit(path).open()
    finished(other, 10)
    connection = connect(path)
    head = chain.head(connection)
    change(path, f"DELETE FROM record WHERE seq < {head.seq}")  # all that the idle one has seen, and what came since
    with pytest.raises(sqlite3.IntegrityError):
        chain.append_next(connection, chain.Head(head.seq - 5, bytes(32)), note("lost", {}))
    connection.close()
    finished(idle, 1)
    if not is_url(path):  # there it has a chain of its own
        assert change(path, "SELECT seq FROM record ORDER BY seq") == [(head.seq,), (head.seq + 1,)]
    idle.close()
    other.close()


VALUES = st.one_of(st.none(), st.text(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))


@given(st.lists(VALUES, max_size=20))
def test_content_is_what_json_dumps_gives(values):
    text = chain.content(values)
    assert text == json.dumps(values, separators=(",", ":"))
    assert text.isascii()


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, st.floats(0, 1e12), st.integers(0, 2**40)), max_size=10))
def test_any_values_read_back_verify(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("chain") / "record.db"
    connection = connect(path)
    made = [
        (
            "outcome",
            when,
            text,
            other,
            "",
            "allow",
            None,
            None,
            text,
            "",
            when,
            size,
            "ok",
            None,
            None,
            None,
            text,
            None,
        )
        for text, other, when, size in rows
    ]
    connection.begin()
    chain.append(connection, made)
    connection.commit()
    assert chain.verify(connection).problem is None
    connection.close()


# --- tampering

EDITS = {
    "an argument": "UPDATE record SET arguments = '{\"n\":99}' WHERE seq = 20",
    "the time": "UPDATE record SET time = time + 0.001 WHERE seq = 20",
    "the verdict": "UPDATE record SET verdict = 'deny' WHERE seq = 20",
    "a value to NULL": "UPDATE record SET session_id = NULL WHERE seq = 20",
    "a value to its text": "UPDATE record SET size = 'x' WHERE seq = 20",
    "the labels": "UPDATE record SET labels = '{}' WHERE seq = 20",
    "the hash": f"UPDATE record SET hash = x'{'00' * 32}' WHERE seq = 20",
    "a text to bytes": "UPDATE record SET arguments = x'00' WHERE seq = 20",
    "a number to infinity": "UPDATE record SET duration = CAST('9e999' AS REAL) WHERE seq = 20",
    "the kind": "UPDATE record SET kind = 'note' WHERE seq = 20",
}


ONLY_IN_A_FILE = {"a value to its text", "a text to bytes", "a number to infinity"}  # Postgres refuses them


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_row_is_named(path, what):
    if is_url(path) and what in ONLY_IN_A_FILE:
        pytest.skip("Postgres refuses this value")
    change(path, EDITS[what])
    found = check(path)
    assert found.row == 20
    assert "does not fit its hash" in (found.problem or "")
    assert found.rows == 19


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
def test_a_text_that_is_none_is_named(path):
    change(path, "UPDATE record SET arguments = CAST(x'ff' AS TEXT) WHERE seq = 20")
    assert (check(path).row, check(path).rows) == (20, 19)


@pytest.mark.parametrize(
    ("statements", "row", "said"),
    [
        (["DELETE FROM record WHERE seq = 20"], 20, "row 20 is missing"),
        (["DELETE FROM record WHERE seq BETWEEN 20 AND 25"], 20, "rows 20 to 25 are missing"),
        (["DELETE FROM record WHERE seq <= 5"], 1, "rows 1 to 5 are missing"),
        (
            ["UPDATE record SET seq = 999 WHERE seq = 20", "UPDATE record SET seq = 20 WHERE seq = 21",
             "UPDATE record SET seq = 21 WHERE seq = 999"], 20, "does not fit",
        ),
        (["DELETE FROM record WHERE seq = 20", "UPDATE record SET seq = seq - 1 WHERE seq > 20"], 20, "does not fit"),
        (["CREATE TEMP TABLE copy AS SELECT * FROM record WHERE seq = 40", "UPDATE copy SET seq = 41",
          "INSERT INTO record SELECT * FROM copy"], 41, "does not fit"),
    ],
)  # fmt: skip
def test_removed_moved_and_added_rows_are_named(path, statements, row, said):
    change(path, *statements)
    found = check(path)
    assert found.row == row
    assert said in (found.problem or "")


PUT_IN = "INSERT INTO record (seq, kind, time, call_id, tool, category, verdict, arguments, hash) VALUES ({}, x'{}')"
NO_HASH = "00" * 32


@pytest.mark.parametrize("seq", [0, -7])
def test_a_row_put_in_before_the_first_is_named(path, seq):
    change(path, PUT_IN.format(f"{seq}, 'outcome', 2e9, 'c', 't', 'shell', 'allow', ''", NO_HASH))
    assert check(path).row == seq


def test_a_statement_of_retention_outside_the_chain_accounts_for_nothing(path):
    digest = change(path, "SELECT hash FROM record WHERE seq = 20")[0][0].hex()
    said = json.dumps({"through": 20, "hash": digest})
    change(
        path,
        PUT_IN.format(f"-1, 'retention', 0, '', '', '', 'none', '{said}'", NO_HASH),
        "DELETE FROM record WHERE seq BETWEEN 1 AND 20",
    )
    assert check(path).problem is not None


@pytest.mark.parametrize("through", [40, 10**6, 2**70, float("inf")])
def test_a_statement_of_retention_cannot_speak_of_itself_and_what_follows(path, through):
    said = json.dumps({"through": through, "hash": NO_HASH})
    change(path, f"UPDATE record SET kind = 'retention', arguments = '{said}' WHERE seq = 40")
    assert check(path).row == 40


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        (PUT_IN.format("3, 'outcome', 2e9, 'c', 't', 'shell', 'allow', ''", NO_HASH), 4),
        ("UPDATE record SET tool = 'other' WHERE seq = 19", 19),
        ("DELETE FROM record WHERE seq = 19", 19),
        ("DELETE FROM record WHERE seq = 20", 19),
    ],
)
def test_rows_that_count_as_dropped_and_are_still_there_are_checked(path, statement, row):
    connection = connect(path)
    digest = connection.execute("SELECT hash FROM record WHERE seq = 20").fetchone()[0].hex()
    connection.begin()
    chain.append(connection, [note("retention", {"through": 20, "hash": digest, "dropped": 20})])
    connection.execute("DELETE FROM record WHERE seq <= 10")  # and was interrupted there
    connection.commit()
    connection.close()
    assert check(path).problem is None
    change(path, statement)
    assert check(path).row == row


def test_an_end_that_was_cut_off_is_found_only_with_a_hash_that_was_kept(path):
    end = check(path).heads[0]
    change(path, "DELETE FROM record WHERE seq > 30")
    assert check(path).problem is None
    assert "ends at row 30" in (check(path, (end.seq, end.hash)).problem or "")
    assert "no row has the hash given" in (check(path, (None, end.hash)).problem or "")
    audit = Audit(path).open()
    finished(audit, 20)  # grown over
    audit.close()
    assert check(path).problem is None
    assert check(path, (end.seq, end.hash)).problem


def test_a_kept_hash_that_is_there_is_fine(path):
    end = check(path).heads[0]
    audit = Audit(path).open()
    finished(audit, 20)
    audit.close()
    for kept in ((end.seq, end.hash), (None, end.hash)):
        assert check(path, kept).problem is None
    assert check(path, (end.seq - 1, end.hash)).problem


def test_a_process_that_still_runs_gives_a_cut_off_end_away(path):
    audit = Audit(path).open()
    finished(audit, 1)
    change(path, "DELETE FROM record WHERE seq > 30")
    request = audit._head
    with audit._lock:
        chain.append_next(audit._connection, request, note("lost", {"outcomes": 1}))
    audit.close()
    # a chain of its own on Postgres, while the connection of the first one's writer still ends
    own = request.seq // chain.WIDTH
    assert check(path).row == (own * chain.WIDTH + 1 if own else 31)


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
def test_progress_is_told(path, monkeypatch):
    audit = Audit(path).open()
    for _ in range(5):
        finished(audit, 5_000)
    audit.close()
    told = []
    connection = connect(path)
    chain.verify(connection, (), told.append)
    connection.close()
    assert told == [10_000, 20_000]
