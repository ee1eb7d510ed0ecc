"""`toolcrib check`: one call, and streams of them."""

from __future__ import annotations

import json
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
    assert cli("check", "nope", code=3).stdout.startswith("deny")
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
