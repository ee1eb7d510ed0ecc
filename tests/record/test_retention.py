"""What the record drops by age and size, and that the rest can still be verified."""

import itertools
import json
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from toolcrib.core.events import CallFinished
from toolcrib.core.output import ToolOutput
from toolcrib.record import chain, retention
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import Audit
from toolcrib.record.database import connect
from toolcrib.record.retention import DAY, apply
from toolcrib.record.settings import RecordSettings


def record(path, ages, arguments="{}"):
    """A closed record with a call of each age, in days."""
    audit = Audit(path).open()
    now = time.time()
    for n, age in enumerate(ages):
        made = CallFinished(f"call_{n}", "look", "memory", arguments, "s", now - age * DAY, 0.1, ToolOutput("x"))
        audit.listen(made)
    audit.close()


def rows(path):
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT seq, kind, arguments FROM record ORDER BY seq").fetchall()
    connection.close()
    return found


def check(path, kept=None):
    connection = connect(path)
    try:
        return chain.verify(connection, [] if kept is None else [chain.KeptEnd(*kept)])
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "record.db"


def test_old_calls_go_and_the_rest_verifies(path):
    record(path, [400] * 10 + [300] * 5)
    dropped = apply(path, RecordSettings(keep_days=365))
    assert dropped.rows == 10
    assert 399 * DAY < dropped.age < 401 * DAY
    assert [row[:2] for row in rows(path)] == [*((n, "outcome") for n in range(11, 16)), (16, "retention")]
    said = json.loads(rows(path)[-1][2])
    assert (said["through"], said["dropped"]) == (10, 10)
    found = check(path)
    assert (found.problem, found.rows, found.first, found.dropped) == (None, 6, 11, 10)


def test_it_can_be_done_again_and_again(path):
    record(path, [40, 30, 20, 10, 0])
    for days in (35, 25, 15):
        apply(path, RecordSettings(keep_days=days), slack=0)
        assert check(path).problem is None
    assert [row[1] for row in rows(path)] == ["outcome", "outcome", "retention", "retention", "retention"]
    record(path, [0])
    assert check(path).problem is None


def test_the_last_row_stays_and_the_next_one_is_chained_to_it(path):
    record(path, [400] * 5)
    apply(path, RecordSettings(keep_days=1))
    assert check(path).problem is None
    record(path, [0])
    found = check(path)
    assert found.problem is None
    assert found.heads[0].seq == 7


def test_a_few_old_rows_are_left_until_it_is_worth_it(path):
    record(path, [365.5, 0])
    assert apply(path, RecordSettings(keep_days=365)).rows == 0
    assert apply(path, RecordSettings(keep_days=365), slack=0).rows == 1


@pytest.mark.parametrize("keep", [RecordSettings(0, 0), RecordSettings(365, 2**30), RecordSettings(0, 2**30)])
def test_what_is_within_the_limits_stays(path, keep):
    record(path, [300] * 10 if keep.keep_days else [3000] * 10)
    assert apply(path, keep).rows == 0
    assert len(rows(path)) == 10


def test_a_record_that_is_too_large_loses_its_oldest_calls_and_the_file_shrinks(path):
    record(path, [0] * 3000, json.dumps({"text": "x" * 500}))
    before = path.stat().st_size
    assert before > 1_500_000
    apply(path, RecordSettings(0, 1_000_000))
    connection = connect(path)
    assert 500_000 < connection.used_bytes() <= 1_000_000
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert path.stat().st_size <= 1_000_000
    assert rows(path)[-2][0] == 3000
    assert check(path).problem is None
    assert apply(path, RecordSettings(0, 1_000_000)).rows == 0


def test_large_requests_push_no_calls_out(path):
    record(path, [0] * 50)
    approvals = Approvals(path)
    for number in "12":
        approvals.add({
            "id": number, "call_id": "c", "tool": "t", "category": "shell", "arguments": "ä" * 1_000_000,
            "preview": "x" * 1_000_000, "reason": "", "digest": number, "created": time.time(),
            "expires": time.time() + 60,
        })  # fmt: skip
    approvals.close()
    assert path.stat().st_size > 5_000_000
    assert apply(path, RecordSettings(0, 1_000_000)).rows == 0
    assert len(rows(path)) == 50


def test_a_dry_run_only_says(path):
    record(path, [400] * 5 + [0])
    assert apply(path, RecordSettings(), dry_run=True).rows == 5
    assert len(rows(path)) == 6


def test_it_can_be_cut_off_anywhere_and_gone_on_with(path, monkeypatch):
    monkeypatch.setattr(retention, "_CHUNK", 3)
    record(path, [400] * 10 + [0] * 3)
    apply(path, RecordSettings(), stop=lambda: True)
    assert [row[0] for row in rows(path)] == list(range(4, 15))  # one chunk is gone, the row that says so is there
    found = check(path)
    assert (found.problem, found.first) == (None, 11)
    record(path, [0])
    assert apply(path, RecordSettings()).rows == 7
    assert [row[0] for row in rows(path)] == list(range(11, 16))
    assert check(path).problem is None


def test_rows_that_somebody_else_removed_are_not_excused(path):
    record(path, [400] * 5 + [0] * 10)
    apply(path, RecordSettings())
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM record WHERE seq = 6")
    connection.commit()
    connection.close()
    found = check(path)
    assert (found.row, found.problem and "missing" in found.problem) == (6, True)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET arguments = replace(arguments, '\"through\":5', '\"through\":9') WHERE kind = 'retention'",
        "UPDATE record SET arguments = 'nonsense' WHERE kind = 'retention'",
        "DELETE FROM record WHERE kind = 'retention'",
        "UPDATE record SET kind = 'outcome' WHERE kind = 'retention'",
    ],
)
def test_a_forged_retention_is_found(path, statement):
    record(path, [400] * 5 + [0] * 10)
    apply(path, RecordSettings())
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert check(path).problem is not None


def test_a_kept_head_that_was_dropped_is_no_alarm(path):
    record(path, [400] * 5)
    head = check(path).heads[0]
    record(path, [400] * 5 + [0])
    apply(path, RecordSettings())
    assert check(path, (head.seq, head.hash)).problem is None


def test_opening_drops_old_calls_in_the_background(path):
    record(path, [400] * 5000 + [0])
    audit = Audit(path, RecordSettings()).open()
    audit.close()  # waits for the transaction at work, no longer
    for _ in range(5):
        Audit(path, RecordSettings()).open().close()
    assert rows(path)[0][0] == 5001
    assert check(path).problem is None


@pytest.mark.parametrize("at", range(1, 8))
def test_another_process_may_drop_them_after_each_look(path, at):
    """As two servers do that start at once."""
    record(path, [400] * 10 + [300] * 5)
    keep = RecordSettings(keep_days=365)
    looks = itertools.count(1)

    class Interrupted:
        shared = False

        def execute(self, sql, values=()):
            found = connection.execute(sql, values).fetchall()
            if next(looks) == at:
                apply(path, keep)
            return SimpleNamespace(fetchone=lambda: next(iter(found), None), fetchall=lambda: found)

        def used_bytes(self):
            return 1

    with closing(connect(path)) as connection:
        retention.is_due(Interrupted(), keep)
        assert retention._measure(Interrupted(), 10, 0, 1).rows >= 0
    assert apply(path, keep).rows == 0
    assert check(path).problem is None


def test_calls_go_on_while_old_ones_are_dropped(path):
    record(path, [400] * 20_000 + [0])
    audit = Audit(path, RecordSettings()).open()
    assert audit._keeper is not None
    for n in range(200):
        audit.listen(CallFinished(f"new_{n}", "look", "memory", "{}", "s", time.time(), 0.1, ToolOutput("x")))
        audit.flush()
    audit._keeper.join()
    assert len(audit.query(limit=1000)) == 201
    audit.close()
    assert check(path).problem is None


def test_answered_approvals_of_that_age_go_too(path):
    record(path, [400] * 3 + [0])
    approvals = Approvals(path)
    then = time.time() - 400 * DAY
    for number, expires in (("old", then), ("waits", time.time() + 60)):
        approvals.add({
            "id": number, "call_id": "c", "tool": "t", "category": "shell", "arguments": "{}", "preview": "",
            "reason": "", "digest": number, "created": then, "expires": expires,
        })  # fmt: skip
    approvals.expire("old")
    apply(path, RecordSettings())
    assert [row["id"] for row in approvals.recent()] == ["waits"]
    approvals.close()
