"""`toolcrib channels`, as a person types it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ...ports import free_port
from ..conftest import COMMAND, Cli

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"


def settings(cli: Cli, text: str) -> None:
    path = cli.home / ".config/toolcrib/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_channels_it_says_how_to_add_one(cli: Cli) -> None:
    assert "[channels.NAME]" in cli("channels").stderr
    assert "[channels.NAME]" in cli("channels", "run", code=2).stderr
    assert "the settings have: none" in cli("channels", "send", "x", "y", "z", code=2).stderr


def test_it_does_not_say_that_it_listens_where_it_cannot(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('{"text": "x"}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        settings(cli, f'[channels.hook]\ntype = "webhook"\nlisten = "{place}"\nsecret = "KEY"\nallowed = ["a"]\n')
        done = cli("channels", "run", "--model", f"scripted:{tmp_path}/script.json", env={"KEY": "k" * 32}, code=2)
    assert f"cannot listen on {place}" in done.stderr
    assert "Listening" not in done.stderr


def test_channels_are_listed_and_messages_are_sent(cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "folder-mail", tmp_path / "plugins/folder-mail")
    settings(cli, f"""
[plugins]
enabled = true
plugin_dirs = ["{tmp_path}/plugins"]
[channels.folder-mail]
allowed = ["file"]
approvers = ["file"]
[channels.gone]
[channels.hook]
type = "webhook"
url = "https://example.com/x"
secret = "MISSING_KEY"
""")  # fmt: skip
    rows = cli.json("channels", "--json")
    assert [(row["name"], row["type"], row["allowed"], row["chats"]) for row in rows] == [
        ("folder-mail", "plugin", ["file"], 0), ("gone", "plugin", [], 0), ("hook", "webhook", [], 0),
    ]  # fmt: skip
    assert "approvers: file" in cli("channels").stdout
    assert "Message sent to folder-mail:ann" in cli("channels", "send", "folder-mail", "ann", "good", "morning").stderr
    assert (tmp_path / "plugins/folder-mail/out/ann.txt").read_text() == "good morning\n"
    assert "there is no channel plugin 'gone'" in cli("channels", "send", "gone", "a", "b", code=2).stderr
    assert "there is no secret 'MISSING_KEY'" in cli("channels", "send", "hook", "a", "b", code=2).stderr


def test_a_chat_at_the_terminal_with_an_approval(cli: Cli, tmp_path: Path) -> None:
    cli.write("a.txt", "alpha\n")
    settings(cli, '[channels.here]\ntype = "terminal"\n')
    script = tmp_path / "script.json"
    steps = [{"calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]}, {"text": "It is gone."}]
    script.write_text(json.dumps(steps))
    terminal = cli.at_terminal("channels", "run", "--model", f"scripted:{script}")
    terminal.expect("Listening: here")
    terminal.sendline("remove a.txt")
    terminal.expect(r"yes (ap_[0-9a-f]+)")
    terminal.sendline(f"yes {terminal.match.group(1)}")
    terminal.expect("Approved delete_file")
    terminal.expect("It is gone")
    terminal.send("\x03")
    assert terminal.wait() == 130
    assert not (cli.work / "a.txt").exists()
    assert cli.json("channels", "--json")[0]["chats"] == 1


@contextmanager
def host(cli: Cli, model: str) -> Iterator[subprocess.Popen[bytes]]:
    """`toolcrib channels run` in a process of its own, which ends by SIGKILL."""
    process = subprocess.Popen(
        [*COMMAND, "channels", "run", "--model", model], cwd=cli.work, env=cli.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(path: Path, words: str) -> str:
    """The text of a file, once it has these words."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        text = path.read_text() if path.exists() else ""
        if words in text:
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} has no {words!r}")


@pytest.mark.slow
def test_a_host_that_was_killed_goes_on_with_the_approval(cli: Cli, tmp_path: Path) -> None:
    cli.write("a.txt", "alpha\n")
    folder = tmp_path / "plugins/folder-mail"
    shutil.copytree(EXAMPLES / "folder-mail", folder)
    settings(
        cli,
        f"""
[plugins]
enabled = true
plugin_dirs = ["{tmp_path}/plugins"]
[channels.folder-mail]
allowed = ["file"]
approvers = ["file"]
env = {{ POLL_SECONDS = "0.02" }}
""",
    )
    script = tmp_path / "script.json"
    steps = [{"calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]}, {"text": "It is gone."}]
    script.write_text(json.dumps(steps))

    def write(text: str) -> None:
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in/new").write_text(text)
        (folder / "in/new").rename(folder / "in/ann.txt")

    with host(cli, f"scripted:{script}"):
        write("remove a.txt")
        found = re.search(r"yes (ap_[0-9a-f]+)", wait_for(folder / "out/ann.txt", "yes ap_"))
    assert found is not None
    with host(cli, f"scripted:{script}") as second:
        write(found[0])
        wait_for(folder / "out/ann.txt", "It is gone.")
        second.terminate()
        assert second.wait(60) == 143
    assert not (cli.work / "a.txt").exists()
    assert cli.json("channels", "--json")[0]["chats"] == 1
    rows = [json.loads(line) for line in cli("log", "--json", "--tool", "delete_file").stdout.splitlines()]
    assert [row["outcome"] for row in rows if row["outcome"] == "ok"] == ["ok"]


def test_a_run_can_send_messages(cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "folder-mail", tmp_path / "plugins/folder-mail")
    settings(
        cli,
        f"""
[plugins]
enabled = true
plugin_dirs = ["{tmp_path}/plugins"]
[channels.mail]
kind = "plugin"
plugin = "folder-mail"
chats = "ann"
""",
    )
    script = tmp_path / "script.json"
    call = {"name": "message", "arguments": {"content": "The report is ready.", "channel": "mail"}}
    script.write_text(json.dumps([{"calls": [call]}, {"text": "Sent.", "after": "Message sent to mail:ann"}]))
    assert cli("run", "--model", f"scripted:{script}", "report").stdout == "Sent.\n"
    assert (tmp_path / "plugins/folder-mail/out/ann.txt").read_text() == "The report is ready.\n"
    assert "spellings" not in cli("config").stdout


@pytest.mark.parametrize("text", ['[channels.x]\ntype = "pigeon"\n', "[channels.x]\ntoken = 1\n", "channels = 1\n"])
def test_wrong_settings_are_an_error_for_a_person(cli: Cli, text: str) -> None:
    settings(cli, text)
    done = cli("channels", code=2)
    assert "config.toml" in done.stderr
    assert "channels" in done.stderr


def test_a_message_that_did_not_arrive_is_a_failure_and_wrong_settings_are_not(cli: Cli) -> None:
    settings(cli, f"""
[channels.hook]
type = "webhook"
url = "http://127.0.0.1:{free_port()}/in"
secret = "KEY"
[channels.deaf]
type = "webhook"
listen = "127.0.0.1:0"
secret = "KEY"
""")  # fmt: skip
    env = {"KEY": "k" * 32}
    assert "hook: " in cli("channels", "send", "hook", "x", "hello", code=1, env=env).stderr
    assert "only receives" in cli("channels", "send", "deaf", "x", "hello", code=2, env=env).stderr
    assert "no channel 'none'" in cli("channels", "send", "none", "x", "hello", code=2, env=env).stderr
