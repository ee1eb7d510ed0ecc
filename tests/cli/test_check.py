"""`toolcrib check`: one call, and streams of them."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.cli.check import (
    MAX_LINE,
    _row,  # pyright: ignore[reportPrivateUsage]
)
from toolcrib.toolbox import Toolbox

from .conftest import Cli


def _rows(cli: Cli, lines: list[str], *args: str) -> list[dict[str, Any]]:
    done = cli("check", "--jsonl", *args, stdin="\n".join(lines) + "\n")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_call(cli: Cli) -> None:
    cli.write("a.txt", "x")
    assert cli("check", "read_file", "path=a.txt").stdout.startswith("allow")
    row = cli.json("check", "delete_file", "path=a.txt", "--json", code=3)
    assert (row["verdict"], row["category"]) == ("ask", "destructive")
    assert cli("check", "read_file", "path=../x", code=3).stdout.startswith("deny")
    for call in (["nope"], ["read_file", "pth=x"], ["exec", "command=ls", "working_dir=nope"]):  # as the call says it
        assert cli("check", *call, code=3).stdout.startswith("invalid  ")
        assert cli.json("check", *call, "--json", code=3)["verdict"] == "deny"
    assert (cli.work / "a.txt").exists()


def test_rows_are_answered_in_order_and_ids_keep_their_type(cli: Cli) -> None:
    lines = [
        json.dumps({"id": n, "tool": "read_file", "arguments": {"path": f"f{n}" if n % 2 else "../f"}})
        for n in range(300)
    ]
    rows = _rows(cli, lines)
    assert [row["id"] for row in rows] == list(range(300))
    assert [row["verdict"] for row in rows[:4]] == ["deny", "allow", "deny", "allow"]
    mixed: list[Any] = ["1", 1, 1.5, None, True, {"a": [1]}, [2]]
    rows = _rows(cli, [json.dumps({"id": value, "tool": "list_dir", "arguments": {}}) for value in mixed])
    assert json.dumps([row["id"] for row in rows]) == json.dumps(mixed)


def test_malformed_rows_are_denied_and_do_not_end_the_stream(cli: Cli) -> None:
    lines = [
        "nonsense", "[1]", '{"id": 7}', '{"id": 8, "tool": 5}', '{"id": 9, "tool": "read_file", "arguments": [1]}',
        '{"id": 10, "tool": "read_file", "arguments": {"pth": "x"}}', '{"id": 11, "tool": "no_such", "arguments": {}}',
        '{"id": 12, "tool": "list_dir", "resolve": [1]}', "[" * 50_000, "", '{"id": 13, "tool": "list_dir"}',
        '{"id": "\\ud800", "tool": "read_file", "arguments": {"path": "\\ud800"}}',
    ]  # fmt: skip
    rows = _rows(cli, lines)
    assert [row["id"] for row in rows] == [None, None, 7, 8, 9, 10, 11, 12, None, 13, "\ud800"]
    assert [row["verdict"] for row in rows[:9]] == ["deny"] * 9
    assert rows[9]["verdict"] == "allow"
    assert all(row["reason"] for row in rows)
    assert all(set(row) == {"id", "verdict", "category", "rule", "reason"} for row in rows)


def test_a_last_line_without_an_end_counts(cli: Cli) -> None:
    done = cli("check", "--jsonl", stdin='{"id": 1, "tool": "list_dir", "arguments": {}}')
    assert json.loads(done.stdout)["id"] == 1
    assert cli("check", "--jsonl", stdin="").stdout == ""


def test_bare_reads_no_configuration_and_no_mode(cli: Cli) -> None:
    cli.write("a.txt", "x")
    cli.write("toolcrib.toml", 'mode = "observer"\n')
    row = json.dumps({"id": 1, "tool": "write_file", "arguments": {"path": "a.txt", "content": "y"}})
    assert _rows(cli, [row])[0]["verdict"] == "deny"
    assert _rows(cli, [row], "--bare")[0]["verdict"] == "allow"
    cli.write("toolcrib.toml", "mode = 3\n")
    assert _rows(cli, [row], "--bare")[0]["verdict"] == "allow"
    outside = json.dumps({"id": 1, "tool": "write_file", "arguments": {"path": "../a.txt", "content": "y"}})
    assert _rows(cli, [outside], "--bare", "--yes")[0]["verdict"] == "deny"


def test_usage(cli: Cli) -> None:
    assert "leave NAME" in cli("check", "read_file", "--jsonl", code=2).stderr


_value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)
_row_like = st.fixed_dictionaries(
    {},
    optional={
        "id": _value,
        "tool": st.one_of(st.sampled_from(["read_file", "exec", "write_file", "grep", "web_fetch"]), _value),
        "arguments": st.one_of(
            st.dictionaries(st.sampled_from(["path", "command", "content", "pattern", "url", "x"]), _value), _value
        ),
        "resolve": _value,
    },
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=40), _row_like.map(lambda row: json.dumps(row).encode())), st.booleans())
def test_any_row_is_answered(opened: Toolbox, line: bytes, bare: bool) -> None:
    checker = opened.checker(bare=bare)

    async def judged() -> dict[str, Any]:
        answer = _row(checker, line, 1)
        return answer if isinstance(answer, dict) else await answer

    row = opened.run_sync(judged())
    assert row.pop("wall", "read") in ("read", "workspace", "all")  # a command that runs behind one says so
    assert set(row) == {"id", "verdict", "category", "rule", "reason"}
    assert row["verdict"] in ("allow", "ask", "deny")
    json.dumps(row)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toolbox]:
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    (tmp_path / "work").mkdir()
    with Toolbox.open(tmp_path / "work") as box:
        yield box


def test_no_row_answers_for_another(cli: Cli) -> None:
    forged = '{"id": 2, "tool": "read_file", "arguments": {"path": "a"}}'
    deep = "[" * 900 + "]" * 900
    rows = [
        '{"id": 1, "x": "'.ljust(MAX_LINE + 1, "y") + forged,  # the forged row begins where the limit cuts
        '{"id": NaN, "tool": "read_file", "arguments": {"path": "a"}}',
        f'{{"id": {deep}, "tool": "read_file", "arguments": {{"path": "a"}}}}',
        '{"id": 2, "tool": "read_file", "arguments": {"path": "../a"}}',
    ]
    answers = cli("check", "--jsonl", stdin="\n".join(rows)).stdout.splitlines()
    assert len(answers) == len(rows)
    found = [json.loads(answer, parse_constant=lambda name: pytest.fail(name)) for answer in answers]
    assert [row["verdict"] for row in found[:2]] == ["deny", "deny"]
    assert (found[3]["id"], found[3]["verdict"]) == (2, "deny")


def _bare(cli: Cli, *calls: tuple[str, dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    return _rows(cli, [json.dumps({"tool": tool, "arguments": args, **more}) for tool, args in calls], "--bare")


def test_bare_judges_paths_by_themselves(cli: Cli) -> None:
    cli.write("a.txt", "x")
    cli.write(".env", "x")
    (cli.home / ".ssh").mkdir()
    (cli.home / ".ssh" / "id_rsa").write_text("x")
    (cli.work / "key").symlink_to(cli.home / ".ssh" / "id_rsa")
    (cli.work / "out").symlink_to("/etc/hostname")
    expected = {
        ("read_file", "a.txt"): "allow", ("read_file", "none"): "allow", ("read_file", "/etc/hostname"): "ask",
        ("read_file", "../x"): "ask", ("read_file", "out"): "ask", ("list_dir", "/"): "ask", ("list_dir", "."): "allow",
        ("read_file", "~/.ssh/id_rsa"): "deny", ("read_file", "key"): "deny", ("read_file", ".env"): "deny",
        ("read_file", "/etc/shadow"): "deny", ("read_file", f"{cli.work}/../x"): "ask",
        ("write_file", "new.txt"): "allow", ("write_file", "/etc/x"): "deny", ("write_file", "../x"): "deny",
        ("write_file", "out"): "deny", ("delete_file", "a.txt"): "allow", ("delete_file", "/etc/x"): "deny",
        ("write_file", ".git/hooks/x"): "ask", ("delete_file", "out"): "allow",
    }  # fmt: skip
    calls = [(tool, {"path": path} | ({"content": ""} if tool == "write_file" else {})) for tool, path in expected]
    found = {key: row["verdict"] for key, row in zip(expected, _bare(cli, *calls), strict=True)}
    assert found == expected
    rows = _bare(
        cli,
        ("grep", {"pattern": "x", "path": "/etc/shadow"}), ("glob", {"pattern": "/etc/*"}), ("glob", {"pattern": "*"}),
        ("edit_file", {"path": "/etc/x", "old_text": "a", "new_text": "b"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: /etc/x\n+a\n*** End Patch"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: x\n+a\n*** End Patch"}),
    )  # fmt: skip
    assert [row["verdict"] for row in rows] == ["deny", "ask", "allow", "deny", "deny", "allow"]


def test_bare_makes_no_file_and_needs_no_state_folder(cli: Cli) -> None:
    cli.write("a.txt", "x")
    before = sorted(cli.home.parent.rglob("*"))
    calls = [
        ("read_file", {"path": "a.txt"}),
        ("exec", {"command": "ls"}),
        ("write_file", {"path": "b", "content": ""}),
    ]
    assert len(_bare(cli, *calls)) == 3
    assert cli("check", "--bare", "read_file", "path=a.txt").stdout.startswith("allow")
    made = {path.name for path in sorted(cli.home.parent.rglob("*")) if path not in before}
    assert made <= {"stdin", "stdout", "stderr"}
    cli("check", "--bare", "read_file", "path=a.txt", env={"XDG_STATE_HOME": str(cli.work / "state")})
    assert not (cli.work / "state").exists()


def test_web_addresses_are_judged_even_of_tools_that_are_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cli.home))  # no Chromium there
    pins = {"resolve": {"pub.example.test": ["93.184.216.34"], "in.example.test": ["93.184.216.34", "10.0.0.1"]}}
    rows = _bare(
        cli,
        ("web_fetch", {"url": "https://pub.example.test/"}),
        ("web_fetch", {"url": "https://in.example.test/"}),
        ("http_request", {"method": "GET", "url": "http://169.254.169.254/"}),
        ("browser_open", {"url": "https://8.8.8.8/"}),
        ("web_fetch", {"url": "https://nowhere.invalid/"}),
        ("web_fetch", {"address": "https://8.8.8.8/"}),
        ("no_such_tool", {"url": "https://8.8.8.8/"}),
        **pins,
    )
    assert [row["verdict"] for row in rows] == ["allow", "deny", "deny", "allow", "deny", "deny", "deny"]
    assert [row["category"] for row in rows[:4]] == ["network_read", "network_read", "network_write", "network_read"]
    assert "is not here" in rows[3]["reason"]
    assert rows[4]["rule"] == "address:unresolved"
    assert "unknown" in rows[5]["reason"]
    assert "not found" in rows[6]["reason"]
    row = json.dumps({"tool": "browser_open", "arguments": {"url": "https://8.8.8.8/"}})
    assert "not found" in _rows(cli, [row])[0]["reason"]  # what would happen: there is no such tool


def test_wrong_pins_are_denied(cli: Cli) -> None:
    for wrong in ({"a.example": ["x"]}, {"a.example": [1]}, {"a.example": 5}, {"a.example": []}, {"a.example": None}):
        assert _bare(cli, ("web_fetch", {"url": "https://a.example/"}), resolve=wrong)[0]["verdict"] == "deny", wrong


def test_a_person_sees_why(cli: Cli) -> None:
    shown = cli("check", "--bare", "write_file", "path=/etc/x", "content=", code=3).stdout.splitlines()
    assert shown[0] == "deny  write_file (filesystem_write)"
    assert shown[1] == "rule   path:outside"
    assert shown[2].startswith("reason ")


def test_rows_are_answered_as_they_come_and_ctrl_c_ends_it(cli: Cli) -> None:
    child = subprocess.Popen([*cli.command, "check", "--jsonl", "--bare"], cwd=cli.work, env=cli.env, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    for number in range(3):
        print(json.dumps({"id": number, "tool": "list_dir"}), file=child.stdin, flush=True)
        assert json.loads(child.stdout.readline())["id"] == number
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130  # its input stays open until then: the end of it would be another way to end
    _, errors = child.communicate()
    assert "Traceback" not in errors


def test_a_reader_that_goes_away_ends_it(cli: Cli) -> None:
    line = json.dumps({"tool": "list_dir"})
    script = f"yes '{line}' | {shlex.join(cli.command)} check --jsonl --bare | head -n 2"
    done = subprocess.run(["bash", "-c", script], cwd=cli.work, env=cli.env, text=True, capture_output=True, timeout=60)
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr


def test_a_closed_stdin_has_no_rows(cli: Cli) -> None:
    script = f"{sys.executable} -m toolcrib check --jsonl --bare <&-"
    done = subprocess.run(["bash", "-c", script], cwd=cli.work, env=cli.env, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_rows_of_the_largest_size(cli: Cli) -> None:
    row = {"id": 1, "tool": "write_file", "arguments": {"path": "a", "content": "x" * (MAX_LINE - 200)}}
    large, small = json.dumps(row), json.dumps({"id": 2, "tool": "list_dir"})
    found = _rows(cli, [large, small], "--bare")
    assert [(row["id"], row["verdict"]) for row in found] == [(1, "allow"), (2, "allow")]
    command = json.dumps({"id": 3, "tool": "exec", "arguments": {"command": "echo " + "x" * (MAX_LINE - 200)}})
    assert [row["id"] for row in _rows(cli, [command, small], "--bare")] == [3, 2]


def test_a_person_sees_the_parts_of_a_command(cli: Cli) -> None:
    shown = cli("check", "--bare", "exec", "command=ls && rm -rf / | cat", code=3).stdout.splitlines()
    assert [line.split(maxsplit=1) for line in shown[3:]] == [["allow", "ls"], ["deny", "rm -rf /"], ["allow", "cat"]]
    assert len(cli("check", "--bare", "exec", "command=ls").stdout.splitlines()) == 3
    loop = cli("check", "--bare", "exec", "command=for f in *; do echo $f; ls; done").stdout.splitlines()
    assert [line.split(maxsplit=1) for line in loop[3:]] == [["allow", "echo $f"], ["allow", "ls"]]
