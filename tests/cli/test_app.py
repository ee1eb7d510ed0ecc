"""The command tree: help, speed of what must be quick, errors of usage, colours, completion."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.cli.app import COMMANDS, load
from toolcrib.cli.reader import parameters_of

from .conftest import Cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str) -> None:
    assert load(name).run


def test_help_names_every_command_and_its_short_help_is_not_cut(cli: Cli) -> None:
    text = cli("--help").stdout
    for name, sentence in COMMANDS.items():
        assert f"  {name}" in text
        assert sentence in text
    assert "Exit codes" in text


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom toolcrib.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(done.stderr.split())
    assert "argparse" in loaded
    assert not loaded & {"asyncio", "pydantic", "mcp", "sqlite3", "rapidfuzz"}


def test_every_command_takes_the_shared_options() -> None:
    for name in COMMANDS:
        options = {flag for parameter in parameters_of(load(name)) for flag in parameter.flags}
        folder = {"--workspace"} if name != "acp" else set[str]()  # an editor names the folder of each session
        said = {"--yes"} if name not in ("worker", "console") else set[str]()  # not to what is still to come
        assert folder | said | {"--config", "--mode"} <= options, name


@pytest.mark.parametrize("args", [["nonsense"], ["call"], ["list", "--nope"], ["call", "x", "novalue"], ["check"]])
def test_usage_errors_are_2_and_on_stderr(cli: Cli, args: list[str]) -> None:
    done = cli(*args, code=2)
    assert done.stdout == ""
    assert done.stderr


def test_what_is_not_utf8_is_an_error_of_usage(cli: Cli) -> None:
    for words in (("log", "x\udcff"), ("sessions", "show", "x\udcff"), ("config", "set", "agent.model", "x\udcff")):
        assert "'x\\udcff' is not UTF-8 text" in cli(*words, code=2).stderr


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout.startswith("toolcrib ")
    assert "did you mean --version?" in cli("version", code=2).stderr


def test_options_before_and_after_the_command(cli: Cli) -> None:
    assert {t["name"]: t["verdict"] for t in cli.json("--mode", "observer", "list", "--json")}["exec"] == "deny"
    listed = cli.json("--mode", "observer", "list", "--json", "--mode", "autonomous")
    assert {t["name"]: t["verdict"] for t in listed}["exec"] == "allow"


def test_a_wrong_mode_is_a_usage_error(cli: Cli) -> None:
    assert cli("list", "--mode", "yolo", code=2).stderr.startswith('toolcrib: --mode is "yolo"; it can be "observer"')


def test_no_colours_when_piped(cli: Cli) -> None:
    done = cli("list", env={"FORCE_COLOR": "1"})
    assert "\x1b" not in done.stdout + done.stderr


def test_a_reader_that_leaves_is_no_error(cli: Cli) -> None:
    work = f"{shlex.join(cli.command)} list --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", work], capture_output=True, text=True, cwd=cli.work, env=cli.env, timeout=60)
    assert (done.returncode, done.stderr.count("Traceback"), done.stderr.count("Broken pipe")) == (0, 0, 0)


def test_a_reader_that_leaves_cancels_work_without_a_complaint(
    monkeypatch: pytest.MonkeyPatch, forked_python: str
) -> None:
    """As `toolcrib run` does it: a write fails, and the work is cancelled."""
    code = (
        "import sys; from toolcrib.cli.exit_codes import of_command\n"
        "def work(): print('x'); raise SystemExit(130)\n"
        "sys.exit(of_command(work))"
    )
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [forked_python, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_of_commands_and_tools(cli: Cli) -> None:
    def complete(line: str) -> list[str]:
        return cli(*line.split(" ")[1:], env={"_TOOLCRIB_COMPLETE": "1"}).stdout.split()

    assert "call" in complete("toolcrib ")
    assert complete("toolcrib --mode observer che") == ["check"]
    assert "read_file" in complete("toolcrib call ")
    assert complete("toolcrib -w . call read_f") == ["read_file"]
    assert complete("toolcrib --mode obs") == ["observer"]
    assert complete("toolcrib approvals app") == ["approve"]
    assert complete("toolcrib call read_file --eff") == ["--effects"]
    assert complete("toolcrib call read_file --effects rev") == ["review"]
    assert complete("toolcrib call read_file pa") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_completion_is_installed(cli: Cli) -> None:
    programs = Path(cli.command[0]).parent
    start = cli.home / ".bashrc"
    start.write_text("alias l=ls")
    for _ in range(2):
        cli("--install-completion", env={"SHELL": "/bin/bash"})
    assert start.read_text().count("toolcrib/completion.bash") == 1
    work = (
        f'PATH="{programs}:$PATH"; source {start}; COMP_WORDS=(toolcrib call --effects dir); COMP_CWORD=3; '
        '_toolcrib_completion toolcrib; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", work], capture_output=True, text=True, cwd=cli.work, env=cli.env, timeout=60)
    assert (done.stdout, done.stderr) == ("direct\n", "")
    for shell in ("zsh", "fish"):
        assert "_TOOLCRIB_COMPLETE" in cli("--show-completion", env={"SHELL": f"/usr/bin/{shell}"}).stdout
    assert "bash, zsh, fish" in cli("--show-completion", env={"SHELL": "/bin/csh"}, code=2).stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error_and_no_file_takes_their_place(cli: Cli, closed: str) -> None:
    cli.write("a.txt", "x\n")
    work = f"{sys.executable} -m toolcrib call read_file path=a.txt {closed}"
    done = subprocess.run(["bash", "-c", work], capture_output=True, text=True, cwd=cli.work, env=cli.env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["outcome"] for row in map(json.loads, cli("log", "--json").stdout.splitlines())] == ["ok"]


def test_a_carriage_return_writes_over_nothing(cli: Cli) -> None:
    done = cli("call", "read_file", "--args", '{"path":"x\\rcall_0 forged"}', code=1)
    assert "\r" not in done.stderr + cli("log").stdout
    assert "x\\rcall_0 forged" in done.stderr


@pytest.mark.parametrize("words", ["list -w /", "demo", "acp", "lint -m mine"])  # naming a workspace does not help
def test_a_folder_that_is_gone_is_named_as_the_reason(cli: Cli, words: str) -> None:
    (cli.work / "gone").mkdir()
    work = f"cd gone && rmdir ../gone && exec {sys.executable} -m toolcrib {words} </dev/null"
    done = subprocess.run(["sh", "-c", work], capture_output=True, text=True, cwd=cli.work, env=cli.env, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "toolcrib: the current folder no longer exists; go to another one (cd)\n"
