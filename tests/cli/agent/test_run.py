"""`toolcrib run` and `toolcrib sessions`, as a person types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ...waiting import wait_until
from ..conftest import Cli

STEPS: list[dict[str, Any]] = [
    {"text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]},
    {"text": "I remove it.", "calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]},
    {"text": "It is **gone**."},
    {"text": "Nothing more."},
]


@pytest.fixture
def script(cli: Cli, tmp_path: Path) -> str:
    cli.write("a.txt", "alpha\n")
    path = tmp_path / "script.json"
    path.write_text(json.dumps(STEPS))
    return f"scripted:{path}"


def test_a_task_from_the_start_over_an_approval_to_the_answer_and_back(cli: Cli, script: str) -> None:
    first = cli("run", "--model", script, "Remove", "a.txt", code=3)
    assert first.stdout == "I look.\nI remove it.\n"
    assert "✓ read_file(path=a.txt)" in first.stderr
    approve = next(line for line in first.stderr.splitlines() if "waits for approval" in line)
    row = cli.json("sessions", "--json")[0]
    why = "why it asks: destructive tools ask in assistant mode"
    assert why in first.stderr and why in cli("sessions", "show", "last").stderr
    assert (row["state"], row["title"]) == ("waiting", "Remove a.txt")
    assert row["id"] in first.stderr
    ident = approve.split()[-1]
    assert (
        f"approvals approve {ident}, then toolcrib run --session {row['id']}" in cli("sessions", "show", "last").stderr
    )
    elsewhere = cli("approvals", "approve", ident, "--workspace", str(cli.home)).stderr
    assert f"goes on with: toolcrib run --session {row['id']} --workspace {cli.work}" in elsewhere
    second = cli("run", "--session", row["id"])
    assert second.stdout == "It is **gone**.\n"
    assert not (cli.work / "a.txt").exists()
    shown = cli("sessions", "show", "last").stdout
    exported = json.loads(cli("sessions", "export", "last").stdout)
    assert exported == cli.json("sessions", "show", "last", "--json")
    assert (exported["id"], exported["turns"][0]["content"][0]["text"].split("\n")[0]) == (row["id"], exported["title"])
    assert "[0] user: Remove a.txt" in shown
    assert "→ delete_file(path=a.txt)" in shown
    assert cli("sessions", row["id"]).stdout == shown
    parted = cli("sessions", "rewind", row["id"], "2", "--yes", code=1).stderr  # its calls would be made again
    assert "name turn 1, before the calls, or 3, after" in parted and not (cli.work / "a.txt").exists()
    back = cli("sessions", "rewind", row["id"], "0", "--yes")
    assert (cli.work / "a.txt").read_text() == "alpha\n"
    assert "back before turn 0" in back.stderr


def test_a_report_that_was_read_leaves_nothing_for_a_worker(cli: Cli, tmp_path: Path) -> None:
    start = {"action": "start", "tool": "exec", "arguments": {"command": "echo"}}
    steps = [{"calls": [{"name": "job", "arguments": start}]}, {"text": "Started."}, {"text": "Heard."}]
    (tmp_path / "job.json").write_text(json.dumps(steps))
    done = cli("run", "--mode", "autonomous", "--model", f"scripted:{tmp_path}/job.json", "go")
    assert done.stdout == "Started.\nHeard.\n"
    assert "waits for a worker" not in cli("jobs").stderr
    assert {job["state"] for job in cli.json("jobs", "--json")} <= {"done", "cancelled"}


def test_a_script_that_is_not_there(cli: Cli) -> None:
    said = cli("run", "--model", "scripted:/nope", "x", code=2).stderr
    assert "scripted:/nope: the file of replies cannot be read: No such file or directory. Name one" in said
    assert "Errno" not in said


def test_events_as_json_lines(cli: Cli, script: str) -> None:
    lines = [json.loads(line) for line in cli("run", "--model", script, "--json", "--yes", "x").stdout.splitlines()]
    kinds = [line["event"] for line in lines]
    assert kinds[0] == "request"
    assert kinds[-2:] == ["outcome", "session"]
    assert {"text", "call", "result", "reply"} <= set(kinds)
    assert next(line for line in lines if line["event"] == "outcome")["text"] == "It is **gone**."


def test_a_fork_and_a_removal(cli: Cli, script: str) -> None:
    cli("run", "--model", script, "x", code=3)
    first = cli.json("sessions", "--json")[0]["id"]
    parted = cli("sessions", "fork", first, "--before", "2", code=1)  # a reply from its results
    assert "name turn 1, before the calls, or 3, after" in parted.stderr
    copy = cli.json("sessions", "fork", first, "--json")["id"]
    assert {row["id"] for row in cli.json("sessions", "--json")} == {first, copy}
    cli("sessions", "remove", first, code=3)
    cli("sessions", "remove", first, "--yes")
    assert [row["id"] for row in cli.json("sessions", "--json")] == [copy]


def test_a_question_is_answered_from_another_command(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ask.json"
    asked = {"name": "ask_user", "arguments": {"question": "Which colour?", "options": ["red"]}}
    path.write_text(json.dumps([{"calls": [asked]}, {"text": "Red it is.", "after": "red"}]))
    first = cli("run", "--mode", "observer", "--model", f"scripted:{path}", "paint", code=3)
    assert "Which colour?" in first.stderr
    asked = cli("sessions", "show", "last").stderr
    assert "the agent asks: Which colour?" in asked
    assert "'ANSWER'" in asked
    assert "(1 request, " in first.stderr
    for command in ("answer", "steer"):
        assert "TEXT is empty" in cli("sessions", command, "last", " ", code=2).stderr
    cli("sessions", "answer", "last", "red")
    assert cli("run", "--session", "last").stdout == "Red it is.\n"
    assert "does not wait" in cli("sessions", "answer", "last", "red", code=2).stderr


def test_the_next_message_is_the_answer_to_a_question(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ask.json"
    asked = {"name": "ask_user", "arguments": {"question": "Which colour?", "options": ["red", "green"]}}
    path.write_text(json.dumps([{"calls": [asked]}, {"text": "Green it is.", "after": "green"}]))
    first = cli("run", "--model", f"scripted:{path}", "paint", code=3).stderr
    assert "1. red" in first
    assert "2. green" in first
    assert "answer with: toolcrib run --session" in first
    assert cli("run", "--session", "last", "2").stdout == "Green it is.\n"


def test_a_model_that_says_nothing_is_said(cli: Cli) -> None:
    cli.write("empty.json", '[{"text": ""}]')
    assert "ended without an answer" in cli("run", "--model", "scripted:empty.json", "x").stderr


def test_another_message_ends_the_request_of_a_waiting_call(cli: Cli, script: str) -> None:
    first = cli("run", "--model", script, "x", code=3).stderr
    assert "after the approval go on with: toolcrib run --session" in first
    assert cli.json("approvals", "--json")
    cli("run", "--session", "last", "leave it")
    assert cli.json("approvals", "--json") == []
    assert "nothing left to do; give it a message" in cli("run", "--session", "last").stderr


def test_a_rewind_does_not_speak_of_a_call_that_never_ran(cli: Cli, script: str) -> None:
    cli("run", "--model", script, "x", code=3)
    cli("run", "--session", "last", "leave it")
    back = cli("sessions", "rewind", "last", "0", "--yes").stderr
    assert "cannot be taken back" not in back
    assert "is back before turn 0" in back


def test_a_run_that_was_killed_is_said_to_be_interrupted_and_so_is_its_call(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    command = {"name": "exec", "arguments": {"command": "echo begun > begun; sleep 60"}}
    path.write_text(json.dumps([{"calls": [command]}, {"text": "Done.", "after": "interrupted"}]))
    words = [*cli.command, "run", "--model", f"scripted:{path}", "wait"]
    process = subprocess.Popen(
        words, cwd=cli.work, env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until((cli.work / "begun").exists)
        assert " running " in cli("sessions").stdout
        assert "sessions steer" in cli("run", "--session", "last", "x", code=1).stderr
    finally:
        process.kill()
        process.communicate()  # until what it ran has ended, too
    assert " interrupted " in cli("sessions").stdout
    again = cli("run", "--session", "last")
    assert again.stdout == "Done.\n"
    assert "✗ exec(" in again.stderr


def test_a_run_is_paused_resumed_and_cancelled_from_another_terminal(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    commands = ("echo > begun; until test -e go; do sleep 0.1; done", "echo > again; sleep 600")
    waits, hangs = ({"name": "exec", "arguments": {"command": command}} for command in commands)
    path.write_text(json.dumps([{"calls": [waits]}, {"calls": [hangs]}]))
    terminal = cli.at_terminal("run", "--model", f"scripted:{path}", "--mode", "autonomous", "go", env={"TERM": "dumb"})
    wait_until((cli.work / "begun").exists)
    assert "pauses before its next step" in cli("sessions", "pause", "last").stderr
    assert " paused " in cli("sessions").stdout
    cli.write("go", "")
    terminal.expect("paused by cli:")
    assert "goes on where it runs" in cli("sessions", "resume", "last").stderr
    wait_until((cli.work / "again").exists)
    assert "Its turn ends" in cli("sessions", "cancel", "last").stderr
    terminal.expect("cli:[^ ]* cancelled the turn")
    assert terminal.wait() == 130
    row = cli.json("sessions", "--json")[0]
    assert (row["state"], row["stop"]) == ("idle", "cancel")
    for word in ("pause", "cancel"):
        assert "no turn of" in cli("sessions", word, "last", code=2).stderr


def test_a_report_is_not_shown_as_words_of_the_person(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    spawned = {"name": "spawn", "arguments": {"task": "look", "label": "look"}}
    path.write_text(json.dumps([{"calls": [spawned]}, *({"text": "ok"} for _ in range(5))]))
    said = cli("run", "--model", f"scripted:{path}", "x").stderr
    assert "report: [The subagent 'look' is done.]" in said
    assert "›" not in said
    subagent = next(
        line for line in cli("sessions", "show", "last").stdout.splitlines() if "subagent  " in line
    ).split()[1]
    cli("sessions", "show", subagent)
    cli("sessions", "remove", "last", "--yes")
    assert "there is no session" in cli("sessions", "show", subagent, code=2).stderr  # its job would go on


def test_files_and_stdin(cli: Cli, tmp_path: Path) -> None:
    cli.write("notes.md", "remember the milk")
    path = tmp_path / "s.json"
    path.write_text(json.dumps([{"text": "ok", "after": "remember the milk"}]))
    model = f"scripted:{path}"
    assert cli("run", "--model", model, "-f", "notes.md", "what?").stdout == "ok\n"
    assert "No such file" in cli("run", "--model", model, "-f", "none.md", "what?", code=2).stderr
    path.write_text(json.dumps([{"text": "ok", "after": "remember the milk"}]))
    assert cli("run", "--model", model, "-", stdin="remember the milk").stdout == "ok\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "TASK is missing"),
        (
            ["run", "--model", "nope", "x"],
            "'nope' is not the name of a model (--model, or agent.model",
        ),
        (["run", "--model", "scripted:none.json", "x"], "No such file"),
        (["run", "--model", "anthropic:m", "x"], "ANTHROPIC_API_KEY"),
        (["run", "--max-cost", "free", "--model", "scripted:x", "x"], "--max-cost 'free'"),
        (["run", "--session", "nope"], "there is no session"),
        (["run", "--session", "", "x"], "--session needs the id"),
        (["chat", "--session", ""], "--session needs the id"),
        (["run", "--session", "last"], "no session here yet; `toolcrib run 'TASK'` starts one"),
        (["sessions", "show", "nope"], "there is no session"),
        (["sessions", "rewind", "last", "9"], "there is no session"),
    ],
)
def test_what_is_wrong_is_said_to_the_person(cli: Cli, arguments: list[str], words: str) -> None:
    done = cli(*arguments, code=None)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cost_limit_needs_prices(cli: Cli, script: str) -> None:
    cli.write("toolcrib.toml", "")
    done = cli(
        "run", "--model", "chat:some-model", "--max-cost", "1", "x", code=2, env={"OPENAI_BASE_URL": "http://x/v1"}
    )
    assert "agent.prices" in done.stderr


def test_no_model_says_what_to_do(cli: Cli) -> None:
    done = cli("run", "x", code=None)
    if done.returncode == 2:  # unless this machine serves a model
        assert "ANTHROPIC_API_KEY" in done.stderr
        assert "ollama" in done.stderr
        assert "scripted:FILE" in done.stderr
        assert "no Ollama answers at http://127.0.0.1:11434" in done.stderr


def test_a_session_without_a_message_wants_a_task(cli: Cli, script: str) -> None:
    cli("run", "--model", script, "x", code=3)
    for command in (["fork", "last", "--before", "9"], ["rewind", "last", "9"]):
        said = cli("sessions", *command, code=2).stderr
        assert "has no turn 9: it has the turns 0 to " in said and "`toolcrib sessions show " in said
    empty = cli.json("sessions", "fork", "last", "--before", "0", "--json")["id"]
    assert "give it a task" in cli("run", "--session", empty, code=2).stderr


def test_a_failed_call_is_shown_without_the_hint_for_models(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([{"calls": [{"name": "read_file", "arguments": "[[["}]}, {"text": "sorry"}]))
    shown = cli("run", "--model", f"scripted:{path}", "x").stderr
    assert "✗ read_file" in shown
    assert "Analyze the error" not in shown
    assert "-0.0 s" not in shown


def test_an_empty_list_says_so(cli: Cli) -> None:
    assert "no sessions yet" in cli("sessions").stderr
    assert cli.json("sessions", "--json") == []


def test_a_broken_script_or_file_leaves_no_session(cli: Cli) -> None:
    for script, words in (
        ("[1]", "reply 1 should be an object with text, calls or error"),
        ('{"calls": [{"nme": 1}]}', "reply 1 has calls without a name"),
        ('{"text": "x", "usage": {"in": 1}}', "reply 1 has a usage"),
        ('{"text": "x", "usage": {"input": -5}}', "reply 1 has a usage"),
        ('{"text": "x", "after": 5}', "reply 1 has a value of after that is not a text"),
        ('{"text": 3}', "reply 1 has a value of text that is not a text"),
        ('{"text": "x", "stop": "odd"}', 'reply 1 has stop = "odd"; write one of end, calls'),
        ('{"error": ["odd"]}', 'reply 1 has error = ["odd"]; write one of key, limit'),
        ('{"calls": [{"name": "read_file", "id": 5}]}', "reply 1 has calls without a name, or with"),
        (" ", "holds no replies"),
        ("{", "is not a script of replies"),
        ("[" * 100_000, "is not a script of replies"),
    ):
        cli.write("script.json", script)
        assert words in cli("run", "--model", "scripted:script.json", "x", code=2).stderr, script[:100]
    cli.write("script.json", '{"text": "x"}')
    cli("run", "--model", "scripted:script.json", "--file", "none.png", "x", code=2)
    cli.write("none.png", "text")
    ended = cli("run", "--model", "scripted:script.json", "-f", "none.png", "x", code=2)
    assert "none.png is not an image" in ended.stderr
    assert cli.json("sessions", "--json") == []


async def test_a_model_that_was_found_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.agent.store import SessionStore
    from toolcrib.cli.agent.run import stored_model
    from toolcrib.testing import temporary_toolbox

    async with temporary_toolbox({}) as box:
        store = SessionStore(box.state)
        local, named = (store.create(model=name, system="s").id for name in ("chat:llama", "anthropic:claude"))
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        assert (await stored_model(box, local), await stored_model(box, named)) == (None, "anthropic:claude")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        assert await stored_model(box, local) == "chat:llama"
        store.close()


def test_the_name_of_a_tool_makes_no_line(cli: Cli, tmp_path: Path) -> None:
    """A model forged lines of the run: the name that it called had a line break."""
    steps = [{"calls": [{"name": "echo\ndone", "arguments": {}}]}, {"text": "ok"}]
    (tmp_path / "script.json").write_text(json.dumps(steps))
    assert "✗ echo done()" in cli("run", "--model", f"scripted:{tmp_path}/script.json", "go").stderr
