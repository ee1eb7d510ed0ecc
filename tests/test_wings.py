"""The house lives without each of its wings: without its package and its line in `core/wings.py`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.core.wings import WINGS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/toolcrib"
TOOLS = {"apply_patch", "delete_file", "echo", "edit_file", "exec", "exec_session", "glob", "grep", "list_dir",
         "read_file", "write_file"}  # fmt: skip
"""Those of the main house."""
HOUSE = ["test_toolbox.py", "core/test_pipeline.py", "builtin/test_edit.py", "builtin/test_search.py"]
"""A part of its tests."""
LONG = "hangs_it or stubborn or pages_are_stable or swapped"
"""Tests of these that take half of their time, and say nothing about wings."""
LOOK = """
import contextlib, importlib, io, json, os, pkgutil, sys
def everything(left_out=()):
    import toolcrib
    for found in pkgutil.walk_packages(toolcrib.__path__, "toolcrib."):
        if found.name.rpartition(".")[2] != "__main__" and found.name not in left_out:
            importlib.import_module(found.name)
    return toolcrib.__path__
def look(copy, left_out):
    sys.path.insert(0, os.path.dirname(copy))
    for name in [name for name in sys.modules if name.partition(".")[0] == "toolcrib"]:
        del sys.modules[name]
    assert everything(left_out) == [copy]
    from toolcrib.cli import main
    said = []
    for command in ("list --json", "call write_file path=a.txt content=red",
                    "call edit_file path=a.txt old_text=red new_text=blue", "call grep pattern=blue",
                    "call exec command=pwd"):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                main(command.split())
            except SystemExit as end:
                assert not end.code, command
        said.append(out.getvalue())
    assert said[-2:] == ["a.txt\\n", os.getcwd() + "\\n"], said[1:]
    return [tool["name"] for tool in json.loads(said[0])]
found = {}
copies = json.load(sys.stdin)
if len(copies) > 1:
    everything()  # once, with the frameworks of all: they take seconds to load
for copy, left_out in copies.items():
    heard, tell = os.pipe()
    if os.fork() == 0:
        os.chdir(os.path.dirname(copy))
        os.write(tell, json.dumps(look(copy, left_out)).encode())
        os._exit(0)
    os.close(tell)
    found[copy] = json.loads(open(heard).read() or "[]")
    os.wait()
print(json.dumps(found))
"""


def without(wings: list[str], folder: Path) -> Path:
    """A copy of the package without these wings: no folder, no line."""
    copy = folder / "toolcrib"
    shutil.copytree(SOURCE, copy)
    listed = copy / "core/wings.py"
    text = listed.read_text(encoding="utf-8")
    for wing in wings:
        for package in {WINGS[wing].package, WINGS[wing].doors} - {"cli"}:
            place = copy.joinpath(*package.split("."))
            assert place.is_dir()
            shutil.rmtree(place)
        text, count = re.subn(rf'^    "{wing}": .*\n', "", text, flags=re.MULTILINE)
        assert count == 1
    listed.write_text(text, encoding="utf-8")
    return copy


def look(folder: Path, *left_out: list[str]) -> list[set[str]]:
    """For each of these lists of wings: import all that is left, but the modules of their commands, which lie in the
    main house; call some tools; the names of all tools."""
    copies = {}
    for number, wings in enumerate(left_out):
        in_house = (WINGS[wing].commands for wing in wings if WINGS[wing].doors == "cli")
        copy = without(wings, folder / str(number))
        copies[str(copy)] = [f"toolcrib.cli.{command}" for commands in in_house for command in commands]
    homes = {name: str(folder / name) for name in ("HOME", "XDG_STATE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", LOOK], input=json.dumps(copies), env={**os.environ, **homes}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(found.values()), done.stderr
    return [set(found[copy]) for copy in copies]


def test_the_house_stands_without_any_wing(tmp_path: Path) -> None:
    assert look(tmp_path, list(WINGS)) == [TOOLS]


@pytest.mark.slow
def test_each_wing_can_go(tmp_path: Path) -> None:
    tools = dict(zip(WINGS, look(tmp_path, *([wing] for wing in WINGS)), strict=True))
    assert {wing for wing, names in tools.items() if not names > TOOLS} == set()


@pytest.mark.slow
def test_the_tests_of_the_house_pass_without_any_wing(tmp_path: Path) -> None:
    without(list(WINGS), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", f"not ({LONG})",
         f"--basetemp={tmp_path / 'base'}", *(f"tests/{name}" for name in HOUSE)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
