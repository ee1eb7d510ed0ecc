"""The record when its file cannot be written or read: calls with effects are refused, reading ones go on."""

import json
import logging
import sqlite3
import subprocess
import sys
import threading

import pytest

from toolcrib.core.call import Call
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import CallFinished
from toolcrib.core.interfaces import Grant
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.record import audit as audit_module
from toolcrib.record import chain
from toolcrib.record import connection as connection_module
from toolcrib.record.approvals import Approvals
from toolcrib.record.audit import WITHHELD, Audit
from toolcrib.record.connection import RecordError
from toolcrib.record.database import connect

from ..waiting import wait_until

FULL = """
import asyncio, json, logging, os, resource, sys
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool
from toolcrib.record.audit import Audit
path = sys.argv[1]
logging.basicConfig(stream=sys.stderr)
ran = []
@tool(category="destructive")
async def wipe(text: str) -> str:
    "Wipe."
    ran.append(1)
    return "wiped"
@tool(category="memory", read_only=True)
async def look(n: int) -> str:
    "Look."
    return "seen"
audit = Audit(path).open()
r = ToolRegistry([wipe, look]); r.stages.intent = audit.intent; r.events.subscribe(audit.listen)
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
async def main():
    said = {"before": (await r.execute("wipe", {"text": "a"})).for_llm}
    audit.flush()
    limit(os.path.getsize(path + "-wal") + 3000)
    outputs = [await r.execute("wipe", {"text": "b" * 9000}) for _ in range(3)]
    said["full"] = outputs[-1].for_llm
    said["kind"] = outputs[-1].error_kind
    said["ran"] = len(ran)
    said["read"] = [(await r.execute("look", {"n": n})).for_llm for n in range(200)][-1]
    await asyncio.sleep(0.3)
    limit(resource.RLIM_INFINITY)
    said["after"] = (await r.execute("wipe", {"text": "c"})).for_llm
    audit.close()
    print(json.dumps(said))
asyncio.run(main())
"""


def test_a_full_disk_refuses_calls_with_effects_lets_reading_ones_go_on_and_loses_nothing(tmp_path):
    path = tmp_path / "record.db"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert (said["before"], said["after"], said["read"], said["ran"]) == ("wiped", "wiped", "seen", 1)
    assert said["kind"] == "denied"
    assert "the call could not be recorded, so it was not run" in said["full"]
    assert str(path) in said["full"]
    assert "the record misses" in done.stderr
    assert done.stderr.count("so it was not run\n") == 3  # the reason is in the line before, once for all
    connection = connect(path)
    assert chain.verify(connection).problem is None
    counted = connection.execute("SELECT tool, outcome, count(*) FROM record WHERE kind='outcome' GROUP BY 1, 2")
    assert {tuple(row) for row in counted} == {("wipe", "ok", 2), ("wipe", "denied", 3), ("look", "ok", 200)}
    connection.close()


@pytest.fixture
def audit(tmp_path):
    log = Audit(tmp_path / "record.db").open()
    yield log
    log.close()


@tool(category="destructive")
async def wipe(path: str = "") -> str:
    """Wipe."""
    return "wiped"


def event(n):
    return CallFinished(f"call_{n}", "look", "memory", "{}", "s", 1e9, 0.1, ToolOutput("x"))


def registry(audit):
    made = ToolRegistry([wipe])
    made.stages.intent = audit.intent
    made.events.subscribe(audit.listen)
    return made


async def test_a_lock_that_is_never_let_go_of_refuses_the_call(audit, monkeypatch):
    for module in (connection_module, audit_module):
        monkeypatch.setattr(module, "LOCK_SECONDS", 0.3)
    holder = sqlite3.connect(audit.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    output = await registry(audit).execute("wipe", {})
    assert output.error_kind == "denied"
    assert "locked by another process" in output.for_llm
    holder.execute("COMMIT")
    holder.close()
    assert (await registry(audit).execute("wipe", {})).for_llm == "wiped"


def test_a_lock_held_for_a_while_loses_no_outcome(audit):
    holder = sqlite3.connect(audit.path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    threading.Timer(0.5, lambda: holder.execute("COMMIT")).start()
    for n in range(600):
        audit.listen(event(n))
    assert len(audit.query(limit=1000)) == 600
    holder.close()


def test_of_too_many_waiting_outcomes_the_oldest_are_lost_and_the_record_says_so(audit, monkeypatch, caplog):
    monkeypatch.setattr(connection_module, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(audit_module, "MAX_WAITING", 100)
    monkeypatch.setattr(audit_module, "GROUP_SECONDS", 30)
    holder = sqlite3.connect(audit.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for n in range(250):
        audit.listen(event(n))
    with pytest.raises(RecordError, match="locked"):
        audit.flush()
    holder.execute("COMMIT")
    holder.close()
    rows = audit.query(limit=1000, kind=None)
    assert [row["kind"] for row in rows].count("outcome") == 100
    assert rows[-1]["kind"] == "lost"
    assert json.loads(rows[-1]["arguments"]) == {"outcomes": 150}


def test_a_record_that_cannot_be_written_at_the_end_is_logged_and_does_not_raise(audit, monkeypatch, caplog):
    monkeypatch.setattr(connection_module, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(audit_module, "GROUP_SECONDS", 30)
    holder = sqlite3.connect(audit.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    audit.listen(event(1))
    with caplog.at_level(logging.ERROR):
        audit.close()
    assert "outcomes that are not in the record: 1: the record" in caplog.text
    holder.close()


def test_why_outcomes_are_missing_is_logged_once(audit, monkeypatch, caplog):
    monkeypatch.setattr(connection_module, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(audit_module, "GROUP_SECONDS", 0.0)
    holder = sqlite3.connect(audit.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with caplog.at_level(logging.ERROR):
        audit.listen(event(1))
        wait_until(lambda: caplog.records)
        audit.close()
    assert [record.getMessage().count("is locked") for record in caplog.records] == [1, 0]
    holder.close()


@pytest.mark.parametrize("damage", [b"this is no database, it is a text" * 200, b"\0" * 8192])
@pytest.mark.parametrize("opens", [lambda path: Audit(path).open(), lambda path: Approvals(path).pending()])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path, damage, opens):
    path = tmp_path / "record.db"
    path.write_bytes(damage)
    with pytest.raises(ToolcribError) as caught:
        opens(path)
    assert str(path) in str(caught.value)
    assert "mv " in str(caught.value)


async def test_damage_that_is_met_later_refuses_calls_and_names_the_file(tmp_path):
    path = tmp_path / "record.db"
    audit = Audit(path).open()
    for n in range(3000):
        audit.listen(event(n))
    audit.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * (size - 4096 * 3))
    try:
        audit = Audit(path).open()
    except RecordError as error:
        assert str(path) in str(error)
        return
    output = await registry(audit).execute("wipe", {})
    assert output.error_kind == "denied"
    assert str(path) in output.for_llm
    audit.close()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "record.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(RecordError, match="another version"):
        Audit(path).open()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "record.db").mkdir()
    with pytest.raises(RecordError, match="cannot be used"):
        Audit(tmp_path / "record.db").open()


# --- secrets


def rows_of(audit):
    return audit.query(kind=None, limit=100)


async def test_what_an_intent_says_is_redacted_and_so_are_rules_and_errors(audit):
    audit.redact = lambda text: text.replace("hunter2", "h***")
    request = Call("c1", wipe, '{"path":"hunter2"}', ToolContext())
    assert audit.intent(request, Grant("exec(login hunter2)")) is None
    failed = ToolOutput.error("no entry for hunter2", "tool")
    audit.listen(
        CallFinished("c1", "wipe", "shell", '{"path":"h***"}', None, 1e9, 0.1, failed, rule="exec(login hunter2)")
    )
    outcome, intent = rows_of(audit)
    assert "hunter2" not in f"{outcome}{intent}"
    assert intent["arguments"] == outcome["arguments"] == '{"path":"h***"}'
    assert intent["rule"] == "exec(login h***)"
    assert outcome["intent"] == intent["seq"]
    with sqlite3.connect(audit.path) as other:
        assert other.execute("SELECT arguments FROM record WHERE kind='outcome'").fetchone() == (None,)  # kept once
    other.close()


async def test_a_redactor_that_raises_withholds_the_text(audit):
    def broken(text):
        raise RuntimeError("no")

    audit.redact = broken
    await registry(audit).execute("wipe", {"path": "hunter2"})
    intent = rows_of(audit)[-1]
    assert intent["kind"] == "intent"
    assert intent["arguments"] == WITHHELD


async def test_an_id_that_is_used_again_does_not_mix_two_calls(audit):
    made = registry(audit)
    for path in ("a", "b", "a"):
        await made.execute("wipe", {"path": path}, call_id="call_1")
    audit.intent(Call("call_1", wipe, '{"path":"c"}', ToolContext()), Grant())
    rows = audit.query(call_id="call_1")
    assert [row["arguments"] for row in rows] == ['{"path":"a"}', '{"path":"b"}', '{"path":"a"}']
    assert len({row["intent"] for row in rows}) == 3
    assert [row["arguments"] for row in audit.query(kind="intent", unfinished=True)] == ['{"path":"c"}']


async def test_labels_are_kept(audit):
    from toolcrib.core.output import Labels

    output = ToolOutput("x", labels=Labels("untrusted", "private"))
    audit.listen(CallFinished("c1", "fetch", "network_read", "{}", None, 1e9, 0.1, output))
    assert json.loads(rows_of(audit)[0]["labels"]) == {"integrity": "untrusted", "confidentiality": "private"}
    assert audit.query(label="untrusted")
    assert not audit.query(label="trusted")


# --- queries


def test_filters(audit):
    def add(n, tool_name, arguments="{}", **more):
        output = more.pop("output", ToolOutput("x"))
        audit.listen(CallFinished(f"c{n}", tool_name, "shell", arguments, "s", 1e9 + n, 0.1, output, **more))

    add(1, "mcp__github__list", json.dumps({"q": 'say "hi" 50%_\\'}), rule="Bash(git *)", channel="mcp")
    add(2, "mcp__gitlab__list", '{"q":"Straße"}', verdict="deny", output=ToolOutput.error("no", "denied"))
    add(3, "exec", '{"command":"LS -la"}', verdict="ask", output=ToolOutput.error("wait", "pending"))

    def found(**filters):
        return [row["call_id"] for row in audit.query(**filters)]

    assert found(tool="mcp__*") == ["c2", "c1"]
    assert found(tool="mcp__github__*") == ["c1"]
    assert found(tool="mcp__github__lis?") == []
    assert found(rule="Bash(git *)") == ["c1"]
    assert found(channel="mcp") == ["c1"]
    assert found(verdict="deny") == found(outcome="denied") == ["c2"]
    assert found(outcome="ok") == ["c1"]
    assert found(text='"hi" 50%_\\') == ["c1"]
    assert found(text="50x") == []
    assert found(text="ls -") == ["c3"]
    assert found(text="Straße") == ["c2"]
    assert found(since=1e9 + 2) == ["c3", "c2"]
    assert found(until=1e9 + 2) == ["c2", "c1"]
    by = {row["verdict"]: (row["calls"], row["denied"], row["failed"]) for row in audit.count("verdict")}
    assert by == {"allow": (1, 0, 0), "deny": (1, 1, 1), "ask": (1, 0, 1)}
    with pytest.raises(ValueError, match="by"):
        audit.count("arguments")


def test_following_sees_every_row_of_every_process_once(audit):
    other = Audit(audit.path).open()
    seen = []
    enough = threading.Event()

    def follow():
        for row in audit.follow(poll=0.01, after=()):
            seen.append(row["call_id"])
            if len(seen) == 2000:
                enough.set()
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    for n in range(1000):
        audit.listen(event(n))
        other.listen(event(n + 1000))
        if n % 100 == 0:
            other.flush()
    other.close()
    assert enough.wait(60)
    thread.join()
    assert len(set(seen)) == 2000


def test_following_does_not_stop_at_rows_that_do_not_fit(audit):
    for n in range(1200):
        audit.listen(event(n))
    audit.listen(CallFinished("mine", "exec", "shell", "{}", "s", 1e9, 0.1, ToolOutput("x")))
    assert next(audit.follow(after=(), tool="exec"))["call_id"] == "mine"


def test_rows_come_in_constant_memory_and_are_those_of_the_start(audit):
    for n in range(100):
        audit.listen(event(n))
    rows = audit.rows()
    first = next(rows)
    audit.listen(event(1000))
    audit.flush()
    assert first["call_id"] == "call_0"
    assert len(list(rows)) == 99
