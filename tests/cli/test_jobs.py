"""`toolcrib jobs` where there is nothing, or where what was named is not there."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from .conftest import Cli


@pytest.mark.parametrize("words", [(), ("workers",), ("show", "job-1"), ("cancel", "job-1"), ("output", "job-1")])
def test_looking_makes_no_database(cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
    typo = tmp_path / "typo.db"
    assert f"there are no jobs in SQLite {typo}" in cli("jobs", *words, "--db", f"sqlite:///{typo}", code=2).stderr
    assert not typo.exists()


def test_looking_changes_no_file_of_another_program(cli: Cli, tmp_path: Path) -> None:
    theirs, text = tmp_path / "theirs.db", tmp_path / "text.db"
    with sqlite3.connect(theirs) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    text.write_text("no database\n" * 100)
    before = theirs.read_bytes()
    assert "there are no jobs in" in cli("jobs", "--db", f"sqlite:///{theirs}", code=2).stderr
    assert theirs.read_bytes() == before
    said = cli("jobs", "--db", f"sqlite:///{text}", code=1).stderr
    assert f"the jobs in SQLite {text} cannot be used: file is not a database" in said


def test_looking_makes_no_tables_on_postgres(cli: Cli, postgres_url: str) -> None:
    assert "there are no jobs in Postgres" in cli("jobs", "--db", postgres_url, code=2).stderr
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'toolcrib%'").fetchall()
    assert found == []


def test_a_database_that_cannot_be_reached_is_named(cli: Cli) -> None:
    said = cli("jobs", "--db", "postgresql://ann:hunter22@127.0.0.1:1/x", code=1).stderr
    assert "the jobs in Postgres 127.0.0.1:1/x cannot be used" in said
    assert "hunter22" not in said and "sqlalche" not in said


def test_a_folder_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    for command in ("jobs", "schedule", "approvals", "log", "sessions"):
        assert f"{tmp_path}/gone" in cli(command, "-w", f"{tmp_path}/gone", code=2).stderr
    for words in (("schedule", "add", "every 1h", "hi"), ("jobs", "start", "list_dir"), ("worker",)):
        cli(*words, "-w", f"{tmp_path}/gone", code=2)
    assert not list(cli.home.glob(".local/state/toolcrib/gone*"))


def test_a_worker_that_could_do_nothing_does_not_start(cli: Cli) -> None:
    memory = {"TOOLCRIB_JOBS__ENGINE": "memory"}
    assert 'jobs.engine is "memory"' in cli("worker", code=2, env=memory).stderr
    assert "nosuch" in cli("worker", "--model", "nosuch:x", code=2).stderr
    assert "'a b' cannot be the name" in cli("worker", "--queue", "a b", code=2).stderr
    assert "6 tags, not 7" in cli("worker", *(word for tag in "abcdefg" for word in ("--tag", tag)), code=2).stderr


@pytest.mark.parametrize(
    "url", ["foo", "sqlite:///rel.db", "postgresql://", "postgresql://host:port/x/y", "mysql://h/x"]
)
def test_an_address_that_is_none_is_an_error(cli: Cli, url: str) -> None:
    for words in (("jobs",), ("worker",), ("jobs", "start", "list_dir")):
        assert "--db should be postgresql://" in cli(*words, "--db", url, code=2).stderr


def test_a_call_is_stored_by_hand(cli: Cli) -> None:
    done = cli("jobs", "start", "list_dir", "path=.")
    ident = done.stdout.strip()
    assert "The job waits for a worker, and none is there" in done.stderr
    (row,) = cli.json("jobs", "--json")
    body = {"tool": "list_dir", "arguments": {"path": "."}, "mode": "assistant", "made_in": "library"}
    body |= {"asks": "require_for_dangerous"}
    assert (row["id"], row["state"], row["body"]) == (ident, "queued", body)
    alone = cli("jobs", "start", "exec", "sleep 1; echo done").stdout.strip()
    assert "2 jobs wait for a worker" in cli("jobs").stderr and "The job waits" in cli("jobs", "show", alone).stderr
    assert cli.json("jobs", "show", alone, "--json")["body"]["arguments"]["command"] == "sleep 1; echo done"
    assert "is cancelled" in cli("jobs", "cancel", ident).stderr
    assert "has ended already" in cli("jobs", "cancel", ident, code=1).stderr
    assert "there is no job nothing" in cli("jobs", "show", "nothing", code=2).stderr
    for words, code in ((("lst_dir",), 2), (("read_file",), 2), (("exec", "command=rm -rf /"), 3)):
        assert cli("jobs", "start", *words, code=code).stderr
    assert "only in memory" in cli("jobs", "start", "list_dir", code=2, env={"TOOLCRIB_JOBS__ENGINE": "memory"}).stderr
