"""The fixture `cassette`: it replays, records when it is told to, and names what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TEST = """
from toolcrib import tool
from toolcrib.testing import temporary_toolbox

@tool(category="memory")
def roll(dice: int) -> str:
    '''Roll dice.'''
    open("rolled", "a").write("x")
    return f"{dice}: {id(object())}"

async def test_dice(cassette):
    async with temporary_toolbox(tools=[roll], builtin=False) as box:
        cassette(box)
        assert (await box.call("roll", {"dice": DICE})).for_llm.startswith("2: ")
"""


def run(folder: Path, *more: str, dice: int = 2) -> tuple[int, str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["toolcrib.testing.plugin"]\n')
    (folder / "test_game.py").write_text(TEST.replace("DICE", str(dice)))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider",
         "-o", "asyncio_mode=auto", f"--basetemp={folder / 'base'}", *more],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    return done.returncode, done.stdout


def test_it_records_and_then_replays(tmp_path: Path) -> None:
    code, text = run(tmp_path)
    assert code == 1
    assert "`pytest --record-cassettes` runs the tools and makes it" in text
    assert not (tmp_path / "rolled").exists()
    assert run(tmp_path, "--record-cassettes")[0] == 0
    assert run(tmp_path, "--record-cassettes")[0] == 0
    assert (tmp_path / "cassettes" / "test_game.test_dice.cassette").exists()
    assert run(tmp_path)[0] == 0
    assert (tmp_path / "rolled").read_text() == "xx"
    code, text = run(tmp_path, dice=3)
    assert code == 1
    assert "1 calls of" in text
    assert (tmp_path / "rolled").read_text() == "xx"
