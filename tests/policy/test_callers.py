"""Whose a stored yes is: the session that asked, or its caller once the asking process is gone."""

import json
import subprocess
import sys

from toolcrib.core.context import ToolContext
from toolcrib.policy import callers
from toolcrib.policy.callers import caller_of, has_ended, serves, this_process


def row(ctx, process):
    return {"session_id": ctx.session_id, "caller": caller_of(ctx), "process": process}


def process_of_a_child(*, ended):
    code = "from toolcrib.policy.callers import this_process; print(this_process(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    name = child.stdout.readline().strip()
    if ended:
        child.kill()
        child.communicate()
    return child, name


def test_a_process_ends():
    child, name = process_of_a_child(ended=False)
    assert not has_ended(name)
    child.kill()
    child.communicate()
    assert has_ended(name)
    assert not has_ended(this_process())


def test_a_process_id_that_went_to_another_is_another_process():
    machine, boot, namespace, pid, started, part = json.loads(this_process("x"))
    assert not has_ended(json.dumps([machine, boot, namespace, pid, started, part]))
    assert has_ended(json.dumps([machine, boot, namespace, pid, str(int(started) - 1), part]))
    assert has_ended(json.dumps([machine, "an earlier boot", namespace, pid, started, part]))


def test_what_cannot_be_known_has_not_ended():
    machine, boot, namespace, _, started, part = json.loads(this_process())
    for name in (
        json.dumps(["another machine", boot, namespace, 2**22 + 1, started, part]),
        json.dumps([machine, boot, "another namespace", 2**22 + 1, started, part]),
        json.dumps([machine, boot, namespace, 2**70, started, part]),
        json.dumps([machine, boot, namespace, "x", started, part]),
        "nonsense", "[]", "null",
    ):  # fmt: skip
        assert not has_ended(name)


def test_parts_of_a_process_differ():
    assert this_process("a") != this_process("b")


def test_a_session_is_served_whatever_the_process():
    ctx = ToolContext(session_id="s", channel="mcp")
    assert serves(row(ctx, this_process()), ctx)
    assert serves(row(ctx, this_process()), ToolContext(session_id="s", channel="cli"))


def test_another_session_is_served_where_it_is_the_same_caller_and_the_asking_process_ended():
    _, gone = process_of_a_child(ended=True)
    ctx = ToolContext(session_id="s1", channel="mcp", sender_id="editor", chat_id="c", agent_id="a")
    next_one = ToolContext(session_id="s2", channel="mcp", sender_id="editor", chat_id="c", agent_id="a")
    assert serves(row(ctx, gone), next_one)
    assert serves(row(ctx, None), next_one)
    assert not serves(row(ctx, this_process()), next_one)
    for other in ({"channel": "cli"}, {"sender_id": "x"}, {"chat_id": "x"}, {"agent_id": "x"}):
        assert not serves(row(ctx, gone), ToolContext(**{**next_one.__dict__, **other}))


def test_calls_without_a_session_are_one_callers():
    ctx = ToolContext(channel="library")
    assert serves(row(ctx, this_process()), ToolContext(channel="library"))
    assert not serves(row(ctx, this_process()), ToolContext(channel="mcp"))
    assert not serves(row(ctx, this_process()), ToolContext(channel="library", session_id="s"))


def test_a_fork_is_a_process_of_its_own(monkeypatch):
    before = this_process()
    monkeypatch.setattr(callers.os, "getpid", lambda: 1)
    assert this_process() != before
