"""A host may fork: nothing that either process writes is lost or written twice, and neither ends the other's."""

import subprocess
import sys

import pytest

from toolcrib.record import chain
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import Audit
from toolcrib.record.connection import is_url
from toolcrib.record.database import connect

START = """
import os, sys, time
from pathlib import Path
sys.unraisablehook = lambda error: os._exit(3)  # an error in a hook of a fork
where = sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1])
(written, tell_written), (closed, tell_closed) = os.pipe(), os.pipe()
def fork(child, parent):
    # The child does a first part, the parent does its own and ends its use, and the child does a second part.
    pid = os.fork()
    if pid == 0:
        try:
            child(1)
            os.write(tell_written, b"1")
            os.read(closed, 1)
            child(2)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os.write(tell_written, b"0")
            os._exit(1)
        os._exit(0)
    told = os.read(written, 1)
    parent()
    os.write(tell_closed, b"1")
    assert told == b"1" and os.waitpid(pid, 0)[1] == 0
"""


def run(script, where):
    done = subprocess.run(
        [sys.executable, "-c", START + script, str(where)], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


AUDIT = """
from toolcrib.record.audit import Audit
audit = Audit(where).open()
def note(text):
    audit.note("trust", {"text": text})
def parent():
    note("parent")
    audit.close()
note("before")
fork(lambda n: note(f"child {n}"), parent)
"""


def test_the_record_of_a_forked_process_is_whole(where):
    run(AUDIT, where)
    audit = Audit(where).open()
    rows = [row["arguments"] for row in audit.query(kind="trust")]
    audit.close()
    assert sorted(rows) == [f'{{"text":"{text}"}}' for text in ("before", "child 1", "child 2", "parent")]
    connection = connect(where)
    assert chain.verify(connection).problem is None
    connection.close()


INTENTS = """
import asyncio
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.record.audit import Audit
audit = Audit(where).open()
@tool(category="destructive")
async def wipe(who: str) -> str:
    "Wipe."
    return who
registry = ToolRegistry([wipe])
registry.stages.intent = audit.intent
def call(who):
    output = asyncio.run(registry.execute("wipe", {"who": who}))
    assert not output.is_error, output.for_llm
call("before")
fork(lambda n: call(f"child {n}"), lambda: call("parent"))
audit.close()
"""


@pytest.mark.parametrize("where", ["postgres"], indirect=True)
def test_a_child_writes_a_chain_of_its_own(where):
    run(INTENTS, where)
    audit = Audit(where)
    chains = {row["arguments"]: row["seq"] // chain.WIDTH for row in audit.query(kind="intent")}
    audit.close()
    before, first, second, parent = (chains[f'{{"who":"{who}"}}'] for who in ("before", "child 1", "child 2", "parent"))
    assert before == parent != first == second


OUTCOMES = """
import asyncio, collections
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.record import audit as room
room.GROUP_SECONDS = 0.2
audit = room.Audit(where).open()
@tool(category="memory", read_only=True)
async def look(who: str) -> str:
    "Look."
    return who
registry = ToolRegistry([look])
registry.events.subscribe(audit.listen)
def call(who):
    asyncio.run(registry.execute("look", {"who": who}))
call("before")
fork(lambda n: (call(f"child {n}"), n == 2 and time.sleep(0.6)), lambda: call("parent"))
audit.close()
"""


def test_waiting_outcomes_are_written_once_and_a_child_writes_its_own(where):
    run(OUTCOMES, where)
    audit = Audit(where)
    rows = [row["arguments"] for row in audit.query()]
    audit.close()
    assert sorted(rows) == [f'{{"who":"{who}"}}' for who in ("before", "child 1", "child 2", "parent")]


APPROVALS = """
from toolcrib.record.approvals import Approvals
approvals = Approvals(where)
def ask(name, process):
    approvals.add({"id": name, "digest": "d", "tool": "t", "category": "shell", "arguments": "{}",
        "reason": "", "scopes": "once", "preview": "", "created": time.time(), "expires": time.time() + 600,
        "call_id": name, "process": process})
def parent():
    ask("b", "parent")
    approvals.release("parent")
    approvals.close()
ask("a", "parent")
fork(lambda n: ask(f"c{n}", "child"), parent)
"""


def test_requests_for_approval_of_both_processes_are_kept(where):
    run(APPROVALS, where)
    approvals = Approvals(where)
    found = {row["id"]: row["process"] for row in approvals.pending()}
    assert sorted(found) == ["a", "b", "c1", "c2"]
    assert found["a"] is found["b"] is None, "the parent could not release what it asked before the fork"
    approvals.close()


LEASES = """
from toolcrib.agent.session_lock import SessionLocks, SessionTaken
class State:
    path, url, record = Path("."), str(where), str(where)
locks = SessionLocks(State)
held = locks.hold("session")
def parent():
    try:
        with locks.hold("session"):
            print("taken")
    except SessionTaken:
        print("refused")
with locks.hold("another"):
    fork(lambda n: n == 1 and held.__enter__(), parent)
    assert locks.is_held("another")
"""


@pytest.mark.parametrize("where", ["postgres"], indirect=True)
def test_a_session_that_a_child_runs_is_not_the_parents(where):
    assert is_url(where)
    assert run(LEASES, where) == "refused\n"


JOBS = """
import sqlalchemy as sa
from toolcrib.jobs.job_store import JobStore, open_database
table = "public.note" if isinstance(where, str) else "note"
store = JobStore(open_database(where if isinstance(where, str) else f"sqlite:///{where}"))
def note(text):
    with store.engine.begin() as connection:
        connection.execute(sa.text(f"INSERT INTO {table} VALUES (:text)"), {"text": text})
with store.engine.begin() as connection:
    connection.execute(sa.text(f"CREATE TABLE {table} (text TEXT)"))
def parent():
    note("parent")
    store.close()
fork(lambda n: note(f"child {n}"), parent)
store = JobStore(store.engine)
with store.engine.begin() as connection:
    print(sorted(row[0] for row in connection.execute(sa.text(f"SELECT text FROM {table}"))))
"""


def test_jobs_of_both_processes_are_kept(where):
    assert run(JOBS, where) == "['child 1', 'child 2', 'parent']\n"
