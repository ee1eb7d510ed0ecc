"""The examples run, and show what they say they show."""

import contextlib
import http.server
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

from toolcrib.cli.app import load
from toolcrib.cli.reader import read
from toolcrib.config import load_settings

from .waiting import BUSY

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(python, name, tmp_path, code=0):
    done = subprocess.run(
        [python, EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False,
        env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert BUSY.sub("", done.stderr) == ""
    return done.stdout


def test_the_first_tool_is_called_well_and_badly_and_shown_in_every_dialect(tmp_path, forked_python):
    out = run(forked_python, "first_tool.py", tmp_path)
    assert "Paris: 21 °C for 1 day(s)" in out
    assert "Paris: 21 °C for 3 day(s)" in out
    for complaint in ("missing required city", "days should be an integer", "unit must be one of", "parameter town"):
        assert complaint in out
    for dialect in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        assert f"\n{dialect} [{{" in out


def test_a_person_is_asked_before_each_deletion(tmp_path, forked_python):
    out = run(forked_python, "ask_before_effects.py", tmp_path)
    assert out.count("[asked] delete_file") == 2
    assert "keep.txt stays" in out
    assert "precious" in out


def test_research_marks_an_invented_passage(tmp_path, forked_python):
    out = run(forked_python, "research.py", tmp_path)
    assert out.count("   source: http://127.0.0.1:") == 2
    assert out.count("NOT ON THE PAGE") == 1


def test_data_is_asked_in_sql_that_only_reads(tmp_path, forked_python):
    out = run(forked_python, "ask_data.py", tmp_path)
    assert "not authorized" in out
    assert '{"month": "2026-02", "total": 400}' in out
    assert out.endswith("February was the best month: 400, all of it in Bergen.\n")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t", "INSERT INTO t VALUES (2)", "DROP TABLE t", "CREATE TABLE u (x)", "PRAGMA user_version = 3",
        "ATTACH 'other.db' AS o", "SELECT 1; DELETE FROM t", "VACUUM INTO 'copy.db'", "BEGIN", "UPDATE t SET x = 2",
        "SELECT zeroblob(2000000000)", "SELECT load_extension('x')", "EXPLAIN DELETE FROM t",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    ],
)  # fmt: skip
def test_no_statement_but_a_short_reading_one_runs(tmp_path, sql, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "t.csv"
    table.write_text("x\n1\n")
    example = runpy.run_path(str(EXAMPLES / "ask_data.py"))
    connection = example["load_csv"]([table])
    connection.execute("VACUUM INTO 't.db'")
    example["data_tools"].__globals__["MAX_SECONDS"] = 0.2
    tools = {tool.name: tool for tool in example["data_tools"]([table], tmp_path / "t.db")}
    for source in ("csv", "database"):
        assert tools["query"].handler(table_source=source, sql=sql).is_error
        assert tools["query"].handler(table_source=source, sql="SELECT x FROM t").for_llm == '{"x": 1}'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.db"]


# --- loops with the SDKs of providers, against servers that speak their format


def openai_reply(body):
    """A server of chat completions: it asks for three calls, then repeats the last results."""
    results = [message for message in body["messages"] if message["role"] == "tool"]
    if not results:
        calls = [("read_file", {"path": "notes.txt"}), ("read_file", {"path": "none.txt"}), ("look", {})]
        message = {
            "content": "I look.",
            "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for n, (name, arguments) in enumerate(calls)
            ],
        }
    else:
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", *["tool"] * 3]
        assert {tool["function"]["name"] for tool in body["tools"]} >= {"read_file", "exec"}
        message = {"content": " | ".join(f"{r['tool_call_id']}: {r['content']}" for r in results)}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}


def anthropic_reply(body):
    """The same with Anthropic's messages."""
    if len(body["messages"]) == 1:
        calls = [("read_file", {"path": "notes.txt"}), ("read_file", {"path": "none.txt"}), ("look", {})]
        content = [
            {"type": "text", "text": "I look."},
            *({"type": "tool_use", "id": f"c{n}", "name": name, "input": i} for n, (name, i) in enumerate(calls)),
        ]
    else:
        assert {tool["name"] for tool in body["tools"]} >= {"read_file", "exec"}
        results = body["messages"][-1]["content"]
        assert [result.get("is_error") for result in results] == [None, True, True]
        said = " | ".join(f"{r['tool_use_id']}: {r['content'][0]['text']}" for r in results)
        content = [{"type": "text", "text": said}]
    return {
        "id": "x", "type": "message", "role": "assistant", "model": body["model"], "content": content,
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


@contextlib.contextmanager
def provider(reply):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(reply(body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "reply", "variables"),
    [
        ("openai_loop.py", openai_reply, ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1")),
        ("anthropic_loop.py", anthropic_reply, ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "")),
    ],
)
def test_a_loop_with_a_providers_sdk_comes_to_an_answer(tmp_path, forked_python, name, reply, variables):
    key, address, path = variables
    (tmp_path / "notes.txt").write_text("Buy milk.\n")
    with provider(reply) as url:
        done = subprocess.run(
            [forked_python, EXAMPLES / name, "What is in my notes?"], cwd=tmp_path, timeout=60, check=False,
            capture_output=True, text=True, env={**environment(tmp_path), key: "k", address: url + path},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "c0: 1| Buy milk." in done.stdout
    assert re.search(r"c1: .*none.txt.*c2: Tool not found", done.stdout, re.DOTALL)
    assert len((EXAMPLES / name).read_text().split("async def main")[1].splitlines()) < 30


@pytest.mark.parametrize("name", ["openai_loop.py", "anthropic_loop.py"])
def test_the_readme_shows_the_loop_of_the_example(name):
    text = (EXAMPLES / name).read_text()
    loop = text[text.index("async def main") : text.index("\n\n\nif __name__")]
    assert f"{loop}\n```" in (EXAMPLES.parent / "README.md").read_text()


# --- programs with a script in a folder beside them


def environment(tmp_path):
    home = tmp_path / "home"
    return {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "PATH": "/usr/bin:/bin", "TZ": "UTC"}


def start(python, tmp_path, *words):
    return subprocess.Popen(
        [python, EXAMPLES / words[0], *map(str, words[1:])], text=True, cwd=tmp_path,
        env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process, code=0):
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def replies(name):
    return f"scripted:{EXAMPLES / name / 'replies.json'}"


def repository(folder):
    """A repository with a change that is not committed."""
    folder.mkdir()
    shutil.copy(EXAMPLES / "review_diff" / "shop.py", folder)
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    for words in (
        ("init", "-q"),
        ("add", "."),
        (*identity, "commit", "-qm", "Begin"),
        ("apply", EXAMPLES / "review_diff" / "change.diff"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    return folder


def test_a_review_of_a_diff_is_written_and_nothing_else_changes(tmp_path, forked_python):
    repo = repository(tmp_path / "shop")
    before = (repo / "shop.py").read_text()
    process = start(forked_python, tmp_path, "review_diff.py", "--repo", repo, "--model", replies("review_diff"))
    assert "2 findings in review.md" in finish(process)[0]
    review = (tmp_path / "review.md").read_text()
    assert "## high: shop.py:9\n\n    return total(prices) / len(prices)" in review
    assert "## low: shop.py (the quoted line is not there: doubt this finding)" in review
    assert review.index("high") < review.index("low")
    assert (repo / "shop.py").read_text() == before  # the script tries to write it


def test_a_restart_waits_for_approval_and_runs_in_another_process(tmp_path, forked_python):
    folder = tmp_path / "runbook"
    shutil.copytree(EXAMPLES / "approve_later", folder)
    (folder / "web.state").write_text("down\n")
    (folder / "web.log").write_text("web: out of memory\n")
    words = ("approve_later.py", "--runbook", folder / "runbook.json", "--model", replies("approve_later"))
    out, err = finish(start(forked_python, tmp_path, *words, "The shop is slow."), 3)
    assert "· check_service" in err
    assert (folder / "web.state").read_text() == "down\n"
    request, session = re.search(r"approve (ap_\w+)", out)[1], re.search(r"--resume (\S+)", out)[1]
    subprocess.run(
        [forked_python, "-m", "toolcrib", "approvals", "approve", request, "-w", folder],
        check=True, env=environment(tmp_path), capture_output=True,
    )  # fmt: skip
    assert "web was down" in finish(start(forked_python, tmp_path, *words, "--resume", session))[0]
    assert (folder / "web.state").read_text() == "up\n"
    assert (folder / "web.log").read_text().count("web restarted") == 1


def read_until(process, words):
    """Read until the process has printed the words. After a minute it is killed and the test fails."""
    text = ""
    ends = threading.Timer(60, process.kill)
    ends.start()
    while words not in text:
        character = process.stdout.read(1)
        assert character, (text, process.stderr.read())
        text += character
    ends.cancel()
    return text


def test_the_assistant_asks_is_steered_and_reminds(tmp_path, forked_python):
    stored = tmp_path / "reminders" / "reminders.json"
    stored.parent.mkdir()
    stored.write_text('[{"at": "2020-01-01T09:00:00", "text": "Water the flowers"}]')
    process = start(forked_python, tmp_path, "assistant.py", "--model", replies("assistant"))
    read_until(process, "⏰ Water the flowers")
    process.stdin.write("Remind me to call Ann.\n\nIt is about the invoice.\n")  # the second line steers
    process.stdin.flush()
    text = read_until(process, "- 17:00\n")
    assert "(it reads: It is about the invoice.)" in text
    assert text.count("it reads") == 1
    process.stdin.write("09:00\n")
    process.stdin.flush()
    text = read_until(process, "I remind you on Monday, 5 January 2099, at 09:00: Call Ann.")
    assert "✉ I store the reminder now." in text
    finish(process)
    assert json.loads(stored.read_text()) == [{"at": "2099-01-05T09:00:00+00:00", "text": "Call Ann"}]


@pytest.mark.slow
def test_the_assistant_ends_at_ctrl_c_and_its_conversation_goes_on(tmp_path, forked_python):
    process = start(forked_python, tmp_path, "assistant.py", "--model", replies("assistant"))
    process.stdin.write("Remind me to call Ann.\n")
    process.stdin.flush()
    read_until(process, "? At what time?")
    os.kill(process.pid, signal.SIGINT)
    process.wait(60)  # its input stays open until then: the end of it would be an answer
    finish(process, 130)
    again = start(forked_python, tmp_path, "assistant.py", "--model", replies("assistant"), "--session", "last")
    again.stdin.write("At nine.\n")
    again.stdin.flush()
    read_until(again, "I remind you on Monday")
    finish(again)


@pytest.mark.slow
def test_programs_say_what_is_wrong_in_one_line(tmp_path, forked_python):
    repo = repository(tmp_path / "shop")
    (tmp_path / "bad").mkdir()
    for name in ("reminders.json", "runbook.json"):
        (tmp_path / "bad" / name).write_text("[1")
    runbook = EXAMPLES / "approve_later" / "runbook.json"
    started = [
        start(forked_python, tmp_path, *words)
        for words in (
            ("review_diff.py", "--repo", repo, "--model", "nobody:none"),
            ("review_diff.py", "--repo", repo, "--base=--output=x"),
            ("review_diff.py", "--repo", tmp_path / "none"),
            ("approve_later.py", "--runbook", runbook, "--model", "nobody:none"),
            ("approve_later.py", "--runbook", "bad/runbook.json"),
            ("assistant.py", "--model", "scripted:none.json"),
            ("assistant.py", "--folder", "bad"),
        )
    ]
    for process in started:
        assert finish(process, 1)[1].count("\n") == 1
    subprocess.run(["git", "checkout", "-q", "."], cwd=repo, check=True)
    assert (
        finish(start(forked_python, tmp_path, "review_diff.py", "--repo", repo))[0]
        == "There are no changes since HEAD.\n"
    )


# --- many machines

MANY = EXAMPLES / "many_machines"


def test_the_compose_file_starts_commands_that_exist():
    made = yaml.safe_load((MANY / "compose.yaml").read_text())
    services = made["services"]
    assert {name for name in services if services[name].get("build")} == {"gateway", "worker"}
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (MANY / source).exists() if source.startswith(".") else source in made["volumes"]
        if service.get("build"):
            name, *words = service["command"]
            read(load(name), f"toolcrib {name}", words)
    assert (MANY / "Dockerfile").exists()
    settings = load_settings(workspace=str(MANY), config=MANY / "config.toml")
    assert settings.jobs.url == settings.record.url
    assert f"gateway {services['gateway']['command'][2].split(':')[1]}" in (MANY / "Caddyfile").read_text()


@pytest.mark.parametrize("unit", ["toolcrib-worker@.service", "toolcrib-gateway@.service"])
def test_the_units_start_commands_that_exist(tmp_path, unit):
    text = (MANY / unit).read_text()
    (line,) = re.findall(r"^ExecStart=/opt/toolcrib/bin/toolcrib (.*)$", text, re.MULTILINE)
    name, *words = line.replace("%i", "8808").split()
    read(load(name), f"toolcrib {name}", words)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    program = tmp_path / "toolcrib"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    file = tmp_path / unit
    file.write_text(text.replace("/opt/toolcrib/bin/toolcrib", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert unit not in done.stderr
