"""The examples run, and show what they say they show."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False,
        env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_first_tool_is_called_well_and_badly_and_shown_in_every_dialect(tmp_path):
    out = run("first_tool.py", tmp_path)
    assert "Paris: 21 °C for 1 day(s)" in out
    assert "Paris: 21 °C for 3 day(s)" in out
    for complaint in ("missing required city", "days should be an integer", "unit must be one of", "parameter town"):
        assert complaint in out
    for dialect in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        assert f"\n{dialect} [{{" in out


def test_a_person_is_asked_before_each_deletion(tmp_path):
    out = run("ask_before_effects.py", tmp_path)
    assert out.count("[asked] delete_file") == 2
    assert "keep.txt stays" in out
    assert "precious" in out
