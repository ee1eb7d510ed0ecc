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
import contextlib, importlib, io, json, pkgutil, sys
import toolcrib
assert toolcrib.__path__ == [sys.argv[1]], toolcrib.__path__
left_out = sys.argv[2:]
for found in pkgutil.walk_packages(toolcrib.__path__, "toolcrib."):
    if found.name.rpartition(".")[2] != "__main__" and found.name not in left_out:
        importlib.import_module(found.name)
from toolcrib.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out:
    try:
        main(["list", "--json"])
    except SystemExit as end:
        assert not end.code
print(json.dumps([tool["name"] for tool in json.loads(out.getvalue())]))
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


def look(wings: list[str], folder: Path) -> set[str]:
    """Import all that is left; the names of the tools. The commands of the wings are not asked for."""
    copy = without(wings, folder)
    work = folder / "work"
    work.mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    commands = [
        f"toolcrib.cli.{command}" for wing in wings if WINGS[wing].doors == "cli" for command in WINGS[wing].commands
    ]
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(copy), *commands], cwd=work, env=env, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_house_stands_without_any_wing(tmp_path: Path) -> None:
    assert look(list(WINGS), tmp_path) == TOOLS


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS)
def test_each_wing_can_go(wing: str, tmp_path: Path) -> None:
    assert look([wing], tmp_path) >= TOOLS
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", f"not ({LONG})",
         *(f"tests/{name}" for name in HOUSE)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
