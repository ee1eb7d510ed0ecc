"""What only a record on Postgres has: many machines, connections that are lost, and a chain for each writer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from toolcrib.config import load_settings
from toolcrib.core.context import ToolContext
from toolcrib.core.events import CallFinished
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.policy import callers
from toolcrib.policy.requests import Decision, answer
from toolcrib.record import approvals, chain, postgres
from toolcrib.record.approvals import LIVES, STAYS, Approvals
from toolcrib.record.audit import Audit
from toolcrib.record.connection import LIVING, RecordError, is_busy, shown
from toolcrib.record.database import connect
from toolcrib.record.retention import DAY, apply
from toolcrib.record.settings import RecordSettings
from toolcrib.toolbox import Toolbox

from ..postgres import Cluster, by
from ..waiting import until, wait_until


def finished(audit: Audit, count: int, name: str = "call", when: float = 1e9) -> None:
    for n in range(count):
        audit.listen(CallFinished(f"{name}_{n}", "look", "memory", "{}", "s", when + n, 0.1, ToolOutput("x")))
    audit.flush()


def registry(audit: Audit, ran: list[str]) -> ToolRegistry:
    @tool(category="destructive")
    async def wipe(path: str = "") -> str:
        """Wipe."""
        ran.append(path)
        return "wiped"

    made = ToolRegistry([wipe])
    made.stages.intent = audit.intent
    made.events.subscribe(audit.listen)
    return made


def check(url: str, *kept: chain.KeptEnd) -> chain.Verification:
    with contextlib.closing(connect(url)) as connection:
        return chain.verify(connection, kept)


def run(url: str, *statements: str) -> list[Any]:
    with contextlib.closing(connect(url)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


# --- tables and statements


def test_processes_that_open_it_at_once_make_the_tables_once(postgres_url: str) -> None:
    errors: list[BaseException] = []

    def open_it() -> None:
        try:
            finished_at = Audit(postgres_url).open()
            finished(finished_at, 1)
            finished_at.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert check(postgres_url).problem is None
    assert run(postgres_url, "SELECT count(*) FROM record WHERE kind = 'outcome'")[0][0] == 8


@pytest.mark.parametrize("made", ["SCHEMA toolcrib", "TABLE toolcrib.part ()", "TYPE toolcrib.glob AS ENUM ()"])
def test_what_another_process_has_just_made_is_tried_again(postgres_url: str, made: str) -> None:
    """IF NOT EXISTS looks first, so that it may find it there when it makes it."""
    with contextlib.closing(connect(postgres_url)) as connection, pytest.raises(sqlite3.Error) as error:
        for _ in range(2):
            connection.execute(f"CREATE {made}")
    assert is_busy(error.value)


def test_tables_of_a_later_version_are_left_alone_and_older_ones_are_brought_up(postgres_url: str) -> None:
    with contextlib.closing(connect(postgres_url)) as connection:
        first = "CREATE TABLE IF NOT EXISTS thing (a INTEGER)"
        connection.make_tables("thing", [first])
        connection.make_tables(
            "thing", [first, "ALTER TABLE thing ADD COLUMN b TEXT;\nINSERT INTO thing VALUES (1, 'x')"]
        )
        assert tuple(connection.execute("SELECT a, b FROM thing").fetchone()) == (1, "x")
        with pytest.raises(RecordError, match=r"another version of Toolcrib \(schema 2, this one knows 1"):
            connection.make_tables("thing", [first])


def test_a_transaction_within_a_transaction_is_an_error(postgres_url: str) -> None:
    with contextlib.closing(connect(postgres_url)) as connection:
        connection.begin()
        with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
            connection.begin()
        connection.rollback()


def test_nobody_reads_the_password_in_an_error() -> None:
    url = "postgresql://ann:hunter22@127.0.0.1:1/name?sslpassword=hunter22"
    with pytest.raises(RecordError) as caught:
        connect(url)
    assert "hunter22" not in str(caught.value)
    assert shown(url) == "postgresql://127.0.0.1:1/name"


# --- chains


def test_each_writer_has_a_chain_and_the_next_one_goes_on_with_a_free_one(postgres_url: str) -> None:
    one, two = Audit(postgres_url).open(), Audit(postgres_url).open()
    finished(one, 3)
    finished(two, 3)
    assert [head.seq for head in one.heads()] == [4, chain.WIDTH + 4]
    two.close()
    wait_until(lambda: not run(postgres_url, f"SELECT 1 FROM writer WHERE chain = 1 AND holder IN ({LIVING})"))
    three = Audit(postgres_url).open()
    finished(three, 1)
    assert [head.seq for head in one.heads()] == [4, chain.WIDTH + 6]
    assert check(postgres_url).problem is None
    one.close()
    three.close()


@pytest.mark.parametrize(
    ("statement", "row", "said"),
    [
        (f"UPDATE record SET tool = 'x' WHERE seq = {chain.WIDTH + 2}", chain.WIDTH + 2, "does not fit its hash"),
        (f"DELETE FROM record WHERE seq = {chain.WIDTH + 2}", chain.WIDTH + 2, "missing"),
        (f"DELETE FROM record WHERE seq BETWEEN {chain.WIDTH} AND {2 * chain.WIDTH}", chain.WIDTH + 1, "of chain 1"),
        (f"UPDATE record SET seq = seq + {chain.WIDTH} WHERE seq > {2 * chain.WIDTH}", 2 * chain.WIDTH + 1, "chain 2"),
    ],
)
def test_a_change_in_any_chain_and_a_chain_that_is_gone_are_named(
    postgres_url: str, statement: str, row: int, said: str
) -> None:
    logs = [Audit(postgres_url).open() for _ in range(3)]
    for log in logs:
        finished(log, 3)
    assert len(check(postgres_url).heads) == 3
    run(postgres_url, statement)
    found = check(postgres_url)
    assert found.row == row
    assert said in (found.problem or "")
    for log in logs:
        log.close()


def test_ends_of_all_chains_that_were_kept_must_be_there(postgres_url: str) -> None:
    logs = [Audit(postgres_url).open() for _ in range(2)]
    for log in logs:
        finished(log, 3)
    for log in logs:
        log.close()
    heads = check(postgres_url).heads
    kept = [chain.KeptEnd(*head) for head in heads]
    assert check(postgres_url, *kept).problem is None
    run(postgres_url, f"DELETE FROM record WHERE seq = {heads[1].seq}")
    assert check(postgres_url).problem is None
    assert check(postgres_url, *kept).row == heads[1].seq


def test_old_rows_go_from_every_chain_while_its_writer_goes_on(postgres_url: str) -> None:
    logs = [Audit(postgres_url).open() for _ in range(2)]
    for log in logs:
        finished(log, 10, "old", time.time() - 400 * DAY)
        finished(log, 5, "new", time.time() - DAY)
    run(postgres_url, f"UPDATE record SET time = {time.time() - 400 * DAY} WHERE kind = 'writer'")  # breaks the chains
    dropped = apply(postgres_url, RecordSettings(keep_days=365))
    assert dropped.rows == 22
    for log in logs:
        finished(log, 2, "later", time.time())
    found = check(postgres_url)
    assert found.problem is None
    assert (found.dropped, found.rows) == (22, 2 * (5 + 1 + 2))
    for log in logs:
        log.close()


def test_the_size_of_the_rows_is_limited(postgres_url: str) -> None:
    log = Audit(postgres_url).open()
    finished(log, 2000)
    log.close()
    with contextlib.closing(connect(postgres_url)) as connection:
        before = connection.used_bytes()
        assert apply(postgres_url, RecordSettings(0, before // 2)).rows > 900
        assert connection.used_bytes() <= before // 2
    assert check(postgres_url).problem is None


# --- a server that goes away


@pytest.fixture
def own(own_postgres: Cluster) -> Iterator[tuple[Cluster, Audit]]:
    with own_postgres.database() as url:
        log = Audit(url).open()
        yield own_postgres, log
        log.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_between_calls_is_not_noticed_and_loses_nothing(own: tuple[Cluster, Audit], mode: str) -> None:
    server, log = own
    ran: list[str] = []
    calls = registry(log, ran)
    for n in range(3):
        assert (await calls.execute("wipe", {"path": str(n)})).for_llm == "wiped"
        log.flush()
        server.stop(mode)
        server.start()
    assert len(log.query()) == 3
    assert len(log.query(kind="intent")) == 3
    assert check(str(log.path)).problem is None


async def test_calls_with_effects_are_refused_while_it_is_down_and_no_outcome_is_lost(
    own: tuple[Cluster, Audit],
) -> None:
    server, log = own
    ran: list[str] = []
    calls = registry(log, ran)
    await calls.execute("wipe", {"path": "before"})
    server.stop()
    refused = await calls.execute("wipe", {"path": "down"})
    assert refused.error_kind == "denied"
    assert "could not be recorded" in refused.for_llm
    assert "cannot be reached" in refused.for_llm
    server.start()
    await calls.execute("wipe", {"path": "after"})
    assert ran == ["before", "after"]
    assert sorted(row["outcome"] or "" for row in log.query()) == ["denied", "ok", "ok"]
    assert check(str(log.path)).problem is None


async def test_a_server_that_stands_still_is_not_waited_for_without_end(
    own: tuple[Cluster, Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = own[1]
    ran: list[str] = []
    calls = registry(log, ran)
    await calls.execute("wipe", {"path": "before"})
    log.flush()
    writing = "SELECT pid FROM pg_stat_activity, writer WHERE holder = concat(usesysid, ' ', application_name)"
    backend = run(str(log.path), writing)[0][0]
    monkeypatch.setattr(postgres._Bounded, "patience", 0.5)
    os.kill(backend, signal.SIGSTOP)
    try:
        refused = await asyncio.wait_for(calls.execute("wipe", {"path": "stuck"}), 60)
    finally:
        os.kill(backend, signal.SIGCONT)
    assert "no answer within 0.5 s" in refused.for_llm
    monkeypatch.undo()
    await calls.execute("wipe", {"path": "after"})
    assert ran == ["before", "after"]
    assert check(str(log.path)).problem is None


def test_a_commit_whose_answer_was_lost_stores_each_outcome_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Audit(postgres_url).open()
    finished(log, 1)
    real = postgres.PostgresConnection.commit

    def commit(self: postgres.PostgresConnection) -> None:
        real(self)
        self._drop()
        raise RecordError("the answer was lost")

    monkeypatch.setattr(postgres.PostgresConnection, "commit", commit)
    with pytest.raises(RecordError):
        finished(log, 300, "more")
    monkeypatch.undo()
    finished(log, 1, "last")
    log.close()
    assert run(postgres_url, "SELECT count(*), count(DISTINCT call_id) FROM record WHERE kind = 'outcome'")[0][:] == (
        302, 302,
    )  # fmt: skip
    assert check(postgres_url).problem is None


async def test_intents_at_the_same_time_are_committed_together_each_before_its_call(postgres_url: str) -> None:
    log = Audit(postgres_url).open()
    early: list[str] = []

    @tool(category="destructive")
    async def wipe(path: str) -> str:
        """Wipe."""
        sql = "SELECT count(*) FROM record WHERE kind = 'intent' AND arguments = '{\"path\":\"%s\"}'"
        if await asyncio.to_thread(run, postgres_url, sql % path) != [(1,)]:
            early.append(path)
        return "wiped"

    calls = ToolRegistry([wipe])
    calls.stages.intent = log.intent
    calls.events.subscribe(log.listen)
    outputs = await asyncio.gather(*[calls.execute("wipe", {"path": str(n)}) for n in range(60)])
    assert [output.for_llm for output in outputs] == ["wiped"] * 60
    assert early == []
    assert log.query(kind="intent", unfinished=True) == []
    log._lock.acquire()  # so that all of these wait for one commit
    refused = asyncio.gather(*[calls.execute("wipe", {"path": f"b{n}"}) for n in range(5)])
    await until(lambda: len(log._intents) == 5)
    run(postgres_url, "ALTER TABLE record ADD CONSTRAINT no_room CHECK (kind <> 'intent') NOT VALID")
    log._lock.release()
    assert {output.error_kind for output in await refused} == {"denied"}
    run(postgres_url, "ALTER TABLE record DROP CONSTRAINT no_room")
    assert len(log.query(kind="intent", limit=1000)) == 60
    log.close()
    assert check(postgres_url).problem is None


# --- others on the server


HOLDER = """
import sys, time
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import Audit

log, asker, now = Audit(sys.argv[1]).open(), Approvals(sys.argv[1]), time.time()
log.note("person", {})
given = dict.fromkeys(("call_id", "tool", "category", "arguments", "preview", "reason", "digest"), "d")
asker.add({**given, "id": "ap_1", "created": now, "expires": now + 60, "process": "far"})
print("holds all", flush=True)
time.sleep(600)
"""


def test_a_role_that_may_only_connect_stops_nobody(postgres_cluster: Cluster) -> None:
    """Every role may hold advisory locks, so nothing of ours may use one."""
    with contextlib.ExitStack() as stack:
        owner, stranger = (stack.enter_context(postgres_cluster.role()) for _ in range(2))
        url = stack.enter_context(postgres_cluster.database(f"OWNER {owner}"))
        admin = stack.enter_context(psycopg.connect(url, autocommit=True))
        for (function,) in admin.execute("SELECT oid::regprocedure FROM pg_proc WHERE proname LIKE '%advisory%'"):
            admin.execute(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC".encode())
            admin.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {stranger}".encode())
        held = stack.enter_context(psycopg.connect(by(url, stranger), autocommit=True))
        held.execute(
            "SELECT pg_advisory_lock(k, n) FROM generate_series(1953460076, 1953460077) k, generate_series(-9, 99) n"
        )
        for number in range(2):
            log, asker = Audit(by(url, owner)).open(), Approvals(by(url, owner))
            finished(log, 1)
            asker.add(question(id=f"ap_{number}", process="far"))
            log.close()
            asker.close()
        assert check(by(url, owner)).problem is None
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            held.execute("SELECT 1 FROM toolcrib.writer FOR KEY SHARE")


def test_what_a_killed_process_had_is_free_at_once_whatever_name_another_role_takes(
    postgres_cluster: Cluster, postgres_url: str
) -> None:
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(contextlib.closing(Approvals(postgres_url)))
        role = stack.enter_context(postgres_cluster.role())
        process = subprocess.Popen([sys.executable, "-c", HOLDER, postgres_url], stdout=subprocess.PIPE)
        with process:
            assert process.stdout is not None and process.stdout.readline() == b"holds all\n"
            other.resolve("ap_1", True, approver="me")
            assert [row["process"] for row in other.of_call("d")] == [LIVES]
            for (name,) in run(
                postgres_url, "SELECT application_name FROM pg_stat_activity WHERE application_name <> ''"
            ):
                stack.enter_context(psycopg.connect(by(postgres_url, role), application_name=name))
            process.kill()
        wait_until(lambda: [row["process"] for row in other.of_call("d")] == [None], 60)
        log = stack.enter_context(contextlib.closing(Audit(postgres_url).open()))
        log.note("person", {})
    found = check(postgres_url)
    assert (found.problem, found.rows, len(found.heads)) == (None, 4, 1)


# --- many machines


def machine(tmp_path: Path, url: str, name: str, work: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    """Open a toolbox with a state folder and settings of its own, as on another machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name / "config"))
    (tmp_path / work).mkdir(exist_ok=True)
    settings = load_settings(workspace=str(tmp_path / work), flags={"record.url": url})
    return Toolbox.open(settings=settings, builtin=False, **more)


@tool(category="shell")
async def deploy(version: str) -> str:
    """Deploy."""
    return f"deployed {version}"


async def test_a_question_of_one_machine_is_answered_on_another_and_runs_once(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(request: Any) -> bool:
        await asyncio.Event().wait()
        return False

    ctx = ToolContext(session_id="s")
    one = await machine(tmp_path, postgres_url, "one", "work", monkeypatch, approve=nobody, tools=[deploy])
    two = await machine(tmp_path, postgres_url, "two", "work", monkeypatch, tools=[deploy])
    try:
        call = asyncio.ensure_future(one.call("deploy", {"version": "1"}, ctx))
        await until(lambda: two.approvals.pending())
        row = two.approvals.pending()[0]
        assert not call.done()
        assert answer(two.approvals, row["id"], Decision(True, approver="ann")).kept
        assert (await asyncio.wait_for(call, 60)).for_llm == "deployed 1"
        again = await two.call("deploy", {"version": "1"}, ctx)
        assert again.error_kind == "pending"  # the yes was used
        one.audit.flush()
        assert [(row["outcome"], row["approver"]) for row in two.audit.query(outcome="ok")] == [("ok", "ann")]
    finally:
        await one.aclose()
        await two.aclose()


async def test_a_yes_holds_only_in_its_workspace(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = ToolContext(session_id="s")
    one = await machine(tmp_path, postgres_url, "one", "work", monkeypatch, tools=[deploy])
    other = await machine(tmp_path, postgres_url, "two", "elsewhere", monkeypatch, tools=[deploy])
    try:
        asked = await one.call("deploy", {"version": "1"}, ctx)
        answer(other.approvals, asked.meta["approval_id"], Decision(True, approver="ann"))
        refused = await other.call("deploy", {"version": "1"}, ctx)
        assert refused.error_kind == "pending"
        assert refused.meta["approval_id"] != asked.meta["approval_id"]
        assert (await one.call("deploy", {"version": "1"}, ctx)).for_llm == "deployed 1"
    finally:
        await one.aclose()
        await other.aclose()


async def test_a_machine_of_the_same_name_is_not_this_one_started_again(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await machine(tmp_path, postgres_url, "one", "work", monkeypatch, tools=[deploy])
    two = await machine(tmp_path, postgres_url, "two", "work", monkeypatch, tools=[deploy])
    try:
        asked = await one.call("deploy", {"version": "1"}, ToolContext(session_id="s1"))
        assert answer(two.approvals, asked.meta["approval_id"], Decision(True, approver="ann")).kept
        name, _, namespace = callers._machine()  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(callers, "_machine", lambda: (name, "another boot", namespace))
        other = await two.call("deploy", {"version": "1"}, ToolContext(session_id="s2"))
        assert other.error_kind == "pending" and other.meta["approval_id"] != asked.meta["approval_id"]
        monkeypatch.undo()
        assert (await one.call("deploy", {"version": "1"}, ToolContext(session_id="s1"))).for_llm == "deployed 1"
    finally:
        await one.aclose()
        await two.aclose()


def question(**given: Any) -> Any:
    """A request that waits for a minute."""
    now = time.time()
    return {
        "id": "ap_1", "call_id": "c", "tool": "t", "category": "shell", "arguments": "{}", "preview": "", "reason": "",
        "digest": "d", "created": now, "expires": now + 60, **given,
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [-3600.0, 48 * 3600.0])
def test_a_machine_with_a_wrong_clock_ends_no_question_of_others(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    asker, other = Approvals(postgres_url), Approvals(postgres_url)
    now = time.time()
    for ident, expires in ("ap_1", now + 60), ("ap_2", now - 1):
        asker.add(question(id=ident, created=now - 2, expires=expires))
    monkeypatch.setattr(approvals.time, "time", lambda: now + wrong)
    assert [row["id"] for row in other.pending()] == ["ap_1"]
    asker.close()
    other.close()


def test_one_of_many_machines_uses_up_a_yes(postgres_url: str) -> None:
    stores = [Approvals(postgres_url) for _ in range(6)]
    stores[0].add(question())
    stores[1].resolve("ap_1", True, approver="me")
    used: list[object] = []
    threads = [threading.Thread(target=lambda each=each: used.append(each.consume("ap_1", "run"))) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(row is not None for row in used) == 1
    for each in stores:
        each.close()


def test_who_asked_and_does_nothing_is_not_taken_for_ended_when_its_connection_was_cut(postgres_url: str) -> None:
    asker, other = Approvals(postgres_url), Approvals(postgres_url)
    asker.add(question(process="far"))
    other.resolve("ap_1", True, approver="me")
    others = "pid <> pg_backend_pid() AND datname = current_database()"
    run(postgres_url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    with contextlib.suppress(RecordError):
        other.get("ap_1")
    wait_until(lambda: [row["process"] for row in other.of_call("d")] == [LIVES])
    asker.close()
    wait_until(lambda: [row["process"] for row in other.of_call("d")] == [None])
    other.close()


def test_what_a_stored_session_asked_is_for_it_alone(postgres_url: str) -> None:
    asker, other = Approvals(postgres_url), Approvals(postgres_url)
    asker.add(question(process=STAYS))
    asker.close()  # at once: its name has no connection in it
    assert [row["process"] for row in other.of_call("d")] == [LIVES]
    other.close()


def test_what_a_process_of_another_machine_asked_is_free_when_it_has_ended(postgres_url: str) -> None:
    asker, other = Approvals(postgres_url), Approvals(postgres_url)
    asker.add(question(process="far"))
    other.resolve("ap_1", True, approver="me")
    for each in (asker, other):
        assert [row["process"] for row in each.of_call("d")] == [LIVES]
    others = "pid <> pg_backend_pid() AND datname = current_database()"  # not those of a test that runs beside this one
    run(postgres_url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    with contextlib.suppress(RecordError):
        asker.get("ap_1")
    asker.get("ap_1")  # on a new connection, with its lock
    with contextlib.suppress(RecordError):
        other.get("ap_1")
    assert [row["process"] for row in other.of_call("d")] == [LIVES]
    asker.close()
    wait_until(lambda: [row["process"] for row in other.of_call("d")] == [None])
    other.close()


@pytest.mark.parametrize("shared", [True, False])
def test_all_servers_have_one_key(postgres_url: str, tmp_path: Path, shared: bool) -> None:
    stores = [Approvals(postgres_url if shared else tmp_path / "record.db") for _ in range(4)]
    keys: list[bytes] = []
    threads = [threading.Thread(target=lambda each=each: keys.append(each.common_key())) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    for each in stores:
        each.close()
