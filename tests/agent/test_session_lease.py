"""A lease has one holder: dead ones are replaced at once, stopped ones in time, and neither writes afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from toolcrib.agent.session_lease import LeaseOver, Leases
from toolcrib.record import postgres
from toolcrib.record.connection import Database, RecordError, transaction
from toolcrib.record.database import connect

from ..postgres import Cluster
from ..waiting import wait_until

HOLDER = """
import sys
from toolcrib.record.connection import transaction
from toolcrib.record.database import connect
from toolcrib.agent.session_lease import LeaseOver, Leases

leases = Leases(sys.argv[1], float(sys.argv[2]))
lease = leases.take("worker:1")
print("has it", lease.fence, flush=True)
connection = connect(sys.argv[1])
for line in sys.stdin:
    try:
        with transaction(connection):
            lease.check(connection)
            connection.execute("INSERT INTO work VALUES (?)", [line.strip()])
        print("written", flush=True)
    except LeaseOver as error:
        print("lost:", error, flush=True)
"""


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Database]:
    made = connect(postgres_url)
    made.execute("CREATE TABLE work (said TEXT)")
    yield made
    made.close()


@pytest.fixture
def leases(postgres_url: str) -> Iterator[Leases]:
    made = Leases(postgres_url)
    yield made
    made.close()


@pytest.fixture
def holder(postgres_url: str, connection: Database, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, postgres_url, str(getattr(request, "param", 60))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("has it ")
    yield process
    process.kill()
    process.communicate()


def work(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{text}\n")
    return process.stdout.readline()


def done(connection: Database) -> list[str]:
    return [row["said"] for row in connection.execute("SELECT said FROM work")]


def test_one_of_many_gets_it_and_the_next_one_after_it_was_given_back(postgres_url: str, leases: Leases) -> None:
    others = [Leases(postgres_url) for _ in range(8)]
    got: list[object] = []
    threads = [threading.Thread(target=lambda each=each: got.append(each.take("a"))) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lease = next(each for each in got if each is not None)
    assert sum(each is not None for each in got) == 1
    assert leases.take("a") is None
    assert leases.is_held("a")
    lease.release()
    assert not leases.is_held("a")
    again = leases.take("a")
    assert again is not None
    assert again.fence == lease.fence + 1
    assert not leases.has(lease)
    assert leases.has(again)
    for each in others:
        each.close()


def test_the_lease_of_a_killed_process_is_free_at_once(
    holder: subprocess.Popen[str], leases: Leases, connection: Database
) -> None:
    assert work(holder, "before") == "written\n"
    assert leases.take("worker:1") is None
    holder.kill()
    wait_until(lambda: not leases.is_held("worker:1"))
    lease = leases.take("worker:1")
    assert lease is not None
    with transaction(connection):
        lease.check(connection)
    assert done(connection) == ["before"]


@pytest.mark.parametrize("holder", [1], indirect=True)
def test_a_process_that_is_stopped_past_its_lease_writes_nothing_when_it_goes_on(
    holder: subprocess.Popen[str], leases: Leases, connection: Database
) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    wait_until(lambda: not leases.is_held("worker:1"))
    taken = leases.take("worker:1")
    assert taken is not None
    os.kill(holder.pid, signal.SIGCONT)
    assert "is lost" in work(holder, "late")
    assert done(connection) == []
    assert leases.is_held("worker:1")


@pytest.mark.parametrize("holder", [1], indirect=True)
def test_so_does_one_whose_lease_nobody_took(
    holder: subprocess.Popen[str], leases: Leases, connection: Database
) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    wait_until(lambda: not leases.is_held("worker:1"))
    os.kill(holder.pid, signal.SIGCONT)
    assert "is lost" in work(holder, "late")
    assert done(connection) == []


def test_nobody_takes_it_between_the_check_and_the_commit(
    postgres_url: str, leases: Leases, connection: Database
) -> None:
    first = Leases(postgres_url)
    lease = first.take("a")
    assert lease is not None
    connection.begin()
    lease.check(connection)
    first._connection.close()  # as if its network was cut
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(leases.take("a")))
    thread.start()
    thread.join(0.3)
    assert got == []
    connection.execute("INSERT INTO work VALUES ('in time')")
    connection.commit()
    thread.join(60)
    assert got[0] is not None
    with pytest.raises(LeaseOver), transaction(connection):
        lease.check(connection)
    assert done(connection) == ["in time"]
    first._held.clear()
    first.close()


def test_a_holder_that_is_stopped_within_a_transaction_is_replaced_and_writes_nothing(
    postgres_url: str, leases: Leases, connection: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        postgres, "_SET_UP", postgres._SET_UP.replace("session_timeout TO '8s'", "session_timeout TO '1s'")
    )
    first, stopped = Leases(postgres_url, 1), connect(postgres_url)
    lease = first.take("a")
    assert lease is not None
    stopped.begin()
    lease.check(stopped)
    stopped.execute("INSERT INTO work VALUES ('late')")
    first._held.clear()  # no renewal: the whole process stands still
    assert leases.take("b") is not None
    wait_until(lambda: leases.take("a") is not None)
    with pytest.raises(RecordError):
        stopped.commit()
    assert done(connection) == []
    stopped.close()
    first.close()


def test_leases_survive_a_restart_of_the_server(own_postgres: Cluster) -> None:
    with own_postgres.database() as url:
        leases, other = Leases(url, 60), Leases(url, 60)
        lease = leases.take("a")
        assert lease is not None
        own_postgres.stop("fast")
        own_postgres.start()
        with leases._lock:
            leases._renew_all()
        assert other.take("a") is None
        connection = connect(url)
        with transaction(connection):
            lease.check(connection)
        for each in (connection, leases, other):
            each.close()


def test_a_lease_that_could_not_be_given_back_ends_by_itself(own_postgres: Cluster) -> None:
    """The process renews the leases that it still has, not this one."""
    with own_postgres.database() as url:
        leases, other = Leases(url, 60), Leases(url, 60)
        lease, kept = leases.take("a"), leases.take("b")
        assert lease is not None and kept is not None
        own_postgres.stop("fast")
        with pytest.raises(RecordError):
            lease.release()
        own_postgres.start()
        assert leases.is_held("a")
        assert other.take("a") is None
        connection = connect(url)
        connection.execute("UPDATE lease SET until = until - 30")
        with leases._lock:
            leases._renew_all()
        until = {row["name"]: row["until"] for row in connection.execute("SELECT name, until FROM lease")}
        assert until["b"] - until["a"] > 29
        connection.execute("UPDATE lease SET until = until - 31 WHERE name = 'a'")
        assert other.take("a") is not None
        assert leases.has(kept)
        for each in (connection, leases, other):
            each.close()


def test_a_lease_that_was_taken_without_an_answer_can_be_taken_again(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = leases._connection.commit

    def commit() -> None:
        real()
        raise RecordError("the answer was lost")

    with monkeypatch.context() as patch, pytest.raises(RecordError):
        patch.setattr(leases._connection, "commit", commit)
        leases.take("a")
    assert leases.is_held("a")
    assert leases.take("a") is not None


def test_a_lease_that_nobody_has_can_be_forgotten(leases: Leases) -> None:
    lease = leases.take("a")
    assert lease is not None
    leases.forget("a")
    assert leases.is_held("a")
    lease.release()
    leases.forget("a")
    again = leases.take("a")
    assert again is not None
    assert again.fence > lease.fence
