"""What the benchmarks import from toolcrib is there; `make bench-check` runs a part of them, `make bench` another."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


def imported(tree):
    """Each (module, name) that is imported from toolcrib, anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "toolcrib":
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_imports_of_a_benchmark_exist(path):
    for module, name in imported(ast.parse(path.read_text())):
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module}.{name}"
