"""`toolcrib log`, `undo` and `clean`."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from .conftest import Cli


def test_the_log_has_no_hint_for_models(cli: Cli) -> None:
    cli("call", "read_file", "path=nope.txt", code=1)
    cli("call", "read_file", "pth=nope.txt", code=2)
    assert "File not found: nope.txt\n" in cli("log").stdout
    assert "Analyze" not in cli("log").stdout
    for line in cli("log", "--json").stdout.splitlines():
        assert "Analyze" not in cli("log", json.loads(line)["call_id"]).stdout


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
    assert cli("log", "nope", code=2).stderr
    assert "is not a time" in cli("log", "--since", "soon", code=2).stderr
    assert "Traceback" not in cli("log", "-n", "9" * 30, code=2).stderr


def test_follow(cli: Cli) -> None:
    cli("call", "list_dir")
    child = subprocess.Popen(
        [*cli.command, "log", "--follow", "--json"], cwd=cli.work, env={**cli.env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["tool"] == "list_dir"
        cli("call", "glob", "pattern=*")
        assert json.loads(child.stdout.readline())["tool"] == "glob"
        child.send_signal(2)
        assert child.wait(60) == 0  # the way to end it
    finally:
        child.kill()
        child.communicate()


def test_following_loses_nothing_between_the_first_page_and_what_comes_later(cli: Cli) -> None:
    cli("call", "list_dir")
    child = subprocess.Popen(
        [*cli.command, "log", "--follow", "--json", "--tool", "glob"], cwd=cli.work, env=cli.env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for n in range(4):
            cli("call", "glob", f"pattern={n}*")
            cli("call", "list_dir")
        assert child.stdout is not None
        seen = [json.loads(child.stdout.readline())["arguments"]["pattern"] for _ in range(4)]
        assert seen == ["0*", "1*", "2*", "3*"]
    finally:
        child.kill()
        child.communicate()


def test_filters_of_the_log(cli: Cli) -> None:
    cli("call", "write_file", "path=a.txt", "content=Needle")
    cli("call", "read_file", "path=a.txt")
    cli("call", "read_file", "path=../a", code=3)

    def tools(*args: str) -> list[str]:
        return [json.loads(line)["tool"] for line in cli("log", "--json", *args).stdout.splitlines()]

    assert tools("--text", "needle") == ["write_file"]
    assert tools("--category", "filesystem_read") == ["read_file", "read_file"]
    assert tools("--verdict", "deny") == ["read_file"]
    assert tools("--tool", "*_file", "--channel", "cli", "-n", "2") == ["read_file", "read_file"]
    assert tools("--session", "none") == []
    assert tools("--rule", "no such rule") == []
    assert cli("log", "--follow", "--until", "1d", code=2).stderr
    assert "allow, ask, deny, none" in cli("log", "--verdict", "no", code=2).stderr
    assert "network_read" in cli("log", "stats", "--category", "shel", code=2).stderr


def test_stats(cli: Cli) -> None:
    cli("call", "write_file", "path=a.txt", "content=x")
    cli("call", "read_file", "path=../a", code=3)
    rows = {row["tool"]: row for row in cli.json("log", "stats", "--json")}
    assert rows["read_file"]["denied"] == 1
    assert rows["write_file"]["failed"] == 0
    assert "write_file" in cli("log", "stats").stdout
    assert [row["calls"] for row in cli.json("log", "stats", "--by", "channel", "--json")] == [2]
    assert "--by takes" in cli("log", "stats", "--by", "colour", code=2).stderr


def test_export(cli: Cli) -> None:
    cli("call", "write_file", "path=ä.txt", "content=x")
    cli("call", "read_file", "path=ä.txt")
    rows = [json.loads(line) for line in cli("log", "export").stdout.splitlines()]
    assert [(row["kind"], row["tool"]) for row in rows] == [("outcome", "write_file"), ("outcome", "read_file")]
    assert rows[0]["arguments"] == {"path": "ä.txt", "content": "x"}
    assert {"seq", "time", "call_id", "session_id", "verdict", "rule", "outcome", "labels", "hash"} <= set(rows[0])
    (cli.work / "link.jsonl").symlink_to(cli.work / "ä.txt")
    assert "It is a link; name the file that it leads to" in cli("log", "export", "-o", "link.jsonl", code=1).stderr
    assert (cli.work / "ä.txt").read_text("utf-8") == "x"
    cli("log", "export", "--stored", "-o", "rows.jsonl")
    stored = [json.loads(line) for line in (cli.work / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["kind"] for row in stored] == ["intent", "outcome", "outcome"]
    previous = bytes(32)
    for row in stored:  # as docs/record.md says how to check it elsewhere
        digest = row.pop("hash")
        content = json.dumps(list(row.values()), separators=(",", ":")).encode()
        previous = hashlib.sha256(previous + content).digest()
        assert previous.hex() == digest


def database(cli: Cli) -> str:
    (found,) = (cli.home / ".local/state/toolcrib").glob("*/record.db")
    return str(found)


def test_verify(cli: Cli) -> None:
    cli("call", "write_file", "path=a.txt", "content=x")
    cli("call", "write_file", "path=b.txt", "content=x")
    said = cli("log", "verify").stdout
    assert "4 rows are intact" in said
    head = said.split()[-1]
    assert cli.json("log", "verify", "--json")["head"] == head
    cli("call", "read_file", "path=a.txt")
    cli("log", "verify", "--from", head)
    with sqlite3.connect(database(cli)) as record:
        record.execute("DELETE FROM record WHERE seq > 2")
    record.close()
    cli("log", "verify")  # nobody can know, without what was kept
    assert "ends at row 2" in cli("log", "verify", "--from", head, code=1).stderr
    with sqlite3.connect(database(cli)) as record:
        record.execute("UPDATE record SET arguments = '{}' WHERE seq = 1")
    record.close()
    assert "row 1: its content does not fit" in cli("log", "verify", code=1).stderr
    found = cli.json("log", "verify", "--json", code=1)
    assert (found["ok"], found["row"]) == (False, 1)
    assert "--from takes" in cli("log", "verify", "--from", "x", code=2).stderr


def test_a_call_that_never_ended(cli: Cli) -> None:
    cli("call", "write_file", "path=a.txt", "content=x")
    with sqlite3.connect(database(cli)) as record:
        call_id = record.execute("SELECT call_id FROM record").fetchone()[0]
        record.execute("DELETE FROM record WHERE kind = 'outcome'")
    record.close()
    assert cli("log").stdout == ""
    assert "unfinished" in cli("log", "--unfinished").stdout
    assert "its process died, or it is still running" in cli("log", call_id).stdout
    assert [json.loads(line)["kind"] for line in cli("log", "export").stdout.splitlines()] == ["intent"]


def test_a_call_on_a_stored_approval_shows_who_said_yes(cli: Cli) -> None:
    cli.write("a.txt", "x")
    cli("call", "delete_file", "path=a.txt", code=3)
    request = cli.json("approvals", "--json")[0]["id"]
    cli("approvals", "approve", request, "--reason", "fine")
    cli("call", "delete_file", "path=a.txt")
    row = json.loads(cli("log", "--outcome", "ok", "--json").stdout)
    shown = cli("log", row["call_id"]).stdout
    assert f"approval {request}: used" in shown
    assert "fine" in shown


def test_clean_drops_old_calls(cli: Cli) -> None:
    cli("call", "list_dir")
    cli("call", "list_dir")
    (cli.work / "c.toml").write_text("[record]\nkeep_days = 30\n")
    with sqlite3.connect(database(cli)) as record:
        record.execute("UPDATE record SET time = time - 40 * 86400 WHERE seq = 1")
    record.close()
    assert cli.json("clean", "--json", "--dry-run", "--config", "c.toml")["removed"][0]["name"] == "1 rows"
    assert cli.json("clean", "--json", "--config", "c.toml")["removed"][0]["part"] == "record"
    assert len(cli("log").stdout.splitlines()) == 1
    assert cli("log", "verify").returncode == 0


def test_a_damaged_record_is_said_and_not_a_traceback(cli: Cli) -> None:
    cli("call", "list_dir")
    with open(database(cli), "wb") as file:
        file.write(b"no database" * 1000)
    for args in (["log"], ["log", "verify"], ["clean"], ["call", "list_dir"], ["approvals"]):
        said = cli(*args, code=None)
        assert said.returncode in (1, 2)
        assert "is damaged" in said.stderr
        assert "mv " in said.stderr


def test_what_the_log_shows_is_safe_for_terminals(cli: Cli) -> None:
    cli("call", "read_file", "--args", json.dumps({"path": "a\x1b[2J\u202e"}), code=1)
    for args in (["log"], ["log", "--json"]):
        shown = cli(*args).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown


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
    assert "no changes of a call call_nope are known" in cli("undo", "call_nope", code=2).stderr
    assert "CALL-ID: it is empty" in cli("undo", "", code=2).stderr


def test_undo_loses_nothing(cli: Cli) -> None:
    path = cli.write("a.txt", "before")
    cli("call", "write_file", "path=a.txt", "content=after")
    path.write_text("mine")
    assert "--force" in cli("undo", code=1).stderr
    assert path.read_text() == "mine"
    cli("undo", "--force")
    assert path.read_text() == "before"


def test_two_words_are_no_id(cli: Cli) -> None:
    assert "there is no command 'rm'; there are: show" in cli("log", "rm", "x", code=2).stderr
    assert "there is no command 'shwo'; did you mean show?" in cli("sessions", "shwo", "x", code=2).stderr
    assert "has no call x" in cli("log", "x", "--json", code=2).stderr


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


def test_clean_frees_space_on_a_full_disk(cli: Cli, tmp_path: Path) -> None:
    """Not even the history of undo can be opened there, before a content of it is gone."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    try:
        env = {"XDG_STATE_HOME": str(disk)}
        for content in ("x" * 400_000, "y"):
            cli("call", "write_file", "path=a.txt", "content=-", stdin=content, env=env)
        with contextlib.suppress(OSError), open(disk / "other", "wb", buffering=0) as other:
            while True:
                other.write(bytes(1024))
        failed = cli("clean", code=1, env=env).stderr
        assert "not cleaned in one part, record: " in failed
        assert "`toolcrib clean --all`" in failed
        assert cli.json("clean", "--all", "--yes", "--json", env=env)["freed"] >= 400_000
        assert os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > 300_000
        assert "nothing to undo" in cli("undo", code=1, env=env).stderr
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_clean_knows_browsers(cli: Cli) -> None:
    folder = Path(cli.json("clean", "--json")["folder"]) / "browser"
    for name in ("dead", "running", "starting"):
        (folder / name).mkdir(parents=True)
        (folder / name / "cookies").write_bytes(b"x" * 1000)
    (folder / "dead" / "in-use").touch()
    with open(folder / "running" / "in-use", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        would = cli.json("clean", "--json", "--dry-run")
        assert [(r["part"], r["name"], r["size"]) for r in would["removed"]] == [("browser", "dead", 1000)]
        assert would["sizes"]["browser"] == 3000
        assert (folder / "dead").exists()
        cli("clean", "--all", "--yes")
        assert {path.name for path in folder.iterdir()} == {"running", "starting"}


def test_clean_reaches_workspaces_that_are_gone(cli: Cli) -> None:
    (cli.work / "gone").mkdir()
    for where in (".", "gone"):
        cli("call", "-w", where, "write_file", "path=a", "content=x", "--yes")
        cli("call", "-w", where, "write_file", "path=a", "content=y", "--yes")
    shutil.rmtree(cli.work / "gone")
    would = cli.json("clean", "--all-workspaces", "--all", "--dry-run", "--json")
    assert len(would) == 2 and all(found["freed"] > 0 for found in would)
    assert "nothing was removed" in cli("clean", "--all-workspaces", "--all", code=3).stderr
    cli("clean", "--all-workspaces", "--all", "--yes")
    assert [found["freed"] for found in cli.json("clean", "--all-workspaces", "--all", "--dry-run", "--json")] == [0, 0]
    said = cli("clean", "--all-workspaces").stderr  # one line, not one for each folder in which nothing is old
    assert said.startswith("0 B freed in the 2 folders of ") and said.count("\n") == 1


def test_a_database_that_cannot_be_used_is_an_error_in_words(cli: Cli) -> None:
    """Of the history of undo: a full disk, or a damaged file."""
    cli("call", "write_file", "path=a.txt", "content=x")
    database = next(cli.home.rglob("journal.db"))
    database.write_bytes(b"no database" * 100)
    assert "not cleaned in one part, journal: file is not a database" in cli("clean", code=1).stderr
    for args in (["undo"], ["undo", "--list"]):
        done = cli(*args, code=1)
        assert done.stderr.startswith("toolcrib: a database in "), done.stderr
        assert "Traceback" not in done.stderr


def test_no_character_that_nobody_sees_leaves_with_an_export(cli: Cli) -> None:
    hidden = "\x9b31m\u202eexe\u200b"
    cli("call", "echo", f"message={hidden}")
    said = cli("log", "export").stdout
    assert json.loads(said.splitlines()[0])["arguments"] == {"message": hidden}
    assert not set(hidden[:1] + "\u202e\u200b") & set(said)
