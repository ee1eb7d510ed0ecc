"""What shell commands come to: the given corpus, and the principles behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import Place

CORPUS = [json.loads(line) for line in (Path(__file__).parent / "corpus" / "given.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    root = tmp_path_factory.mktemp("home").resolve()
    workspace = root / "project"
    workspace.mkdir()
    return Place(str(workspace), str(workspace), str(root))


@pytest.mark.parametrize("row", CORPUS, ids=lambda row: row["command"][:60])
def test_given_corpus(row: dict[str, str], place: Place) -> None:
    found = judge_command(row["command"], place)
    assert found.verdict == row["verdict"], found
