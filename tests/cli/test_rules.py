"""`toolcrib rules`, and rules through the whole command line."""

from __future__ import annotations

import json

from .conftest import Cli


def test_rules_are_added_listed_tried_and_removed(cli: Cli) -> None:
    cli("rules", "add", "allow", "Bash(npm test *)", "--yes")
    cli("rules", "add", "deny", "Read(.env)", "--user")
    found = cli.json("rules", "--json")
    assert [(r["verdict"], r["rule"], r["layer"]) for r in found["rules"]] == [
        ("deny", "Read(.env)", "user"),
        ("allow", "Bash(npm test *)", "remembered"),
    ]
    tried = cli("rules", "test", "exec", "command=npm test -- x", "--json")
    assert json.loads(tried.stdout)["verdict"] == "allow"
    assert json.loads(tried.stdout)["matching"][0]["rule"] == "Bash(npm test *)"
    unknown = cli("rules", "test", "exec", 'command=npm test -- "$X"').stderr
    assert (
        "No rule matches. To allow a line, rules must match each of its commands, with words that are known" in unknown
    )
    denied = cli("rules", "test", "exec", "command=cat .env", code=3)
    assert denied.stdout.startswith("deny")
    assert "Read(.env)" in denied.stdout
    assert "not among your own" in cli("rules", "remove", "deny", "Bash(npm test *)", code=2).stderr
    assert "unexpected argument" in cli("rules", "remove", "Bash", "Bash(npm test *)", code=2).stderr
    cli("--yes", "rules", "remove", "allow", "Bash(npm test *)")
    assert "it is in" in cli("rules", "remove", "Read(.env)", code=2).stderr
    cli("rules", "remove", "Read(.env)", "--user")
    assert cli.json("rules", "--json")["rules"] == []


def test_mistakes_say_what_is_wrong(cli: Cli) -> None:
    assert "nothing closes" in cli("rules", "add", "allow", "Bash(", code=2).stderr
    assert "allow, ask or deny" in cli("rules", "add", "maybe", "Bash", code=2).stderr
    assert "must name the server" in cli("rules", "add", "allow", "mcp__*", code=2).stderr
    assert "not found" in cli("rules", "test", "nothing", code=2).stderr
    assert "no tool here is meant by it; did you mean Bash?" in cli("rules", "add", "deny", "Basch(rm *)").stderr
    assert "did you mean" not in cli("rules", "add", "deny", "mine(x)").stderr
    for tried, meant in (("Basch(rm *)", "Bash"), ("ls", "Bash(ls *)"), ("bash", "Bash"), ("readfile", "read_file")):
        assert f"no tool here is meant by it; did you mean {meant}?" in cli("rules", "try", tried).stderr
    assert "warning" not in cli("rules", "add", "deny", "Bash(rm *)").stderr


def test_a_denied_tool_is_not_listed_and_does_not_run(cli: Cli) -> None:
    cli.write("a.txt", "hello\n")
    cli("rules", "add", "deny", "read_file")
    names = [each["name"] for each in cli.json("list", "--dialect", "mcp")]
    assert "grep" in names
    assert "read_file" not in names
    rows = {row["name"]: row["verdict"] for row in cli.json("list", "--json")}
    assert rows["read_file"] == "deny"
    assert "read_file" in cli("call", "read_file", "path=a.txt", code=3).stderr


def test_searches_leave_out_what_is_denied(cli: Cli) -> None:
    cli.write("src/a.txt", "needle\n")
    cli.write("private/b.txt", "needle\n")
    cli("rules", "add", "deny", "Read(private/**)")
    assert "private" not in cli("call", "grep", "pattern=needle").stdout
    assert "private" not in cli("call", "grep", "pattern=needle", "output_mode=content").stdout
    assert "private" not in cli("call", "glob", "pattern=**/*.txt").stdout
    assert "src/a.txt" in cli("call", "glob", "pattern=**/*.txt").stdout
    listing = cli("call", "list_dir", "recursive=true").stdout
    assert "b.txt" not in listing
    assert "a.txt" in listing
    cli("call", "grep", "pattern=needle", "path=private", code=3)
    cli("call", "read_file", "path=private/b.txt", code=3)


def test_rules_go_to_claude_code_and_come_from_it(cli: Cli) -> None:
    for verdict, rule in (("allow", "exec(npm test *)"), ("deny", "Read(.env)"), ("ask", "mcp__x__*")):
        cli("rules", "add", verdict, rule)
    cli("rules", "add", "deny", '{"tool": "exec", "args": {"command": "x*"}}')
    exported = cli("rules", "export", "--claude")
    assert json.loads(exported.stdout)["permissions"] == {
        "allow": ["Bash(npm test *)"], "ask": ["mcp__x__*"], "deny": ["Read(.env)"], "defaultMode": "default",
    }  # fmt: skip
    assert "cannot express" in exported.stderr
    file = cli.home / "settings.json"
    file.write_text(exported.stdout)
    other = cli.work.parent / "other"
    other.mkdir()
    assert cli("rules", "import", str(file), "-w", str(other), code=3).stdout.count("\n") == 3
    cli("rules", "import", str(file), "-w", str(other), "--yes")
    assert len(cli.json("rules", "--json", "-w", str(other))["rules"]) == 3


def test_a_projects_allow_rules_wait_for_trust(cli: Cli) -> None:
    cli.write("toolcrib.toml", '[rules]\nallow = ["Bash(make *)"]\ndeny = ["Bash(make evil)"]\n')
    found = cli.json("rules", "--json")
    assert [r["rule"] for r in found["rules"]] == ["Bash(make evil)"]
    assert "Bash(make *)" in found["ignored"][0]
    cli("trust", "--yes")
    assert len(cli.json("rules", "--json")["rules"]) == 2


def test_an_imported_file_of_the_project_is_trusted_by_the_same_command(cli: Cli) -> None:
    cli.write(".claude/settings.json", '{"permissions": {"allow": ["Bash(make *)"]}}')
    config = cli.home / ".config/toolcrib/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[rules]\nimport = [".claude/settings.json"]\n')
    assert cli.json("rules", "--json")["rules"] == []
    assert "Bash(make *)" in cli("trust", "--yes").stderr
    assert [r["layer"] for r in cli.json("rules", "--json")["rules"]] == ["claude"]
