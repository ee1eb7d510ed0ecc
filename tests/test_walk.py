"""scripts/walk.py counts the functions that a command runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "walk.py"


def test_the_functions_of_a_command_are_counted_and_named() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--list", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    *names, counts = done.stderr.splitlines()
    found = re.fullmatch(r"(\d+) functions in (\d+) files, (\d+) of them called from another file", counts)
    assert found is not None
    assert int(found[1]) == len(names) == len(set(names))
    assert int(found[2]) == len({name.partition(":")[0] for name in names})
    assert 0 < int(found[3]) <= int(found[1])
    assert "cli/app.py:run" in names
