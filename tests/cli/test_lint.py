"""`toolcrib lint`."""

from __future__ import annotations

from .conftest import Cli


def test_our_own_tools_pass(cli: Cli) -> None:
    assert cli("lint").stdout == ""
    assert cli.json("lint", "--json", "read_file") == []


def test_wrong_words(cli: Cli) -> None:
    assert "error, warning or info" in cli("lint", "--level", "fatal", code=2).stderr
    assert "nope" in cli("lint", "nope", code=2).stderr
