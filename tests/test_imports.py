"""Imports between rooms go one way, and `import toolcrib` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "toolcrib"

# Rooms by level; a room may import rooms of lower levels only, never one beside it.
LEVELS = [
    {"core"},
    {"boundary"},
    {"record"},
    {"policy"},
    {"builtin"},
    {"sources", "effects"},  # their commands and requests go the same way as those of our own tools
    {"config"},  # toolbox composes what config read
    {"toolbox"},
    {"agent", "jobs"},  # they use a toolbox, as any host does
    {"adapters", "hosts", "serve", "testing"},
    {"cli"},  # a door for people that also opens the doors for machines
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def room_of(module: str) -> str | None:
    """The room a dotted module belongs to; None for the package itself and for what is not ours."""
    parts = module.split(".")
    return parts[1] if parts[0] == "toolcrib" and len(parts) > 1 else None


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in a source text, at any depth, TYPE_CHECKING blocks included."""
    parents = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = parents[: len(parents) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:  # `from . import core` names a room, too
                yield node.lineno, f"{start}.{name.name}"


def wrong_arrows(source: str, module: str, is_package: bool = False) -> list[str]:
    """Imports in a source text that point down or sideways."""
    own = room_of(module)
    assert own is not None
    found: list[str] = []
    for line, name in imports(source, module, is_package):
        other = room_of(name)
        if other is None or other == own or name == "toolcrib._version.__version__":
            continue
        if other not in LEVEL:
            if name.count(".") > 1 or other[0].islower():  # `from toolcrib import Tool` is no room
                found.append(f"{module}:{line} imports toolcrib.{other}, which is no known room")
            else:
                found.append(f"{module}:{line} imports {other} from the package; import the room that has it")
        elif LEVEL[other] >= LEVEL[own]:
            found.append(f"{module}:{line} ({own}) imports {name} ({other})")
    return found


def test_rooms_import_one_way() -> None:
    wrong: list[str] = []
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        room = room_of(module)
        if room in {None, "__main__", "_version"}:
            continue  # the package's own front page names every room, lazily
        assert room in LEVEL, f"{path} is in no known room; add it to LEVELS where it belongs"
        wrong += wrong_arrows(path.read_text(encoding="utf-8"), module, is_package)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "module", "is_package"),
    [
        ("from ..policy import modes", "toolcrib.core.tool", False),
        ("from .. import policy", "toolcrib.core.tool", False),
        ("from .. import cli", "toolcrib.core", True),
        ("import toolcrib.serve.mcp", "toolcrib.builtin.files", False),
        ("from toolcrib.sources import mcp", "toolcrib.builtin.files", False),
        ("from ..cli import main", "toolcrib.serve.mcp", False),
        ("from .toolbox import Toolbox", "toolcrib.config", False),
        ("def f():\n    from ...cli import main", "toolcrib.boundary.sandbox.bubblewrap", False),
        ("if TYPE_CHECKING:\n    from ..record.journal import Journal", "toolcrib.boundary.workspace", False),
        ("from toolcrib import Tool", "toolcrib.builtin.files", False),
    ],
)
def test_the_arrow_check_sees_wrong_arrows(source: str, module: str, is_package: bool) -> None:
    assert wrong_arrows(source, module, is_package)


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("from ..core.tool import Tool", "toolcrib.boundary.workspace"),
        ("from ...core import errors", "toolcrib.boundary.sandbox.bubblewrap"),
        ("from . import workspace", "toolcrib.boundary.process"),
        ("from toolcrib.builtin import files", "toolcrib.toolbox"),
        ("import os, json", "toolcrib.core.tool"),
    ],
)
def test_the_arrow_check_passes_right_ones(source: str, module: str) -> None:
    assert wrong_arrows(source, module) == []


HEAVY = [
    "acp",
    "anthropic",
    "apprise",
    "dbos",
    "httpx",
    "httpx2",
    "jsonschema",
    "jsonschema_rs",
    "mcp",
    "openai",
    "playwright",
    "pydantic",
    "pydantic_core",
    "rapidfuzz",
    "rich",
    "sqlite3",
    "tree_sitter",
    "typer",
    "uvicorn",
]


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after one statement."""
    code = f"import sys\n{statement}\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    ["import toolcrib", "from toolcrib import tool, Tool, ToolRegistry, Toolbox, ToolContext, ToolOutput"],
)
def test_import_is_light(statement: str) -> None:
    assert loaded_after(statement) & set(HEAVY) == set()


def test_settings_and_a_call_do_not_make_pydantic_look_through_all_packages_for_its_plugins() -> None:
    call = (
        "import asyncio\nfrom toolcrib import Toolbox\nasync def main():\n"
        "  async with Toolbox.open(workspace='.', tools=[]) as box:\n"
        "    await box.call('list_dir', {})\nasyncio.run(main())"
    )
    assert loaded_after(call) & {"pydantic", "email"} == {"pydantic"}  # importlib.metadata needs `email`


def test_the_light_import_check_sees_heavy_ones() -> None:
    assert "sqlite3" in loaded_after("import sqlite3")
