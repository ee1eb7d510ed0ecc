"""The commands on a record that many machines share: record.url, --db, and what a person reads without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg

from ..postgres import Cluster
from .conftest import Cli


def test_two_machines_share_calls_and_approvals(cli: Cli, tmp_path: Path, postgres_url: str) -> None:
    other = replace(cli, home=tmp_path / "other")
    other.home.mkdir()
    (cli.work / "a.txt").write_text("x")
    shared = {"RECORD": postgres_url, "TOOLCRIB_RECORD__URL": "${RECORD}"}
    refused = cli("call", "exec", "command=rm a.txt", env=shared, code=3)
    ident = next(word for word in refused.stderr.split() if word.startswith("ap_"))
    assert ident in other("approvals", "--db", postgres_url).stdout
    assert "Approved exec" in other("approvals", "approve", ident, "--db", postgres_url).stderr
    cli("call", "exec", "command=rm a.txt", env=shared)
    listed = other("log", "--db", postgres_url).stdout
    assert "pending" in listed
    assert "ok" in listed
    said = other("log", "verify", "--db", postgres_url).stdout
    assert "rows are intact" in said
    kept = said.split("end of the chain: ")[1].strip()
    other("log", "verify", "--db", postgres_url, "--from", kept)
    assert "There are no sessions yet" in other("sessions", "--db", postgres_url).stderr
    assert not list(cli.home.glob(".local/state/toolcrib/*/record.db"))


def test_what_is_wrong_is_named_without_the_password(cli: Cli, postgres_cluster: Cluster) -> None:
    url = postgres_cluster.url("none").replace("postgres@", "ann:hunter22@")
    said = cli("log", "--db", url, code=1).stderr
    assert f"127.0.0.1:{postgres_cluster.port}/none cannot be reached" in said
    assert "hunter22" not in said
    assert "hunter22" not in cli("config", env={"TOOLCRIB_RECORD__URL": url}).stdout
    assert "PASS is not set" in cli("log", env={"TOOLCRIB_RECORD__URL": "${PASS}"}, code=2).stderr
    assert "postgresql://" in cli("log", "--db", "mysql://x", code=2).stderr


def test_an_untrusted_project_cannot_move_the_record(cli: Cli) -> None:
    (cli.work / "toolcrib.toml").write_text('[record]\nurl = "postgresql://127.0.0.1:1/theirs"\n')
    cli("call", "list_dir")
    assert "list_dir" in cli("log").stdout


def test_approvals_of_a_shared_record_are_found_from_the_home_folder(cli: Cli, postgres_url: str) -> None:
    shared = {"TOOLCRIB_RECORD__URL": postgres_url}
    (cli.work / "a.txt").write_text("x")
    refused = cli("call", "exec", "command=rm a.txt", env=shared, code=3)
    ident = next(word for word in refused.stderr.split() if word.startswith("ap_"))
    home = replace(cli, work=cli.home)
    assert ident in home("approvals", "--db", postgres_url).stdout
    assert ident in home("approvals", "--all", "--db", postgres_url).stdout
    own = cli.home / ".config/toolcrib/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'[record]\nurl = "{postgres_url}"\n')
    assert ident in home("approvals").stdout
    assert "Denied exec" in home("approvals", "deny", ident).stderr


def test_looking_makes_no_record(cli: Cli, postgres_url: str) -> None:
    for words in (
        ("approvals",),
        ("log",),
        ("sessions",),
        ("schedule",),
        ("schedule", "next"),
        ("approvals", "show", "a"),
    ):
        assert "there is no record in postgresql://" in cli(*words, "--db", postgres_url, code=2).stderr
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'toolcrib%'").fetchall()
    assert found == []


def test_the_doctor_says_that_every_role_may_connect_to_the_jobs(cli: Cli, postgres_url: str) -> None:
    shared = {"TOOLCRIB_JOBS__URL": postgres_url}
    rows = {row["name"]: row for row in cli.json("doctor", "--json", env=shared, code=None)["findings"]}
    assert "every role of its server may connect" in rows["jobs"]["detail"]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC".encode())
    rows = {row["name"]: row for row in cli.json("doctor", "--json", env=shared, code=None)["findings"]}
    assert rows["jobs"]["ok"]
