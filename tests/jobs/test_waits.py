"""What parked jobs wait for: answers mark it in the transaction that stores them, on SQLite and on Postgres."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.jobs.waits import Waits
from toolcrib.record.connection import Where
from toolcrib.record.database import connect


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    return tmp_path / "record.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


class Requests:
    """Requests for approval, as any process stores and answers them."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self.run("SELECT 1")

    def run(self, sql: str, *values: Any) -> None:
        connection = connect(self._where)
        connection.execute(sql, values)
        connection.close()

    def add(self, ident: str) -> None:
        names = "id, call_id, tool, category, arguments, preview, reason, digest, state, created, expires"
        self.run(
            f"INSERT INTO approval ({names}) VALUES (?, 'c', 't', 'shell', '{{}}', '', '', 'd', 'pending', 1, 2)", ident
        )

    def answer(self, ident: str, state: str) -> None:
        self.run("UPDATE approval SET state = ? WHERE id = ?", state, ident)


@pytest.fixture
def requests(where: Where) -> Requests:
    return Requests(where)


@pytest.fixture
def waits(where: Where) -> Any:
    made = Waits(where)
    yield made
    made.close()


def test_each_answer_marks_its_jobs(requests: Requests, waits: Waits) -> None:
    for ident in ("a", "b", "c", "d"):
        requests.add(ident)
        waits.add(f"job-{ident}", [f"approval:{ident}"])
    waits.add("job-e", ["approval:a"])
    assert waits.ready() == []
    requests.answer("a", "approved")
    requests.answer("b", "denied")
    requests.answer("c", "expired")
    found = [("approval:a", "job-a"), ("approval:a", "job-e"), ("approval:b", "job-b"), ("approval:c", "job-c")]
    assert sorted(waits.ready()) == found
    for key, job in found:
        waits.remove(job, key)
    assert waits.ready() == [] and waits.of_job("job-d") == ["approval:d"]


def test_an_answer_that_came_first_counts(requests: Requests, waits: Waits) -> None:
    requests.add("a")
    requests.answer("a", "approved")
    waits.add("job-a", ["approval:a"])
    assert waits.ready() == [("approval:a", "job-a")]


def test_answers_to_questions_count_once_there_are_sessions(where: Where, waits: Waits) -> None:
    connection = connect(where)
    table = "CREATE TABLE IF NOT EXISTS agent_result (call_id TEXT PRIMARY KEY, result TEXT NOT NULL)"
    connection.execute(table)
    waits.add("job-a", ["answer:s.1.c1"])
    assert waits.ready() == []
    connection.execute("INSERT INTO agent_result VALUES ('s.1.c1', '{}')")
    assert waits.ready() == [("answer:s.1.c1", "job-a")]
    connection.close()


def test_what_no_trigger_marked_is_found_later(requests: Requests, waits: Waits) -> None:
    requests.add("a")
    waits.add("job-a", ["approval:a"])
    requests.answer("a", "approved")
    requests.run("UPDATE job_wait SET ready = 0")
    assert waits.ready() == []
    waits.catch_up()
    assert waits.ready() == [("approval:a", "job-a")]


def test_what_a_memory_had_is_forgotten_with_it(requests: Requests, where: Where, waits: Waits) -> None:
    requests.add("a")
    here = Waits(where, "here")
    for each, job in ((here, "job-a"), (waits, "job-b")):
        each.begin(job)
        each.add(job, ["approval:a"])
    here.forget()
    assert (waits.of_job("job-a"), waits.of_job("job-b"), waits.begun()) == ([], ["approval:a"], ["job-b"])
    here.close()
