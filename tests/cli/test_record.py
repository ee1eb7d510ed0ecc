"""`toolcrib log`, `undo` and `clean`."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

from toolcrib.cli.filters import read_time
from toolcrib.cli.options import Usage

from .conftest import COMMAND, Cli


def test_log(cli: Cli) -> None:
    cli("call", "write_file", "path=a.txt", "content=x")
    cli("call", "read_file", "path=a.txt")
    cli("call", "read_file", "path=../a", code=3)
    rows = [json.loads(line) for line in cli("log", "--json").stdout.splitlines()]
    assert [(r["tool"], r["outcome"]) for r in rows] == [
        ("write_file", "ok"), ("read_file", "ok"), ("read_file", "denied"),
    ]  # fmt: skip
    assert rows[0]["arguments"] == {"path": "a.txt", "content": "x"}
    assert rows[0]["channel"] == "cli"
    text = cli("log").stdout.splitlines()
    assert len(text) == 3
    assert "write_file" in text[0]
    assert len(cli("log", "--outcome", "denied").stdout.splitlines()) == 1
    assert len(cli("log", "--tool", "read_file", "-n", "1").stdout.splitlines()) == 1
    assert cli("log", "--until", "2001-01-01").stdout == ""
    assert len(cli("log", "--since", "5m").stdout.splitlines()) == 3
    one = cli("log", rows[0]["call_id"]).stdout
    assert "about to run" in one  # the intent, committed before it ran
    assert '"content": "x"' in one
    assert [r["kind"] for r in cli.json("log", rows[0]["call_id"], "--json")] == ["intent", "outcome"]
    assert cli("log", "nope", code=1).stderr
    assert "is no time" in cli("log", "--since", "soon", code=2).stderr


def test_follow(cli: Cli) -> None:
    cli("call", "list_dir")
    child = subprocess.Popen(
        [*COMMAND, "log", "--follow", "--json"], cwd=cli.work, env={**cli.env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["tool"] == "list_dir"
        cli("call", "glob", "pattern=*")
        assert json.loads(child.stdout.readline())["tool"] == "glob"
        child.send_signal(2)
        assert child.wait(10) == 130
    finally:
        child.kill()
        child.communicate()


def test_what_the_log_shows_is_safe_for_terminals(cli: Cli) -> None:
    cli("call", "read_file", "--json", json.dumps({"path": "a\x1b[2J\u202e"}), code=1)
    for args in (["log"], ["log", "--json"]):
        shown = cli(*args).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400)])
def test_times_ago(text: str, ago: int) -> None:
    found = read_time(text)
    assert found is not None
    assert abs(time.time() - ago - found) < 5


def test_other_times() -> None:
    assert read_time(None) is None
    assert read_time("2026-01-31T12:00:00+00:00") == 1769860800
    assert time.strftime("%H:%M:%S", time.localtime(read_time("9:05"))) == "09:05:00"
    with pytest.raises(Usage):
        read_time("25:99")


def test_undo(cli: Cli) -> None:
    path = cli.write("a.txt", "before")
    path.chmod(0o640)
    cli("call", "write_file", "path=a.txt", "content=after")
    cli("call", "write_file", "path=new/b.txt", "content=x")
    listed = cli.json("undo", "--list", "--json")
    assert [(c["action"], c["path"]) for c in listed if c["path"].endswith(".txt")] == [
        ("created", "new/b.txt"), ("changed", "a.txt"),
    ]  # fmt: skip
    assert "new/b.txt" in cli("undo", "--list").stdout
    cli("undo")
    assert not (cli.work / "new").exists()
    undone = cli.json("undo", listed[-1]["call_id"], "--json")
    assert path.read_text() == "before"
    assert os.stat(path).st_mode & 0o777 == 0o640
    cli("undo", undone["undo_id"])
    assert path.read_text() == "after"
    assert "no changes of a call" in cli("undo", "call_nope", code=1).stderr


def test_undo_loses_nothing(cli: Cli) -> None:
    path = cli.write("a.txt", "before")
    cli("call", "write_file", "path=a.txt", "content=after")
    path.write_text("mine")
    assert "--force" in cli("undo", code=1).stderr
    assert path.read_text() == "mine"
    cli("undo", "--force")
    assert path.read_text() == "before"


def test_nothing_to_undo(cli: Cli) -> None:
    assert "nothing to undo" in cli("undo", code=1).stderr
    assert cli("undo", "--list").stdout == ""


def test_clean(cli: Cli) -> None:
    cli.write("a.txt", "before")
    cli("call", "write_file", "path=a.txt", "content=after")
    assert cli.json("clean", "--json")["removed"] == []
    would = cli.json("clean", "--all", "--dry-run", "--json")
    assert would["removed"]
    assert would["dry_run"]
    assert "nothing was removed" in cli("clean", "--all", code=3).stderr
    assert cli.json("undo", "--list", "--json")
    cli("clean", "--all", "--yes")
    assert cli("undo", code=1).stderr
    assert cli("log").stdout  # the record stays
