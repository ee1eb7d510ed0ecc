"""`toolcrib list` and `toolcrib call`: arguments, output, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.arguments import read_arguments
from toolcrib.cli.exit_codes import Usage

from ..waiting import wait_until
from .conftest import COMMAND, Cli


def test_list(cli: Cli) -> None:
    rows = {line.split()[0]: line for line in cli("list").stdout.splitlines()}
    assert "filesystem_read" in rows["read_file"]
    assert " allow " in rows["exec"]  # in the sandbox
    assert " ask " in rows["delete_file"]
    shown = cli("list", "read_file").stdout
    assert "required" in shown
    assert "File to read" in shown
    assert cli("list", "nope", code=2).stderr
    definition = cli.json("list", "grep", "--dialect", "anthropic")[0]
    assert {"name", "description", "input_schema"} <= set(definition)


def test_disabled_tools_are_named(cli: Cli) -> None:
    cli.write("toolcrib.toml", '[tools]\ndisabled = ["exec"]\n')
    done = cli("list")
    assert "\nexec " not in done.stdout
    assert "exec (disabled by tools.disabled)" in done.stderr


def test_call_reads_and_writes(cli: Cli) -> None:
    done = cli("call", "write_file", "path=a.txt", "content=hällo")
    assert (cli.work / "a.txt").read_text(encoding="utf-8") == "hällo"
    assert done.stderr == ""
    assert "hällo" in cli("call", "read_file", "path=a.txt", "offset=1", "line_numbers=false").stdout
    assert cli.json("call", "read_file", "--args", '{"path": "a.txt"}', "--json")["is_error"] is False


def test_an_error_is_said_in_words_for_a_person(cli: Cli) -> None:
    """The line that tells a model what to do now is for models: only --json has it."""
    done = cli("call", "read_file", "path=missing.txt", code=1)
    assert "missing.txt" in done.stderr
    assert "Analyze the error" not in done.stderr + done.stdout
    told = cli.json("call", "read_file", "path=missing.txt", "--json", code=1)
    assert told["text"].endswith("[Analyze the error above and try a different approach.]")


def test_values_come_from_files_and_stdin(cli: Cli) -> None:
    cli.write("in.txt", "from a file\n")
    cli("call", "write_file", "path=b.txt", "content=@in.txt")
    assert (cli.work / "b.txt").read_text() == "from a file\n"
    cli("call", "write_file", "path=c.txt", "content=-", stdin="from stdin")
    assert (cli.work / "c.txt").read_text() == "from stdin"
    cli("call", "write_file", "--args", "-", stdin='{"path": "d.txt", "content": "all of it"}')
    assert (cli.work / "d.txt").read_text() == "all of it"


def test_a_closed_stdin_is_no_empty_value(cli: Cli) -> None:
    cli.write("a.txt", "kept")
    script = shlex.join([*COMMAND, "call", "write_file", "path=a.txt", "content=-"]) + " <&-"
    done = subprocess.run(["sh", "-c", script], cwd=cli.work, env=cli.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        2, "toolcrib: content: stdin is closed; give it a file (< FILE), or nothing (< /dev/null)\n",
    )  # fmt: skip
    assert (cli.work / "a.txt").read_text() == "kept"


def test_an_input_that_cannot_be_read_is_named(cli: Cli) -> None:
    assert "message: @ needs the name of a file" in cli("call", "echo", "message=@", code=2).stderr
    assert cli("code", "none.py", code=2).stderr == "toolcrib: none.py: No such file or directory\n"
    assert cli("code", "-", stdin=b"\xff", code=2).stderr == "toolcrib: stdin is not UTF-8 text\n"


def test_exit_codes(cli: Cli) -> None:
    assert "did you mean" in cli("call", "read_fil", "path=x", code=2).stderr.lower()
    for words in (("call", "nope"), ("list", "nope")):
        said = cli(*words, code=2).stderr  # without a browser there are so few tools that it names them
        assert said.startswith("toolcrib: Tool not found: 'nope'")
        assert "`toolcrib list` names the tools\n" in said or "Available: apply_patch, " in said
    assert "missing required path" in cli("call", "read_file", code=2).stderr
    assert "nope.txt" in cli("call", "read_file", "path=nope.txt", code=1).stderr
    assert "outside the workspace" in cli("call", "write_file", "path=../x", "content=", code=3).stderr
    cli.write("a.txt", "x")
    done = cli("call", "delete_file", "path=a.txt", code=3)
    assert "toolcrib approvals approve ap_" in done.stderr
    assert done.stdout == ""
    assert (cli.work / "a.txt").exists()
    cli("call", "delete_file", "path=a.txt", "--yes")
    assert not (cli.work / "a.txt").exists()


def test_a_denial_stays_whatever_yes_says(cli: Cli) -> None:
    done = cli("call", "write_file", "path=x", "content=", "--mode", "observer", "--yes", code=3)
    assert "observer mode" in done.stderr
    assert not (cli.work / "x").exists()


def test_json_output_of_a_failure(cli: Cli) -> None:
    cli.write("a.txt", "x")
    out = cli.json("call", "delete_file", "path=a.txt", "--json", code=3)
    assert (out["error_kind"], out["pause_for_input"]) == ("pending", True)
    assert out["meta"]["approval_id"].startswith("ap_")


def test_exec_runs(cli: Cli) -> None:
    done = cli("call", "exec", "command=echo to-stdout; exit 7", "--yes")
    assert done.stdout == "to-stdout\n"
    assert "Exit code: 7" in done.stderr


def _running(marker: str, program: str = "") -> list[int]:
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace")
                if marker in words and words.startswith(program):
                    found.append(int(name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("backend", ["auto", "none"])
def test_interrupting_leaves_nothing_running(cli: Cli, number: int, code: int, backend: str) -> None:
    marker = f"98{os.getpid()}{number}"
    command = f"touch started; setsid sleep {marker} & sleep {marker}; :"
    started = subprocess.Popen(
        [*cli.command, "call", "exec", f"command={command}", "timeout=60", "--yes"],
        cwd=cli.work, env={**cli.env, "TOOLCRIB_SANDBOX__BACKEND": backend},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until((cli.work / "started").exists)
    wait_until(lambda: len(_running(marker, "sleep")) == 2)
    assert len(_running(marker)) > 3  # the shell, besides ourselves
    started.send_signal(number)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode == code, stderr
    assert b"Traceback" not in stderr
    wait_until(lambda: not _running(marker))


def test_reading_arguments(tmp_path: Path) -> None:
    assert read_arguments(["a=1", "b=x=y", "c:=[1, null]", "d=", "e=@@x"], None) == {
        "a": "1", "b": "x=y", "c": [1, None], "d": "", "e": "@x",
    }  # fmt: skip
    assert read_arguments(["git log --format=%an"], None) == {"": "git log --format=%an"}
    assert read_arguments(["a=1", "a=2", "a=3"], None) == {"a": ["1", "2", "3"]}
    assert read_arguments([], '{"a": 1}') == '{"a": 1}'
    (tmp_path / "f.json").write_text(json.dumps({"a": 2}))
    assert read_arguments([], f"@{tmp_path / 'f.json'}") == '{"a": 2}'


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (["x", "y"], None),
        (["a:={"], None),
        (["a:=" + "[" * 100_000], None),
        (["a=@/nowhere"], None),
        (["a=1"], "{}"),
        (["=x"], None),
    ],
)
def test_wrong_arguments(pairs: list[str], text: str | None) -> None:
    with pytest.raises(Usage):
        read_arguments(pairs, text)


@given(st.lists(st.text(max_size=12), max_size=5))
def test_any_words_are_arguments_or_a_usage_error(words: list[str]) -> None:
    try:
        assert isinstance(read_arguments([word for word in words if "=-" not in word], None), dict)
    except Usage as error:
        assert str(error)


def test_long_work_shows_on_a_terminal_that_it_goes_on(cli: Cli) -> None:
    child = cli.at_terminal("call", "exec", "command=sleep 1.2; echo done-now", "--yes")
    try:
        child.expect("\u280b? ?exec")  # the name beside a turning wheel
        child.expect("done-now")
        child.expect(pexpect.EOF)
        assert child.wait() == 0
    finally:
        child.close()
    assert "\x1b" not in cli("call", "exec", "command=sleep 0.8", "--yes").stderr


def test_the_result_is_the_page(cli: Cli) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html><title>A page</title><body><h1>Sheep</h1><p>They eat grass all day long.</p></body></html>"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        env = {"TOOLCRIB_WEB__ALLOW_PRIVATE": f"127.0.0.1:{server.server_port}"}
        done = cli("--yes", "call", "web_fetch", url, env=env)
        server.shutdown()
    assert "They eat grass" in done.stdout and "Analyze" not in done.stdout


def test_a_tool_that_is_not_there_says_why(cli: Cli) -> None:
    done = cli("call", "web_fetch", "https://example.com", env={"TOOLCRIB_TOOLS__DISABLED": "web_fetch"}, code=2)
    assert "'web_fetch'. It is not available here: disabled by tools.disabled" in done.stderr


def test_raw_is_the_commands_own_output_and_exit_code(cli: Cli) -> None:
    done = cli("call", "--raw", "exec", "printf 'a  b'; echo oops >&2; exit 7", "--yes", code=7)
    assert (done.stdout, done.stderr) == ("a  b", "oops\n")
    many = cli("call", "--raw", "exec", "seq 20000")  # more than a model gets
    assert many.stdout == "".join(f"{n}\n" for n in range(1, 20_001))
    assert "exclude each other" in cli("call", "--raw", "--json", "exec", "true", code=2).stderr


def test_what_was_printed_before_a_time_limit_is_a_result(cli: Cli) -> None:
    done = cli("call", "exec", "command=echo early; sleep 30", "timeout=1", code=1)
    assert done.stdout == "early\n"
    assert done.stderr.startswith("toolcrib: Timed out after 1 s")
    assert "jobs start" in done.stderr


def test_a_command_in_the_background_is_refused_where_it_would_end_at_once(cli: Cli) -> None:
    for word in ("background", "interactive"):
        refused = cli("call", "exec", "command=sleep 9", f"{word}=true", "--yes", code=3).stderr
        assert "`toolcrib jobs start exec COMMAND`" in refused


def test_a_running_command_shows_its_last_lines_and_ctrl_c_keeps_them(cli: Cli) -> None:
    words = ("call", "exec", "for n in 1 2 3 4 5; do echo line $n; done; touch printed; sleep 30", "--yes")
    terminal = cli.at_terminal(*words, env={"NO_COLOR": ""})
    terminal.expect(r"exec \d+ s\r\n  .*line 3.*\r\n  .*line 4.*\r\n  .*line 5")
    terminal.send("\x03")
    terminal.expect(r"\x1b\[J(line 1\r\nline 2\r\nline 3\r\nline 4\r\nline 5\r\n)")
    terminal.expect("interrupted")
    assert terminal.wait() == 130
    assert "It had printed: line 1 line 2" in cli("log", "-n", "1").stdout


@pytest.mark.skipif(sys.platform != "linux", reason="overlays are Linux's")
def test_reviewed_changes_without_a_terminal_name_the_next_command(cli: Cli) -> None:
    waits = cli("call", "--effects", "review", "exec", "echo x > new.txt", code=3).stderr
    apply = next(line for line in waits.splitlines() if line.startswith("To apply these changes: "))
    assert "do not run the command again" not in waits
    assert "held" in cli("changes", "list").stdout == cli("changes").stdout
    cli(*apply.split(": toolcrib ")[1].split())
    assert (cli.work / "new.txt").read_text() == "x\n"
    assert cli.json("approvals", "--json") == []
    (cli.work / "below").mkdir()
    elsewhere = cli("call", "-w", "below", "--effects", "review", "exec", "echo y > y", code=3).stderr
    drop = next(line for line in elsewhere.splitlines() if line.startswith("To drop them: "))
    assert "is as it was" in cli(*drop.split(": ")[1].strip().removeprefix("toolcrib ").split()).stderr


@pytest.mark.skipif(sys.platform != "linux", reason="overlays are Linux's")
def test_a_yes_to_reviewed_changes_counts_for_the_command_that_is_repeated(cli: Cli) -> None:
    command = ("call", "--effects", "review", "exec", "date +%N > new.txt")
    cli(*command, code=3)
    [request] = cli.json("approvals", "--json")
    assert "ran before" not in cli("call", "--effects", "review", "exec", "date +%N > other.txt", code=3).stderr
    cli("approvals", "approve", request["id"])
    assert "ran before" in cli(*command).stdout
    assert (cli.work / "new.txt").exists() and not (cli.work / "other.txt").exists()
    assert "ran before" not in cli(*command, code=3).stderr  # that yes is used up


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_commit_has_the_persons_name(cli: Cli) -> None:
    (cli.home / ".gitconfig").write_text("[user]\nname = Ann Lee\nemail = ann@example.com\n[core]\npager = secret\n")
    assert cli("call", "--raw", "exec", "git var GIT_COMMITTER_IDENT").stdout.startswith("Ann Lee <ann@example.com> ")
