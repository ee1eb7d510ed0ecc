"""`toolcrib rules try` and `rules suggest`, on calls that were really made and answered."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Cli


def answered(cli: Cli, command: str, answer: str) -> None:
    """Make a call that must ask, answer it, and make it again."""
    cli("call", "exec", f"command={command}", code=3)
    (asked,) = [row for row in cli.json("approvals", "--json") if row["state"] == "pending"]
    cli("approvals", answer, asked["id"])
    cli("call", "exec", f"command={command}", code=None)


def test_rules_from_what_happened(cli: Cli) -> None:
    cli.write("toolcrib.toml", "")
    for name in ("a", "b"):
        answered(cli, f"rm -rf out {name}", "approve")
    answered(cli, "rm -rf src", "deny")
    cli("call", "exec", "command=ls")
    assert "newly allowed: 2" in cli("rules", "try", "Bash(rm -rf out *)").stdout
    assert "newly denied: 1" in cli("rules", "try", "Bash(ls)", "--as", "deny").stdout
    file = Path(cli.write("settings.json", json.dumps({"permissions": {"deny": ["Bash(ls:*)"]}})))
    assert cli.json("rules", "try", "--file", str(file), "--json")["changed"][0]["after"] == "deny"
    (found,) = cli.json("rules", "suggest", "--json")["rules"]
    assert found["rule"] == "exec(rm -rf out *)" and len(found["calls"]) == 2
    assert "allow  exec(rm -rf out *)" in cli("rules", "suggest").stdout
    assert not cli.json("rules", "suggest", "--since", "2100-01-01", "--json")["rules"]


def test_words_that_are_not_understood(cli: Cli) -> None:
    cli("rules", "try", code=2)
    cli("rules", "try", "Bash(ls)", "--file", "x", code=2)
    cli("rules", "try", "Bash(", code=2)
    cli("rules", "try", "Bash(ls)", "--since", "soon", code=2)
    assert "0 calls (--since 30d)" in cli("rules", "try", "Bash(ls)").stdout
    assert "There was no question that a person answered with yes" in cli("rules", "suggest").stdout
