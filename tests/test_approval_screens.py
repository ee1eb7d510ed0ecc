"""The page of the questions at the terminal shows what the terminal shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOW = re.compile(r"^## ([^\n]+ columns)\n\nNow:\n\n```text\n(.*?)\n```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^--- ([^\n]+ columns)\n\n(.*?)\n\n(?=---|\Z)", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_screen_is_as_on_the_page(forked_python: str) -> None:
    page = (ROOT / "docs" / "approval-screens.md").read_text()
    shown = {title[0].lower() + title[1:]: screen for title, screen in NOW.findall(page)}
    script = str(ROOT / "scripts" / "approval_screens.py")
    code = f"import runpy, sys\nsys.executable = {forked_python!r}\nrunpy.run_path({script!r}, run_name='__main__')"
    done = subprocess.run([forked_python, "-c", code], capture_output=True, text=True, timeout=200, check=True)
    assert dict(PRINTED.findall(done.stdout)) == shown
    assert len(shown) == 8
