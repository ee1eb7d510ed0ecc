"""Every start of a program in the source is in the table of starts, and nothing in the table is absent."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.host_starts import STARTS

SRC = Path(__file__).parent.parent / "src" / "toolcrib"

# What starts or loads other programs: functions of modules, and functions and classes by their own names.
MODULES = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"system", "popen", "startfile", "posix_spawn", "posix_spawnp", "fork", "forkpty"},
    "pty": {"spawn", "fork"},
    "webbrowser": {"open", "open_new", "open_new_tab", "get"},
    "runpy": {"run_path", "run_module"},
    "multiprocessing": {"Process", "Pool", "get_context"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "importlib": set[str](),
    "ctypes": set[str](),
    "platform": {"platform", "processor", "architecture"},  # start the `uname` and the `file` of PATH
    "uuid": {"uuid1", "getnode"},
}
NAMES = {
    "Spawn", "NoSandbox", "async_playwright", "ProcessPoolExecutor", "entry_points", "spec_from_file_location",
    "stdio_client", "Popen", "Monty",
}  # fmt: skip
# Only `programs.py` looks programs up, and says which interpreter is ours.
ONLY_IN_PROGRAMS = {("shutil", "which"), ("sys", "executable")}


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_start(call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Name):
        return func.id in NAMES
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr in NAMES or (func.attr.startswith(("exec", "spawnv", "spawnl")) and _is(func.value, "os")):
        return True
    if func.attr == "launch" and isinstance(func.value, ast.Attribute) and func.value.attr == "chromium":
        return True
    if func.attr == "import_module" and call.args and isinstance(call.args[0], ast.Name):
        return func.value.__class__ is ast.Name and call.args[0].id == "module"
    if func.attr == "CDLL":
        return not (isinstance(call.args[0], ast.Constant) and call.args[0].value is None)
    if func.attr == "find_library":
        return True
    return isinstance(func.value, ast.Name) and func.attr in MODULES.get(func.value.id, ())


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def starts(tree: ast.AST, module: str) -> set[str]:
    """The functions of a module that start something, as `module:name`."""
    found: set[str] = set()
    pending: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while pending:
        node, within = pending.pop()
        if isinstance(node, ast.Call) and is_start(node):
            found.add(f"{module}:{'.'.join(within)}")
        inner = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*within, node.name)
        pending += [(child, inner) for child in ast.iter_child_nodes(node)]
    return found


@functools.cache
def in_source() -> tuple[set[str], set[str]]:
    """What starts something, and what asks where a program is. No tree is kept: all of them are millions of objects."""
    found, asked = set[str](), set[str]()
    for path in SRC.rglob("*.py"):
        module, text = module_of(path), path.read_text()
        tree = ast.parse(text)
        found |= starts(tree, module)
        if any(name in text for _, name in ONLY_IN_PROGRAMS):
            asked |= {
                f"{module} {node.attr}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and (node.value.id, node.attr) in ONLY_IN_PROGRAMS
            }
    return found, asked


def test_every_start_is_in_the_table() -> None:
    listed = {where for start in STARTS for where in start.where}
    found, _ = in_source()
    assert found - listed == set(), "add it to boundary/host_starts.py, with the reason why the host may run it"
    assert listed - found == set(), "boundary/host_starts.py names what is no longer there"


def test_programs_are_looked_up_in_one_place() -> None:
    _, asked = in_source()
    assert asked == {
        "boundary.programs executable",  # the answer
        "boundary.sandbox.namespace_helper executable",  # the interpreter without its environment
    }


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(['x'])", "import subprocess as s\nsubprocess.Popen('x')", "os.execv('x', [])",
        "os.system('x')", "await asyncio.create_subprocess_exec('x')", "NoSandbox().wrap(['x'])",
        "ctypes.CDLL('x.so')", "platform.platform()", "uuid.uuid1()", "ctypes.util.find_library('c')",
        "Spawn(['x'], '/', {})", "webbrowser.open('x')",
    ],
)  # fmt: skip
def test_a_new_start_is_seen(source: str) -> None:
    text = "async def new():\n" + "".join(f"    {line}\n" for line in source.splitlines())
    assert starts(ast.parse(text), "room.module") == {"room.module:new"}


def test_each_says_why() -> None:
    assert len({start.name for start in STARTS}) == len(STARTS)
    assert all(start.why and start.where for start in STARTS)


@pytest.mark.parametrize(
    "code",
    [
        "from toolcrib.cli import main; main(['doctor'])",
        "from toolcrib.jobs.opening import open_engine; open_engine('jobs.db', create=False)",
    ],
)
def test_nothing_is_started_by_its_name_alone(code: str, tmp_path: Path) -> None:
    """The standard library and packages start programs, too, that they find on PATH: `uname`, `file`."""
    planted = tmp_path / ".venv" / "bin"
    planted.mkdir(parents=True)
    for name in ("uname", "file", "ldconfig", "gcc", "cc", "ld", "objdump", "ifconfig", "ip", "arp", "git", "which"):
        (planted / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (planted / name).chmod(0o755)
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    env["PATH"] = f"{planted}:{os.environ['PATH']}"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, check=False)
    ran = tmp_path / "ran"
    assert not ran.exists(), ran.read_text()
