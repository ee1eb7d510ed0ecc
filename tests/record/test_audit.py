"""The audit log: intent before effect, one outcome a call, shared by processes, never in the way of a call."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import time

import pytest

from toolcrib.core.context import ToolContext
from toolcrib.core.interfaces import Grant
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.threads import shared_threads
from toolcrib.core.tool import tool
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import MAX_ARGUMENTS, MAX_BEHIND, Audit
from toolcrib.record.connection import is_url
from toolcrib.record.database import connect
from toolcrib.record.rows import TRACEBACK

from ..waiting import until


def direct(where, *statements):
    """Run statements on another connection, and return the rows of the last one: only what is committed."""
    with contextlib.closing(connect(where)) as other:
        found = [other.execute(statement).fetchall() for statement in statements]
    return [tuple(row) for row in found[-1]]


@pytest.fixture
def audit(where):
    log = Audit(where).open()
    yield log
    log.close()


def registry(audit, seen=None):
    @tool(category="memory", read_only=True)
    async def look(n: int = 0) -> str:
        """Look."""
        return f"seen {n}"

    @tool(category="destructive")
    async def wipe(path: str) -> str:
        """Wipe."""
        if seen is not None:
            seen.append(direct(audit.path, "SELECT kind, arguments FROM record WHERE kind <> 'writer'"))
        if path == "no":
            raise ValueError("cannot")
        return "wiped"

    made = ToolRegistry([look, wipe])
    made.stages.intent = audit.intent
    made.events.subscribe(audit.listen)
    return made


async def test_the_intent_of_a_call_with_effects_is_committed_before_it_runs(audit):
    seen = []
    await registry(audit, seen).execute("wipe", {"path": "a"}, ToolContext(session_id="s", channel="mcp"))
    assert seen == [[("intent", '{"path":"a"}')]]
    rows = audit.query() + audit.query(kind="intent")
    assert [row["kind"] for row in rows] == ["outcome", "intent"]
    assert rows[0]["call_id"] == rows[1]["call_id"]
    assert (rows[0]["outcome"], rows[0]["session_id"], rows[0]["channel"]) == ("ok", "s", "mcp")
    assert rows[0]["size"] == len("wiped")
    assert audit.query(kind="intent", unfinished=True) == []


async def test_outcomes_do_not_pile_up_while_calls_never_wait(tmp_path):
    audit = Audit(tmp_path / "record.db").open()
    r, most = registry(audit), 0
    for n in range(6 * MAX_BEHIND):
        await r.execute("look", {"n": n})
        most = max(most, len(audit._rows))
    audit.flush()
    assert audit.count("tool")[0]["calls"] == 6 * MAX_BEHIND and most <= MAX_BEHIND + 1
    audit.close()


async def test_reads_have_no_intent_and_are_written_within_the_promised_time(audit):
    r = registry(audit)
    for n in range(20):
        await r.execute("look", {"n": n})
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        count = direct(audit.path, "SELECT count(*) FROM record WHERE kind <> 'writer'")[0][0]
        if count == 20:
            break
        await asyncio.sleep(0.02)
    assert count == 20
    assert {row["kind"] for row in audit.query(kind=None)} - {"writer"} == {"outcome"}


async def test_a_record_that_cannot_be_written_refuses_the_call(audit, monkeypatch):
    done = []

    @tool(category="destructive")
    async def wipe() -> str:
        """Wipe."""
        done.append(1)
        return "wiped"

    r = ToolRegistry([wipe])

    def full(request, grant):
        raise sqlite3.OperationalError("database or disk is full")

    r.stages.intent = full
    output = await r.execute("wipe", {})
    assert (output.error_kind, done) == ("denied", [])
    assert "could not be recorded" in output.for_llm


async def test_a_lock_held_by_another_process_is_waited_for_without_blocking_the_loop(audit, caplog):
    holder = connect(audit.path)
    holder.begin()
    if holder.shared:
        holder.execute("LOCK TABLE record IN EXCLUSIVE MODE")
    made = registry(audit)
    await made.execute("look", {})
    await until(audit._lock.locked)  # the thread that writes its outcome waits, too
    task = asyncio.gather(*(made.execute("wipe", {"path": "a"}) for _ in range(1 if holder.shared else 40)))
    for _ in range(20):
        await asyncio.sleep(0.01)  # the loop runs on
    await shared_threads.run(int)  # and so do calls in threads: there are 32
    assert not task.done()
    assert not caplog.messages, "the loop was blocked until the thread gave up"
    holder.execute("COMMIT")
    holder.close()
    assert {output.for_llm for output in await asyncio.wait_for(task, 60)} == {"wiped"}


async def test_errors_and_refusals_are_kept_with_their_kind(audit):
    r = registry(audit)
    await r.execute("wipe", {"path": "no"})
    await r.execute("wipe", {"pth": 1})
    await r.execute("wip", {})
    assert [row["outcome"] for row in audit.query()] == ["not_found", "invalid", "exception"]
    assert [row["verdict"] for row in audit.query()] == ["none", "none", "allow"]
    assert "cannot" in audit.query(outcome="exception")[0]["error"]


async def test_where_a_tool_raised_is_kept_for_developers(audit):
    await registry(audit).execute("wipe", {"path": "no"})
    text, _, where = audit.query()[0]["error"].partition(TRACEBACK)
    assert text.startswith("Error executing wipe: ValueError: cannot")
    assert 'raise ValueError("cannot")' in where


async def test_queries_filter_by_tool_time_and_session(audit):
    r = registry(audit)
    await r.execute("look", {}, ToolContext(session_id="a"))
    middle = time.time()
    await r.execute("wipe", {"path": "x"}, ToolContext(session_id="b"))
    assert [row["tool"] for row in audit.query(tool="look")] == ["look"]
    assert [row["tool"] for row in audit.query(since=middle)] == ["wipe"]
    assert [row["tool"] for row in audit.query(session_id="a")] == ["look"]
    assert len(audit.query(limit=1)) == 1


async def test_only_a_star_is_special_in_a_pattern_and_case_counts(audit):
    await registry(audit).execute("look", {}, ToolContext(session_id="a?[b]_%c"))
    for pattern in ("a?[b]*", "a*_%c", "*[b]_*"):
        assert len(audit.query(session_id=pattern)) == 1, pattern
    for pattern in ("A*", "a??*", "a_[b]*", "a*%_c", "*[a-b]*"):
        assert audit.query(session_id=pattern) == [], pattern


async def test_long_arguments_are_cut_in_the_record(audit):
    await registry(audit).execute("wipe", {"path": "x" * 100_000})
    kept = audit.query()[0]["arguments"]
    assert len(kept) < MAX_ARGUMENTS + 50
    assert "100,011 characters" in kept


CRASH = """
import asyncio, os, sys
sys.path[:0] = sys.argv[2:]
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import Audit
audit = Audit(sys.argv[1]).open()
@tool(category="destructive")
async def wipe() -> str:
    "Wipe."
    os._exit(9)
r = ToolRegistry([wipe]); r.stages.intent = audit.intent; r.events.subscribe(audit.listen)
asyncio.run(r.execute("wipe", {}))
"""


async def test_a_call_cut_off_by_the_end_of_its_process_is_found_unfinished(audit, forked_python):
    ended = subprocess.run([forked_python, "-c", CRASH, str(audit.path)], env={**os.environ}, check=False)
    assert ended.returncode == 9
    cut_off = audit.query(kind="intent", unfinished=True)
    assert [row["tool"] for row in cut_off] == ["wipe"]


async def test_processes_that_write_at_once_lose_nothing(audit, forked_python):
    many = 'async def many():\n for _ in range(50): await r.execute("wipe", {})\nasyncio.run(many())\naudit.close()'
    script = CRASH.replace("os._exit(9)", 'return "done"').replace('asyncio.run(r.execute("wipe", {}))', many)
    running = [subprocess.Popen([forked_python, "-c", script, str(audit.path)]) for _ in range(3)]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    rows = [row for row in audit.query(limit=1000, kind=None) if row["kind"] != "writer"]
    assert len(rows) == 300
    assert len({row["call_id"] for row in rows}) == 150


async def test_text_that_is_no_unicode_keeps_no_row_out(audit):
    made = registry(audit)
    await made.execute("look", '{"n":"\udcff"}', ToolContext(session_id="s\ud800"))
    await made.execute("look", {"n": 1})
    await made.execute("wipe", {"path": "a"}, ToolContext(session_id="s\ud800", channel="\udcff"))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:  # written by the record's own thread, not by a query's flush
        rows = direct(audit.path, "SELECT kind, arguments, session_id FROM record WHERE kind <> 'writer' ORDER BY seq")
        if len(rows) == 4:
            break
        await asyncio.sleep(0.02)
    assert sorted(kind for kind, _, _ in rows) == ["intent", "outcome", "outcome", "outcome"]
    assert any(arguments == '{"n":"\\udcff"}' for _, arguments, _ in rows)
    assert {session and session.partition("-")[0] for _, _, session in rows} == {"s?", None}


def stored_yes(path, tool_name="wipe", state="approved", seconds=60.0):
    approvals = Approvals(path)
    now = time.time()
    approvals.add({
        "id": "ap_1", "call_id": "c", "tool": tool_name, "category": "destructive", "arguments": "{}", "preview": "",
        "reason": "", "digest": "d", "created": now, "expires": now + 60,
    })  # fmt: skip
    if state == "approved":
        approvals.resolve("ap_1", True, approver="me")
    direct(path, f"UPDATE approval SET expires = {now + seconds}")
    approvals.close()


class Grants:
    def __init__(self, approval_id):
        self.approval_id = approval_id

    def clears(self, tool):
        return False

    async def authorize(self, request, approved=None):
        return Grant("rule", approver="me", approval_id=self.approval_id)


async def test_an_approval_is_used_up_with_the_intent_of_the_one_call_that_it_was_for(audit):
    stored_yes(audit.path)
    r = registry(audit)
    r.stages.authorizer = Grants("ap_1")
    outputs = await asyncio.gather(*[r.execute("wipe", {"path": "a"}) for _ in range(5)])
    assert sorted(output.error_kind or "ok" for output in outputs) == ["denied"] * 4 + ["ok"]
    assert all("used up or expired" in o.for_llm for o in outputs if o.is_error)
    assert len(audit.query(kind="intent")) == 1
    assert direct(audit.path, "SELECT state FROM approval") == [("used",)]


@pytest.mark.parametrize(("state", "seconds"), [("approved", -1.0), ("pending", 60.0)])
async def test_an_approval_that_is_none_any_more_lets_nothing_run(audit, state, seconds):
    stored_yes(audit.path, state=state, seconds=seconds)
    r = registry(audit)
    r.stages.authorizer = Grants("ap_1")
    assert (await r.execute("wipe", {"path": "a"})).error_kind == "denied"
    assert audit.query(kind="intent") == []


async def test_an_approval_whose_intent_cannot_be_written_stays_unused(audit):
    stored_yes(audit.path)
    shared = is_url(audit.path)
    full = "CREATE TRIGGER no_room BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    direct(audit.path, "ALTER TABLE record ADD CONSTRAINT no_room CHECK (false) NOT VALID" if shared else full)
    r = registry(audit)
    r.stages.authorizer = Grants("ap_1")
    output = await r.execute("wipe", {"path": "a"})
    assert output.error_kind == "denied"
    assert "could not be recorded" in output.for_llm
    direct(audit.path, "ALTER TABLE record DROP CONSTRAINT no_room" if shared else "DROP TRIGGER no_room")
    assert direct(audit.path, "SELECT state FROM approval") == [("approved",)]
    assert (await r.execute("wipe", {"path": "a"})).for_llm == "wiped"
