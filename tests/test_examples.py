"""The examples run, and show what they say they show."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, tmp_path, code=0):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False,
        env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_first_tool_is_called_well_and_badly_and_shown_in_every_dialect(tmp_path):
    out = run("first_tool.py", tmp_path)
    assert "Paris: 21 °C for 1 day(s)" in out
    assert "Paris: 21 °C for 3 day(s)" in out
    for complaint in ("missing required city", "days should be an integer", "unit must be one of", "parameter town"):
        assert complaint in out
    for dialect in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        assert f"\n{dialect} [{{" in out


def test_a_person_is_asked_before_each_deletion(tmp_path):
    out = run("ask_before_effects.py", tmp_path)
    assert out.count("[asked] delete_file") == 2
    assert "keep.txt stays" in out
    assert "precious" in out


def test_a_reviewer_only_reads_and_gives_findings(tmp_path):
    out = run("code_reviewer.py", tmp_path, code=1)
    assert "stats.py:6: serious: eval runs what the file says" in out
    assert "(4 requests," in out


def test_research_marks_an_invented_passage(tmp_path):
    out = run("research.py", tmp_path)
    assert out.count("   source: http://127.0.0.1:") == 2
    assert out.count("NOT ON THE PAGE") == 1


def test_data_is_asked_in_sql_that_only_reads(tmp_path):
    out = run("ask_data.py", tmp_path)
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


def test_an_operator_asks_before_each_step_that_changes_something(tmp_path):
    out = run("ops_runbook.py", tmp_path)
    assert out.count("[asked]") == 2
    assert "[failed] purge_queue" in out
    assert "[record] restart_service: ok, answered by example" in out
    assert "[record] purge_queue: denied" in out


def test_a_reminder_comes_later_in_the_session(tmp_path):
    out = run("reminders.py", tmp_path)
    assert out.endswith("The bread! Take it out of the oven now.\n")
    assert out.index("What can I cook meanwhile?") < out.index("The bread!")
