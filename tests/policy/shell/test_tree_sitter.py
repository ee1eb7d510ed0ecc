"""Why commands are not read with tree-sitter-bash: it loses commands that bash runs, and marks no error.

Should these fail after an upgrade, it is worth looking again (docs/architecture.md).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_bash

from toolcrib.policy.shell.reading import read_script

LOST = [
    ("echo a\\\n#b; touch lost", "a comment after a line continuation, where bash reads on"),
    ("cat <<E\n${a:-b} `touch lost`\nE\n", "backticks after an expansion in a here-document"),
    ("! ! touch lost", "a command negated twice"),
]
"""Scripts that make a file `lost`, and what hides that from tree-sitter-bash 0.25.1."""


def commands_by_tree_sitter(script: str) -> list[str]:
    """The names of all commands in the tree; an error node counts as one, since it would be refused."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    root = parser.parse(script.encode()).root_node

    def walk(node: tree_sitter.Node) -> Iterator[str]:
        if node.type == "ERROR" or node.is_missing:
            yield "ERROR"
        if node.type == "command_name" and node.text is not None:
            yield node.text.decode()
        for child in node.children:
            yield from walk(child)

    return list(walk(root))


@pytest.mark.parametrize(("script", "why"), LOST)
def test_bash_runs_it_tree_sitter_loses_it_and_we_do_not(tmp_path: Path, script: str, why: str) -> None:
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False, stdout=subprocess.DEVNULL)
    assert (tmp_path / "lost").exists(), why
    found = commands_by_tree_sitter(script)
    assert "touch" not in found
    assert "ERROR" not in found
    ours = read_script(script, str(tmp_path), "/home/nobody")
    assert any(command.name == "touch" for command in ours.commands)
