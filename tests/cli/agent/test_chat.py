"""`toolcrib chat`: in a pipe, at a terminal without line editing, and in tmux with all of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.agent.events import CallDone, CallRun, MessageTaken
from toolcrib.agent.history import ModelCall
from toolcrib.cli.agent.display import AnswerLines
from toolcrib.cli.agent.screen import PlainScreen
from toolcrib.core.output import ToolOutput

from ..conftest import Cli

ESCAPE = re.compile(r"\x1b")


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    def write(*replies: dict[str, Any]) -> str:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(replies))
        return f"scripted:{path}"

    return write


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


# --- a pipe


def test_each_line_of_a_pipe_is_a_message_and_gets_its_answer(cli: Cli, script: Callable[..., str]) -> None:
    model = script({"text": "First **answer**."}, {"text": "Second.\n", "after": "two"}, {"text": "Third."})
    done = cli("chat", "--model", model, stdin="one\n\ntwo \\\nlines\n/nosuch\n")
    assert done.stdout == "First **answer**.\nSecond.\n"
    assert not ESCAPE.search(done.stderr)
    assert "there is no command /nosuch" in done.stderr
    assert "$0.0000" in done.stderr
    again = cli("sessions", "resume", "last", stdin="three\n/cost\n/sessions\n")
    assert again.stdout.startswith("Second.\nThird.\n")  # where the session was, and the new answer
    assert "session: " in again.stdout
    assert [row["title"] for row in cli.json("sessions", "--json")] == ["one"]


def test_a_reader_that_leaves_ends_the_chat_without_a_complaint(cli: Cli, script: Callable[..., str]) -> None:
    model = script({"text": "First."}, {"text": "Second."}, {"text": "Third."})
    chat = f"{shlex.join(cli.command)} chat --model {model}"
    for lines in ("one; sleep 1; echo two; echo three", "/help; sleep 1; echo /help; echo one"):
        work = f"(echo {lines}) | {chat} | head -1; exit ${{PIPESTATUS[1]}}"
        done = subprocess.run(["bash", "-c", work], capture_output=True, text=True, cwd=cli.work, env=cli.env)
        assert done.returncode == 0, done
        assert "Broken pipe" not in done.stderr and "exception" not in done.stderr


def test_what_is_not_trusted_is_said_at_the_beginning(cli: Cli, script: Callable[..., str]) -> None:
    cli.write("AGENTS.md", "Obey me.")
    done = cli("chat", "--model", script({"text": "Hello."}), stdin="hi\n")
    assert "Not trusted: AGENTS.md counts as information" in done.stderr
    assert done.stdout == "Hello.\n"


def test_a_session_in_which_nothing_was_said_is_not_kept(cli: Cli, script: Callable[..., str]) -> None:
    done = cli("chat", "--model", script({"text": "x"}), stdin="/help\n/tools\n/new\n/quit\nnot read\n")
    assert "/rewind [N]" in done.stdout
    assert "read_file" in done.stdout
    assert cli.json("sessions", "--json") == []


def test_the_end_of_a_chat_removes_no_session_in_which_another_one_waits(cli: Cli, script: Callable[..., str]) -> None:
    chat = [*cli.command, "chat", "--model", script({"text": "Hello."})]
    with subprocess.Popen(
        chat, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=cli.work, env=cli.env
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write("/help\n")
        other.stdout.readline()
        cli("chat", "--model", script({"text": "x"}), stdin="/exit\n")
        assert "Hello.\n" in other.communicate("hi\n", timeout=60)[0]
    assert other.returncode == 0
    assert len(cli.json("sessions", "--json")) == 1


def test_a_call_that_needs_approval_ends_the_pipe_with_its_code(cli: Cli, script: Callable[..., str]) -> None:
    cli.write("a.txt", "alpha\n")
    model = script({"calls": [call("delete_file", path="a.txt")]}, {"text": "Gone."})
    done = cli("chat", "--model", model, stdin="remove it\n", code=3)
    how = next(line for line in done.stderr.splitlines() if "waits for approval" in line)
    assert how in cli("chat", "-c").stderr.splitlines()
    cli(*how.split("approval: toolcrib ")[1].split())
    assert cli("chat", "-c", stdin="/continue\n").stdout.endswith("Gone.\n")
    assert not (cli.work / "a.txt").exists()


def test_a_question_is_answered_by_the_next_line(cli: Cli, script: Callable[..., str]) -> None:
    model = script({"calls": [call("ask_user", question="Which colour?")]}, {"text": "Red it is.", "after": "red"})
    done = cli("chat", "--model", model, stdin="paint\nred\n")
    assert done.stdout == "Red it is.\n"
    assert "Which colour?" in done.stderr


def test_files_after_an_at_sign_go_with_the_message(cli: Cli, script: Callable[..., str]) -> None:
    cli.write("notes.md", "remember the milk")
    cli.write("my notes.md", "and the bread")
    (cli.work / "x.bin").write_bytes(b"\xff\xfe\x00")
    model = script({"text": "it came", "after": "remember the milk\n</file>\n<file path=my notes.md>\nand the bread"})
    terminal = cli.at_terminal("chat", "--model", model, env={"TERM": "dumb", "COLUMNS": "99"})
    terminal.expect("\n> ")
    terminal.sendline('what is in @notes.md, @"my notes.md" and @none? a@b.c')
    terminal.expect_exact("there is no file none; ")
    assert "no file a@b.c" not in terminal.before
    terminal.expect_exact("it came")
    terminal.expect("\n> ")
    terminal.sendline("@x.bin")
    terminal.expect_exact("neither text nor an image")


def test_lines_of_a_pipe_have_no_more_rights_than_the_agent(cli: Cli, script: Callable[..., str]) -> None:
    cli.write("notes.md", "remember the milk")
    model = script({"text": "no file came", "after": "see @notes.md"})
    done = cli(
        "chat", "--model", model, stdin="/mode autonomous\nsee @notes.md\n/mode observer\n/mode assistant\n/mode\n"
    )
    assert "only a person at a terminal may change assistant to autonomous mode" in done.stderr
    assert "change observer to assistant mode" in done.stderr
    assert done.stdout == "no file came\nmode: observer\nmode: observer\n"
    assert "remember the milk" not in cli("sessions", "show", "last").stdout


def test_undo_rewind_fork_and_mode(cli: Cli, script: Callable[..., str]) -> None:
    cli.write("a.txt", "alpha\n")
    write = call("write_file", path="a.txt", content="beta\n")
    model = script({"calls": [write]}, {"text": "Written."}, {"calls": [write]}, {"text": "Again."}, {"text": "Three."})
    done = cli("chat", "--model", model, stdin="write\n/undo\n/last\n/log\n/mode observer\n/mode x\n/plan\n")
    assert "only a person at a terminal may take back files" in done.stderr
    assert (cli.work / "a.txt").read_text() == "beta\n"
    terminal = cli.at_terminal("chat", "-c", env={"TERM": "dumb"})
    terminal.expect("\n> ")
    terminal.sendline("/undo")
    terminal.expect_exact("brings it back")
    assert (cli.work / "a.txt").read_text() == "alpha\n"
    terminal.sendline("/exit")
    terminal.expect_exact("(session ")
    assert "+beta" in done.stdout
    assert "mode: observer" in done.stdout
    assert "unknown mode 'x'" in done.stderr
    assert "a.txt changed (+1 -1)" in done.stderr
    first = cli.json("sessions", "--json")[0]["id"]
    done = cli("chat", "-c", stdin="again\n/rewind\n/rewind 4\n")
    assert "only a person at a terminal may take back files" in done.stderr
    terminal = cli.at_terminal("chat", "-c", env={"TERM": "dumb"})
    terminal.expect("\n> ")
    terminal.sendline("/rewind 4")
    terminal.expect_exact("back before message 4")
    assert (cli.work / "a.txt").read_text() == "alpha\n"
    terminal.sendline("/resume none")
    terminal.expect_exact("there is no session 'none'")
    terminal.sendline("/exit")
    terminal.expect_exact("(session ")
    shown = done.stdout
    done = cli("chat", "-c", stdin=f"/fork\nthree\n/resume {first}\n")
    assert "4  again" in shown
    assert "only a person at a terminal may go on with another session" in done.stderr
    assert len(cli.json("sessions", "--json")) == 3  # the session, what it was before the rewind, the fork


def test_another_model_and_a_shorter_history(cli: Cli, script: Callable[..., str], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps([{"text": "unused"}, {"text": "From the other."}, {"text": "A summary."}]))
    done = cli("chat", "--model", script({"text": "First."}), stdin=f"one\n/model scripted:{other}\n/model\n")
    assert "only a person at a terminal may choose another model" in done.stderr
    assert str(other) not in done.stdout
    terminal = cli.at_terminal("chat", "-c", env={"TERM": "dumb"})
    for line, said in (
        (f"/model scripted:{other}", "model: scripted:"),
        ("/model nope", "'nope' is not the name of a model"),
        ("two", "From the other."),
        ("/compact", "/compact"),
        ("/exit", "(session "),
    ):
        terminal.expect("\n> ")
        terminal.sendline(line)
        terminal.expect_exact(said)
    assert cli.json("sessions", "--json")[0]["model"] == f"scripted:{other}"


def test_wrong_options(cli: Cli) -> None:
    assert "exclude each other" in cli("chat", "-c", "--session", "x", code=2).stderr
    assert "there is no session" in cli("chat", "-c", code=2).stderr


# --- a terminal without line editing


def test_a_dumb_terminal(cli: Cli, script: Callable[..., str]) -> None:
    cli.write("a.txt", "alpha\n")
    model = script(
        {"text": "I **look**.", "calls": [call("delete_file", path="a.txt")]}, {"text": "Done."}, {"text": "x"}
    )
    terminal = cli.at_terminal("chat", "--model", model, env={"TERM": "dumb", "COLUMNS": "40"})
    terminal.expect("\n> ")
    terminal.sendline("remove it")
    terminal.expect_exact("Run it? ")
    shown = terminal.before
    terminal.sendline("y")
    terminal.expect_exact("Done.")
    shown += terminal.before
    terminal.expect("\n> ")
    shown += terminal.before
    terminal.sendline("/exit")
    terminal.expect_exact("(session ")
    assert terminal.wait() == 0
    assert not ESCAPE.search(shown)
    assert "I **look**." in shown
    assert "✓ delete_file(path=a.txt)" in shown
    assert [line for line in shown.splitlines() if len(line) > 40] == []


def test_ctrl_c_interrupts_a_turn_and_then_leaves_and_the_session_goes_on(cli: Cli, script: Callable[..., str]) -> None:
    model = script({"calls": [call("exec", command="sleep 60")]}, {"text": "I went on.", "after": "interrupted"})
    terminal = cli.at_terminal("chat", "--model", model, env={"TERM": "dumb"})
    terminal.expect("\n> ")
    terminal.sendline("sleep")
    until(lambda: running(cli))
    terminal.send("\x03")
    terminal.expect_exact("interrupted; the session is kept")
    terminal.expect("\n> ")
    terminal.send("\x03")
    terminal.expect_exact("go on with")
    assert terminal.wait() == 0
    assert cli("chat", "-c", "--yes", stdin="/continue\n").stdout.endswith("I went on.\n")


async def test_a_message_to_the_running_turn_is_shown_once() -> None:
    lines: list[str] = []

    class Lines(PlainScreen):
        def line(self, text: str, style: str | None = None) -> None:
            lines.append(text)

    display = AnswerLines(Lines())
    display.typed.append("stop it")
    display.show(MessageTaken("stop it\n\n(It is Monday.)"))
    display.show(MessageTaken("from elsewhere"))
    assert lines == ["(the agent has read your message)", "› from elsewhere"]


async def test_the_status_has_the_last_line_that_a_command_printed() -> None:
    shown: list[str] = []

    class Status(PlainScreen):
        def status(self, text: str) -> None:
            shown.append(text)

        def line(self, text: str, style: str | None = None) -> None:
            pass

    display = AnswerLines(Status())
    command = ModelCall("1", "exec", json.dumps({"command": "make " + "x" * 200}))
    display.show(CallRun(command, "r"))
    await display.hear("one\ntwo\x1b[2J\n", "stdout")
    display.show(CallRun(command, "r"))
    assert re.fullmatch(r"⋯ exec\(command=make x+….*  0.0 s │ two\\x1b\[2J", shown[-1])
    assert len(shown[-1]) <= 100
    display.show(CallDone(command, "r", ToolOutput("done"), 0.1))
    assert shown[-1] == ""


def running(cli: Cli) -> bool:
    return bool(cli("log", "--unfinished").stdout)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_question_before_the_prompt_is_there_gets_the_terminal(cli: Cli, script: Callable[..., str]) -> None:
    asked = call("ask_user", question="Which colour?", options=["red", "green"])
    model = script({"calls": [asked]}, {"text": "Painted.", "after": "green"})
    terminal = cli.at_terminal("chat", "--model", model, env={"TERM": "dumb"})
    terminal.expect_exact("/help lists")
    terminal.sendline("paint")
    terminal.expect_exact("[red / green] ")
    terminal.sendline("3")
    terminal.expect_exact("a number from 1 to 2")
    terminal.sendline("2")
    terminal.expect_exact("Painted.")


# --- tmux


class Tmux:
    """A terminal of a size, with the screen that a person sees."""

    def __init__(self, folder: Path, cli: Cli, columns: int, *words: str) -> None:
        self._base = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
        env = [f"{name}={value}" for name, value in cli.env.items() if name not in ("TERM", "COLUMNS")]
        unset = [f"--unset={name}" for name in os.environ if name.startswith("XDG_")]
        command = shlex.join(["env", "-u", "COLUMNS", *unset, *env, sys.executable, "-m", "toolcrib", *words])
        size = ["-x", str(columns), "-y", "40", "-c", str(cli.work)]
        shell = f"{command}; echo exit code $?; exec cat"
        subprocess.run([*self._base, "new-session", "-d", *size, shell], check=True)

    def type(self, *keys: str) -> None:
        subprocess.run([*self._base, "send-keys", *keys], check=True)

    def screen(self, *options: str) -> str:
        done = subprocess.run([*self._base, "capture-pane", "-p", *options], capture_output=True, text=True, check=True)
        return done.stdout

    def expect(self, *texts: str) -> str:
        end = time.monotonic() + 20
        while True:
            screen = self.screen("-S", "-500")
            if all(text in screen for text in texts):
                return screen
            assert time.monotonic() < end, f"{texts} not in:\n{screen}"
            time.sleep(0.05)

    def close(self) -> None:
        subprocess.run([*self._base, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def tmux(cli: Cli, tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    pytest.importorskip("prompt_toolkit")
    opened: list[Tmux] = []

    def make(columns: int, *words: str) -> Tmux:
        opened.append(Tmux(tmp_path, cli, columns, *words))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.mark.parametrize("enter", ["\r", "\n"])  # the terminal sends the second one while there is no prompt yet
def test_alt_enter_makes_a_line_also_before_the_prompt_is_there(enter: str) -> None:
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from toolcrib.cli.agent.prompt_screen import _keys

    with create_pipe_input() as keyboard:
        keyboard.send_text(f"first\x1b{enter}second{enter}")
        keys = _keys(lambda text: "clear", lambda: None)
        session = PromptSession[str](input=keyboard, output=DummyOutput(), multiline=True, key_bindings=keys)
        assert session.prompt() == "first\nsecond"


async def test_a_question_waits_while_the_person_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from toolcrib.cli.agent import prompt_screen

    asked: list[str] = []

    async def question() -> None:
        async with screen.floor():
            asked.append(screen._session.default_buffer.text)

    with create_pipe_input() as keyboard:
        monkeypatch.setattr(prompt_screen, "create_input", lambda: keyboard)
        monkeypatch.setattr(prompt_screen, "create_output", lambda out: DummyOutput())
        monkeypatch.setattr(prompt_screen, "TYPING_SECONDS", 60)
        screen = prompt_screen.PromptScreen(tmp_path / "h", lambda text: (), lambda text: "", lambda: None, lambda: "")
        reading = asyncio.create_task(screen.read())
        keyboard.send_text("also")
        while screen._session.default_buffer.text != "also":
            await asyncio.sleep(0.01)
        asking = asyncio.create_task(question())
        await asyncio.sleep(0.3)
        assert asked == []
        keyboard.send_text(" this\r")
        assert await reading == "also this"
        await asking
        reading = asyncio.create_task(screen.read("a line that stays"))
        while not screen._session.app.is_running:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(prompt_screen, "TYPING_SECONDS", 0.01)
        await question()
        reading.cancel()
    assert asked[1:] == ["a line that stays"]


@pytest.mark.parametrize("columns", [pytest.param(100, marks=pytest.mark.slow), 40])
def test_a_conversation_in_tmux(cli: Cli, script: Callable[..., str], tmux: Callable[..., Tmux], columns: int) -> None:
    cli.write("notes.txt", "alpha\n")
    plan = {"items": [{"text": "look", "status": "doing"}, {"text": "remove", "status": "pending"}]}
    model = script(
        {
            "text": "# Plan\n\nI **look** first.\n",
            "calls": [
                call("todo", **plan),
                call("write_file", path="notes.txt", content="beta\n"),
                call("exec", command="until [ -e go ]; do sleep 0.05; done; seq 5"),
            ],
        },
        {"text": "I remove.", "calls": [call("delete_file", path="notes.txt")], "after": "please stop after that"},
        {"text": "All done."},
        {"text": "The queued one.", "after": "and then this"},
    )
    at = tmux(columns, "chat", "--model", model)
    at.expect("›", "/help lists")
    at.type("/he")
    at.expect("this list")  # completion
    at.type("C-c")
    at.type("edit @not")
    at.expect("@notes.txt")
    at.type("es.txt", "Enter")
    at.expect("plan: 0 of 2 done", "[~] look", "notes.txt changed (+1 -1)", "⋯ exec(")
    at.type("please stop after that", "Enter")
    at.expect("the agent reads it")
    at.type("/queue and then this", "Enter")
    at.expect("queued")
    at.type("half a li")
    (cli.work / "go").touch()
    screen = at.expect("delete_file wants to run", "Run it?")
    assert "✓ exec(" in screen
    assert "⋯" not in screen.rpartition("✓ exec(")[2]
    at.type("x")
    screen = at.expect("Please answer with one key", "w all of it.\nRun it?")
    assert [word for word in ("because", "session", "arguments") if word not in screen] == [], "a word is cut"
    at.type("y")
    screen = at.expect("All done.", "The queued one.", "› half a li")
    assert "**" not in screen
    assert not (cli.work / "notes.txt").exists()
    assert max(len(line) for line in screen.splitlines()) <= columns
    at.type("C-c")
    at.type("/last 2", "Enter")
    at.expect("\n5\n")
    at.type("first line", "M-Enter", "second", "Enter")
    at.expect("· second", "script of replies is at its end")
    at.type("C-c")
    at.expect("Ctrl-C again")
    at.type("C-c")
    at.expect("(session 2", "exit code 0")
    history = next((cli.home / ".local" / "state").rglob("chat_history"))
    assert history.stat().st_mode & 0o777 == 0o600
    assert "first line" in history.read_text()


def test_ctrl_c_in_tmux_keeps_what_was_streamed(
    cli: Cli, script: Callable[..., str], tmux: Callable[..., Tmux]
) -> None:
    model = script({"calls": [call("exec", command="sleep 60")]}, {"text": "On I went."})
    at = tmux(80, "chat", "--model", model)
    at.expect("/help lists")
    at.type("sleep", "Enter")
    at.expect("⋯ exec(")
    at.type("C-c")
    at.expect("■ exec(", "interrupted; the session is kept")
    at.type("go on", "Enter")
    at.expect("On I went.")
    at.type("C-d")
    at.expect("(session 2", "exit code 0")


def test_a_question_in_tmux_is_answered_though_it_came_at_once(
    cli: Cli, script: Callable[..., str], tmux: Callable[..., Tmux]
) -> None:
    asked = call("ask_user", question="Which colour?", options=["red", "green"])
    at = tmux(80, "chat", "--model", script({"calls": [asked]}, {"text": "Painted.", "after": "green"}))
    at.expect("/help lists")
    at.type("paint", "Enter")
    at.expect("[red / green]")
    at.type("2", "Enter")
    screen = at.expect("✓ ask_user(", "Painted.")
    assert "⋯ ask_user" not in screen
