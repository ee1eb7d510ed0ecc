"""Imports between rooms go one way, and `import toolcrib` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from .test_house import modules, sizes

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


def wrong_arrows(found: Iterable[tuple[int, str, str]], module: str) -> list[str]:
    """Imports of a module, as `sizes.imports` yields them, that point down or sideways."""
    own = room_of(module)
    assert own is not None
    wrong: list[str] = []
    for _, base, imported in found:
        name = f"{base}.{imported}" if imported else base  # `from . import core` names a room, too
        other = room_of(name)
        if other is None or other == own or name == "toolcrib._version.__version__":
            continue
        if other not in LEVEL:
            if name.count(".") > 1 or other[0].islower():  # `from toolcrib import Tool` is no room
                wrong.append(f"{module} imports toolcrib.{other}, which is no known room")
            else:
                wrong.append(f"{module} imports {other} from the package; import the room that has it")
        elif LEVEL[other] >= LEVEL[own]:
            wrong.append(f"{module} ({own}) imports {name} ({other})")
    return wrong


def arrows_of(source: str, module: str, is_package: bool = False) -> list[str]:
    package = module if is_package else module.rpartition(".")[0]
    return wrong_arrows(sizes.imports(ast.parse(source), package), module)


def test_rooms_import_one_way() -> None:
    wrong: list[str] = []
    for module in modules():
        room = room_of(module.name)
        if room in {None, "__main__", "_version"}:
            continue  # the package's own front page names every room, lazily
        assert room in LEVEL, f"{module.path} is in no known room; add it to LEVELS where it belongs"
        wrong += wrong_arrows(module.imports, module.name)
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
    assert arrows_of(source, module, is_package)


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
    assert arrows_of(source, module) == []


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


def test_an_mcp_server_is_started_without_the_sdk_which_is_loaded_meanwhile() -> None:
    loaded = loaded_after("import toolcrib.serve.stdio, toolcrib.sources.mcp.connecting")
    assert loaded & {"anyio", "mcp", "mcp_types"} == {"anyio"}


def test_settings_and_a_call_do_not_make_pydantic_look_through_all_packages_for_its_plugins() -> None:
    call = (
        "import asyncio\nfrom toolcrib import Toolbox\nasync def main():\n"
        "  async with Toolbox.open(workspace='.', tools=[]) as box:\n"
        "    await box.call('list_dir', {})\nasyncio.run(main())"
    )
    assert loaded_after(call) & {"pydantic", "email"} == {"pydantic"}  # importlib.metadata needs `email`


def test_first_calls_load_nothing_that_only_rules_a_miss_or_a_question_about_hosts_needs(tmp_path: Path) -> None:
    rare = [
        "boundary.network.address_guard", "boundary.proxy.dialling", "boundary.proxy.domains", "boundary.pysearch",
        "builtin.diffs", "builtin.patch_format", "builtin.response_bodies", "builtin.web.robots",
        "config.foreign_servers", "core.json_schema", "policy.regexes", "policy.shell.reached", "policy.shell.walked",
    ]  # fmt: skip
    calls = (
        f"import asyncio, os\nos.chdir({str(tmp_path)!r})\nfrom toolcrib import Toolbox\nasync def main():\n"
        "  async with Toolbox.open(workspace='.', mode='assistant') as box:\n"
        "    await box.call('write_file', {'path': 'a', 'content': 'x'})\n"
        "    await box.call('edit_file', {'path': 'a', 'old_text': 'x', 'new_text': 'y'})\n"
        "    await box.call('grep', {'pattern': 'y'})\n"
        "    await box.call('exec', {'command': 'ls'})\n"
        "asyncio.run(main())\n"
        f"print(*[name for name in {rare} if 'toolcrib.' + name in sys.modules])"
    )
    assert loaded_after(calls) & set(rare) == set()


def test_the_light_import_check_sees_heavy_ones() -> None:
    assert "sqlite3" in loaded_after("import sqlite3")
